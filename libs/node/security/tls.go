package security

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/node/security/watchfile"
)

// Files holds the certificates of a node and reads the files again when one of them
// changes.
type Files struct {
	section    string // of the configuration
	config     TLS
	onBad      func(error)                // called when changed files are unusable; the old ones stay in use
	deny       *watchfile.File[*denyList] // nil: nothing is denied
	identities *identities                // nil: the other side is not a peer
	least      uint16                     // version of TLS
	conns      verifiedConns
	expired    expiredPeers

	mu     sync.Mutex
	loaded *certificates
	hash   [sha256.Size]byte // of the files that loaded is from
	said   string            // the last error that onBad was called with
}

type certificates struct {
	own *tls.Certificate
	ca  *x509.CertPool // nil: the system's
	// expires is the time when the first certificate of the own chain expires.
	expires time.Time
}

// LoadFiles reads the files, so that a node with invalid ones does not start. Without files
// it returns nil: plain TCP.
func LoadFiles(section string, config TLS, onBad func(error)) (*Files, error) {
	if config.Cert == "" {
		return nil, nil
	}
	// Clients can be of any age. Peers are of our own making.
	files := &Files{section: section, config: config, onBad: onBad, least: tls.VersionTLS12}
	if _, err := files.current(); err != nil {
		return nil, err
	}
	var err error
	files.deny, err = openDenyList(section, config.Deny, onBad)
	return files, err
}

// LoadPeerFiles is LoadFiles for the connections of peers: their certificates are for processes of a cluster, in the form of
// tls.identity, and must name a role if that is required.
func LoadPeerFiles(config TLS, cluster, identity string, required bool, onBad func(error)) (*Files, error) {
	files, err := LoadFiles("tls", config, onBad)
	if err != nil || files == nil {
		return nil, err
	}
	files.least = tls.VersionTLS13
	if files.identities, err = newIdentities(cluster, identity, required); err != nil {
		return nil, fmt.Errorf("tls.identity: %w", err)
	}
	return files, nil
}

// Own returns the certificate in use, and the time when it or one of its chain expires.
func (f *Files) Own() (leaf *x509.Certificate, expires time.Time, err error) {
	now, err := f.current()
	if err != nil {
		return nil, time.Time{}, err
	}
	return now.own.Leaf, now.expires, nil
}

// Identify returns which process a peer's certificate is for.
func (f *Files) Identify(c *x509.Certificate) (control.Identity, error) { return f.identities.of(c) }

// RecentlyExpired returns the peers that were refused in the last hour because their certificates had expired, by name.
func (f *Files) RecentlyExpired() []Expired { return f.expired.recent() }

// Listener returns a listener that accepts connections by TLS.
func (f *Files) Listener(l net.Listener) net.Listener {
	return tls.NewListener(verifiedListener{l, &f.conns}, f.server())
}

// Handshake secures a connection to the peer at addr, which must have one of the roles, and the certificate of one of the
// nodes if any are named. It closes the connection if that fails.
func (f *Files) Handshake(ctx context.Context, conn net.Conn, addr string, roles control.Role, nodes []string) (net.Conn, error) {
	wrapped := f.conns.wrap(conn)
	config, err := f.client(addr, target{roles: roles, nodes: nodes}, wrapped)
	if err != nil {
		wrapped.Close()
		return nil, err
	}
	secure := tls.Client(wrapped, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		wrapped.Close()
		return nil, fmt.Errorf("peer %s: %w", addr, err)
	}
	return secure, nil
}

