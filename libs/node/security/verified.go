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

// verifiedConns holds the open connections whose peer presented a certificate. A connection can stay open for
// months. So Review closes it when the certificate expires or is denied, or when its authority is no longer trusted.
type verifiedConns struct {
	mu   sync.Mutex
	open map[*verifiedConn]struct{}
}

// verifiedConn is the connection below TLS.
type verifiedConn struct {
	net.Conn
	of *verifiedConns

	// presented holds the certificates that the peer presented, its own first; nil until accept has verified them.
	// It and the fields below are guarded by of.mu.
	presented []*x509.Certificate
	expires   time.Time // when the last valid chain expires
	use       x509.ExtKeyUsage
	roots     *x509.CertPool
}

// wrap returns a connection that is added to v once its certificate has been accepted.
func (v *verifiedConns) wrap(conn net.Conn) *verifiedConn { return &verifiedConn{Conn: conn, of: v} }

// verifiedListener wraps the connections that it accepts.
type verifiedListener struct {
	net.Listener
	conns *verifiedConns
}

// Accept implements [net.Listener].
func (l verifiedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.conns.wrap(conn), nil
}

// Close implements [net.Conn].
func (c *verifiedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// accepted adds the connection to the open ones, with the data that Review needs.
func (c *verifiedConn) accepted(presented []*x509.Certificate, expires time.Time, use x509.ExtKeyUsage, roots *x509.CertPool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.open == nil {
		c.of.open = map[*verifiedConn]struct{}{}
	}
	c.presented, c.expires, c.use, c.roots = presented, expires, use, roots
	c.of.open[c] = struct{}{}
}

// latestExpiry returns the time when the last of the chains expires. A chain expires with its first certificate.
func latestExpiry(chains [][]*x509.Certificate) (latest time.Time) {
	for _, chain := range chains {
		var first time.Time
		for _, c := range chain {
			if first.IsZero() || c.NotAfter.Before(first) {
				first = c.NotAfter
			}
		}
		if first.After(latest) {
			latest = first
		}
	}
	return latest
}

// verifyChains returns the chains from the first of the presented certificates to a root. The other presented
// certificates are intermediates.
func verifyChains(presented []*x509.Certificate, use x509.ExtKeyUsage, roots *x509.CertPool, at time.Time) ([][]*x509.Certificate, error) {
	intermediates := x509.NewCertPool()
	for _, c := range presented[1:] {
		intermediates.AddCert(c)
	}
	return presented[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{use}, CurrentTime: at})
}

// accept is called when the peer of a connection has presented its certificate. It refuses a certificate that no
// root authority has signed, that has expired, that is denied, or that checkPeer rejects.
func (f *Files) accept(conn net.Conn, state tls.ConnectionState, use x509.ExtKeyUsage, roots *x509.CertPool, checkPeer func(*x509.Certificate) error) error {
	presented, chains := state.PeerCertificates, state.VerifiedChains
	if len(presented) == 0 {
		return nil // this listener does not require a client certificate
	}
	if chains == nil {
		var err error
		if chains, err = verifyChains(presented, use, roots, time.Now()); err != nil {
			f.expired.note(presented, use, roots)
			return &tls.CertificateVerificationError{UnverifiedCertificates: presented, Err: err}
		}
	}
	expires := latestExpiry(chains)
	if !time.Now().Before(expires) { // a resumed session keeps its original chains
		return fmt.Errorf("the certificate expired at %s", expires.UTC().Format(time.RFC3339))
	}
	if err := f.denied(presented); err != nil {
		return err
	}
	if err := checkPeer(presented[0]); err != nil {
		return err
	}
	f.expired.renewed(presented[0])
	if c, is := conn.(*verifiedConn); is {
		c.accepted(presented, expires, use, roots)
	}
	return nil
}

// Review closes the connections whose certificates are not accepted any more, until ctx is done.
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
		for c := range f.conns.open { // order-free: all are checked
			if err := f.stillAccepted(c, now.ca); err != nil {
				closing[c] = err
				f.expired.note(c.presented, c.use, now.ca)
			}
		}
		f.conns.mu.Unlock()
		for c, err := range closing { // order-free: all are closed
			log.Warn("closing a connection whose certificate became invalid", "peer", c.RemoteAddr(), "certificate", nameOf(c.presented[0]), "reason", err)
			_ = c.Close()
		}
	}
}

// stillAccepted returns an error if a connection's certificate is not accepted any more. The lock of
// the connections must be held.
func (f *Files) stillAccepted(c *verifiedConn, roots *x509.CertPool) error {
	if now := time.Now(); !now.Before(c.expires) {
		return fmt.Errorf("it expired at %s", c.expires.UTC().Format(time.RFC3339))
	}
	if err := f.denied(c.presented); err != nil {
		return err
	}
	if roots == nil || roots == c.roots {
		return nil
	}
	chains, err := verifyChains(c.presented, c.use, roots, time.Now())
	if err != nil {
		return fmt.Errorf("%s.ca has changed: %w", f.section, err)
	}
	c.expires, c.roots = latestExpiry(chains), roots
	return nil
}
