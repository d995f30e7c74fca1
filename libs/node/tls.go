package node

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// tlsFiles holds the certificates of a node and reads the files again when one of them
// changes.
type tlsFiles struct {
	config TLS
	onBad  func(error) // called when changed files are unusable; the old ones stay in use

	mu     sync.Mutex
	stamps [3]stamp
	loaded *certificates
}

// stamp changes when its file does.
type stamp struct {
	modified time.Time
	size     int64
}

type certificates struct {
	own *tls.Certificate
	ca  *x509.CertPool // nil: the system's
}

// loadTLS reads the files, so that a node with invalid ones does not start. Without files
// it returns nil: plain TCP.
func loadTLS(config TLS, onBad func(error)) (*tlsFiles, error) {
	if config.Cert == "" {
		return nil, nil
	}
	files := &tlsFiles{config: config, onBad: onBad}
	_, err := files.current()
	return files, err
}

// current returns the certificates according to the files as they are now.
func (f *tlsFiles) current() (*certificates, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stamps, err := f.stat()
	if err == nil && f.loaded != nil && stamps == f.stamps {
		return f.loaded, nil
	}
	var fresh *certificates
	if err == nil {
		fresh, err = f.read()
	}
	switch {
	case err == nil:
		f.loaded, f.stamps = fresh, stamps
	case f.loaded == nil:
		return nil, err
	case stamps != f.stamps:
		// Probably half written: keep the old ones, and report it once.
		f.stamps = stamps
		f.onBad(err)
	}
	return f.loaded, nil
}

func (f *tlsFiles) stat() (stamps [3]stamp, err error) {
	for i, path := range []string{f.config.Cert, f.config.Key, f.config.CA} {
		if path == "" {
			continue
		}
		info, statErr := os.Stat(path)
		if statErr != nil {
			err = errors.Join(err, statErr)
			continue
		}
		stamps[i] = stamp{info.ModTime(), info.Size()}
	}
	return stamps, err
}

func (f *tlsFiles) read() (*certificates, error) {
	own, err := tls.LoadX509KeyPair(f.config.Cert, f.config.Key)
	if err != nil {
		return nil, fmt.Errorf("tls.cert %s with tls.key %s: %w", f.config.Cert, f.config.Key, err)
	}
	read := &certificates{own: &own}
	if f.config.CA == "" {
		return read, nil
	}
	pem, err := readBounded(f.config.CA, maxFile)
	if err != nil {
		return nil, fmt.Errorf("tls.ca: %w", err)
	}
	read.ca = x509.NewCertPool()
	if !read.ca.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls.ca %s: no certificate in it", f.config.CA)
	}
	return read, nil
}

// server returns the configuration of the service listener. Only HTTP/1.1 is offered,
// because links use Upgrade.
func (f *tlsFiles) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now, err := f.current()
			if err != nil {
				return nil, err
			}
			config := &tls.Config{
				MinVersion:   tls.VersionTLS12,
				NextProtos:   []string{"http/1.1"},
				Certificates: []tls.Certificate{*now.own},
			}
			if now.ca != nil && f.config.ClientAuth != "none" {
				config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, now.ca
			}
			return config, nil
		},
	}
}

// client returns the configuration of one connection to the peer at addr.
func (f *tlsFiles) client(addr string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	now, err := f.current()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"},
		Certificates: []tls.Certificate{*now.own},
		RootCAs:      now.ca,
		ServerName:   host,
	}, nil
}
