package security

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"
)

// reviewEvery is the interval between comparisons of open connections with the certificates that are
// accepted now.
const reviewEvery = time.Second

// verifiedConns are the open connections whose other side has shown a certificate. A connection can stay open for
// months. So it is closed when the certificate expires or is denied, or when its authority is no longer trusted.
type verifiedConns struct {
	mu   sync.Mutex
	open map[*verifiedConn]struct{}
}

// verifiedConn is the connection below TLS.
type verifiedConn struct {
	net.Conn
	of *verifiedConns

	// Of the certificate; guarded by of.mu. chain is nil until there is one.
	chain []*x509.Certificate
	end   time.Time
	use   x509.ExtKeyUsage
	roots *x509.CertPool
}

func (v *verifiedConns) track(conn net.Conn) *verifiedConn { return &verifiedConn{Conn: conn, of: v} }

// tracking is a listener whose connections are known while they are open.
type tracking struct {
	net.Listener
	conns *verifiedConns
}

// Accept implements [net.Listener].
func (t tracking) Accept() (net.Conn, error) {
	conn, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return t.conns.track(conn), nil
}

// Close implements [net.Conn].
func (c *verifiedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// verified stores what review needs to know of the other side's certificate.
func (c *verifiedConn) verified(chain []*x509.Certificate, end time.Time, use x509.ExtKeyUsage, roots *x509.CertPool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.open == nil {
		c.of.open = map[*verifiedConn]struct{}{}
	}
	c.chain, c.end, c.use, c.roots = chain, end, use, roots
	c.of.open[c] = struct{}{}
}

// endOf returns when the last of the chains that prove a certificate expires.
func endOf(chains [][]*x509.Certificate) (end time.Time) {
	for _, chain := range chains {
		var first time.Time
		for _, c := range chain {
			if first.IsZero() || c.NotAfter.Before(first) {
				first = c.NotAfter
			}
		}
		if first.After(end) {
			end = first
		}
	}
	return end
}

// chainsOf returns the chains that prove the first of the certificates that were shown. The others are intermediate
// certificates.
func chainsOf(shown []*x509.Certificate, use x509.ExtKeyUsage, roots *x509.CertPool, at time.Time) ([][]*x509.Certificate, error) {
	between := x509.NewCertPool()
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	return shown[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{use}, CurrentTime: at})
}

// accept is called when the other side of a connection has shown its certificate. It refuses a certificate that no
// authority among the roots has signed, that has expired, that is denied, or that meant refuses.
func (f *Files) accept(conn net.Conn, state tls.ConnectionState, use x509.ExtKeyUsage, roots *x509.CertPool, meant func(*x509.Certificate) error) error {
	shown, chains := state.PeerCertificates, state.VerifiedChains
	if len(shown) == 0 {
		return nil // clients need not show a certificate here
	}
	if chains == nil {
		var err error
		if chains, err = chainsOf(shown, use, roots, time.Now()); err != nil {
			f.expired.note(shown, use, roots)
			return &tls.CertificateVerificationError{UnverifiedCertificates: shown, Err: err}
		}
	}
	end := endOf(chains)
	if !time.Now().Before(end) { // a resumed session is older
		return fmt.Errorf("the certificate has expired at %s", end.UTC().Format(time.RFC3339))
	}
	if err := f.denied(shown); err != nil {
		return err
	}
	if err := meant(shown[0]); err != nil {
		return err
	}
	f.expired.renewed(shown[0])
	if tracked, is := conn.(*verifiedConn); is {
		tracked.verified(shown, end, use, roots)
	}
	return nil
}

// review closes the connections whose certificates are not accepted any more, until ctx is done.
func (f *Files) Review(ctx context.Context, log *slog.Logger) {
	if f == nil {
		return
	}
	tick := time.NewTicker(reviewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now, err := f.current()
		if err != nil {
			continue
		}
		f.conns.mu.Lock()
		closing := map[*verifiedConn]error{}
		for c := range f.conns.open { // order-free: all are looked at
			if err := f.stillAccepted(c, now.ca); err != nil {
				closing[c] = err
				f.expired.note(c.chain, c.use, now.ca)
			}
		}
		f.conns.mu.Unlock()
		for c, err := range closing { // order-free: all are closed
			log.Warn("closing a connection whose certificate became invalid", "peer", c.RemoteAddr(), "certificate", nameOf(c.chain[0]), "reason", err)
			_ = c.Close()
		}
	}
}

// stillAccepted returns an error if a connection's certificate is not accepted any more. The lock of
// the connections must be held.
func (f *Files) stillAccepted(c *verifiedConn, roots *x509.CertPool) error {
	if now := time.Now(); !now.Before(c.end) {
		return fmt.Errorf("it has expired at %s", c.end.UTC().Format(time.RFC3339))
	}
	if err := f.denied(c.chain); err != nil {
		return err
	}
	if roots == nil || roots == c.roots {
		return nil
	}
	chains, err := chainsOf(c.chain, c.use, roots, time.Now())
	if err != nil {
		return fmt.Errorf("%s.ca has changed: %w", f.section, err)
	}
	c.end, c.roots = endOf(chains), roots
	return nil
}
