package backendurl

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// TLS is how a client of a backend connects by TLS. Its files are read for each connection, so that they can be replaced.
// A nil TLS is for plain connections.
type TLS struct{ ca, cert, key string }

// TLS reads the parameters tls, ca, cert and key: nil for plain connections.
func (u *URL) TLS() *TLS {
	on := u.OneOf("tls", "off", "on")
	t := &TLS{ca: u.Text("ca", ""), cert: u.Text("cert", ""), key: u.Text("key", "")}
	if on == "off" && *t == (TLS{}) {
		return nil
	}
	if (t.cert == "") != (t.key == "") {
		u.bad("parameters cert and key belong together; give both or none")
	} else if _, err := t.Config(); err != nil {
		u.bad("%w", err)
	}
	return t
}

// TrustedBy returns a TLS that trusts the authorities in a file, or the system's authorities if there is no
// file.
func TrustedBy(ca string) *TLS { return &TLS{ca: ca} }

// Config reads the files, and returns the configuration of a connection; nil: it is plain.
func (t *TLS) Config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.ca != "" {
		pem, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, fmt.Errorf("parameter ca: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("parameter ca: %s has no certificate in PEM", t.ca)
		}
	}
	if t.cert != "" {
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		if err != nil {
			return nil, fmt.Errorf("parameters cert and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// handshakeTimeout is the value of http.DefaultTransport.
const handshakeTimeout = 10 * time.Second

// Use has a transport connect in this way. A callback of one configuration would not do: while it verifies a server, it
// does not learn the address that was dialled. A transport that goes through a proxy has the files as they are now.
func (t *TLS) Use(transport *http.Transport) {
	if t == nil {
		return
	}
	transport.TLSClientConfig, _ = t.Config() // it was checked, and the next connection reports errors
	transport.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		config, err := t.Config()
		if err != nil {
			return nil, err
		}
		if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			return nil, err
		}
		if config.NextProtos = []string{"http/1.1"}; transport.ForceAttemptHTTP2 {
			config.NextProtos = []string{"h2", "http/1.1"}
		}
		dial := transport.DialContext
		if dial == nil {
			dial = (&net.Dialer{}).DialContext
		}
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		ctx, stop := context.WithTimeout(ctx, cmp.Or(transport.TLSHandshakeTimeout, handshakeTimeout))
		defer stop()
		conn := tls.Client(raw, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // the handshake has failed
			return nil, err
		}
		return conn, nil
	}
}