// current returns the certificates according to the files as they are now. Their content is compared, because files
// that replace each other can have the same time stamp and size.
func (f *Files) current() (*certificates, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cert, key, ca, err := f.texts()
	hash := sha256.New()
	for _, text := range [][]byte{cert, key, ca} {
		fmt.Fprintln(hash, len(text))
		hash.Write(text)
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	if err == nil && (f.loaded == nil || sum != f.hash) {
		var fresh *certificates
		if fresh, err = f.parse(cert, key, ca); err == nil {
			f.loaded, f.hash = fresh, sum
		}
	}
	said := ""
	if err != nil {
		if f.loaded == nil {
			return nil, err
		}
		// Probably half written: keep the old ones, and report it once.
		if said = err.Error(); said != f.said {
			f.onBad(err)
		}
	}
	f.said = said
	return f.loaded, nil
}

// texts reads the files.
func (f *Files) texts() (cert, key, ca []byte, err error) {
	read := func(name, path string) (text []byte) {
		if path == "" {
			return nil
		}
		text, readErr := watchfile.Read(path)
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("%s.%s: %w", f.section, name, readErr))
		}
		return text
	}
	cert, key, ca = read("cert", f.config.Cert), read("key", f.config.Key), read("ca", f.config.CA)
	return cert, key, ca, err
}

func (f *Files) parse(cert, key, ca []byte) (*certificates, error) {
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s.cert %s with %s.key %s: %w", f.section, f.config.Cert, f.section, f.config.Key, err)
	}
	read := &certificates{own: &own, expires: own.Leaf.NotAfter}
	for _, der := range own.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%s.cert %s: %w", f.section, f.config.Cert, err)
		}
		if c.NotAfter.Before(read.expires) {
			read.expires = c.NotAfter
		}
	}
	if f.config.CA == "" {
		return read, nil
	}
	read.ca = x509.NewCertPool()
	if !read.ca.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s.ca %s: no certificate in it", f.section, f.config.CA)
	}
	return read, nil
}

// server returns the configuration of a listener. Only HTTP/1.1 is offered,
// because links use Upgrade.
func (f *Files) server() *tls.Config {
	return &tls.Config{
		MinVersion: f.least,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			now, err := f.current()
			if err != nil {
				return nil, err
			}
			config := f.both(now, hello.Conn, x509.ExtKeyUsageClientAuth, func(c *x509.Certificate) error {
				if f.identities == nil {
					return nil
				}
				_, err := f.identities.of(c)
				return err
			})
			if now.ca != nil && f.config.ClientAuth != "none" {
				config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, now.ca
				switch {
				case f.identities != nil: // accept verifies it, and remembers whose certificate has expired
					config.ClientAuth = tls.RequireAnyClientCert
				case f.config.ClientAuth == "request":
					config.ClientAuth = tls.VerifyClientCertIfGiven
				}
			}
			return config, nil
		},
	}
}

// client returns the configuration of one connection, conn, to the peer at addr.
func (f *Files) client(addr string, to target, conn net.Conn) (*tls.Config, error) {
	var err error
	if to.host, _, err = net.SplitHostPort(addr); err != nil {
		return nil, err
	}
	now, err := f.current()
	if err != nil {
		return nil, err
	}
	config := f.both(now, conn, x509.ExtKeyUsageServerAuth, func(c *x509.Certificate) error {
		if now.ca == nil { // the authorities of the system sign for everybody, whatever the URI
			if err := c.VerifyHostname(to.host); err != nil {
				return err
			}
		}
		return f.identities.check(c, to)
	})
	config.ServerName = to.host
	// accept verifies the certificate: crypto/tls would insist on the host name.
	config.InsecureSkipVerify = true
	return config, nil
}

// both returns the common configuration of servers and clients. The peer at the other end of conn is accepted
// if accept and checkPeer return no error for its certificate.
func (f *Files) both(now *certificates, conn net.Conn, use x509.ExtKeyUsage, checkPeer func(*x509.Certificate) error) *tls.Config {
	return &tls.Config{
		MinVersion:   f.least,
		NextProtos:   []string{"http/1.1"},
		Certificates: []tls.Certificate{*now.own},
		VerifyConnection: func(state tls.ConnectionState) error {
			return f.accept(conn, state, use, now.ca, checkPeer)
		},
	}
}
