package backendurl

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// authority signs certificates of servers.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "an authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &authority{t, key, cert}
}

// server returns a certificate for a server at an address.
func (a *authority) server(address string) *tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP(address)}}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// write puts the authority into a file.
func (a *authority) write(path string) {
	a.t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// TestRotatedAuthority replaces the file of the authority while a client is in use, for each version of HTTP. A connection
// needs a server of the authority that is in the file then, with the address that was dialled.
func TestRotatedAuthority(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		var cert atomic.Pointer[tls.Certificate]
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.EnableHTTP2 = true
		server.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.Load(), nil }}
		one, two := newAuthority(t), newAuthority(t)
		cert.Store(one.server("127.0.0.1"))
		server.StartTLS()
		defer server.Close()
		server.TLS.Certificates = nil // the certificates of the test server

		file := filepath.Join(t.TempDir(), "ca.pem")
		one.write(file)
		u, err := ParseURL("consul://127.0.0.1:1/x?ca=" + file)
		if err != nil {
			t.Fatal(err)
		}
		secure := u.TLS()
		if err := u.Err(); err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{ForceAttemptHTTP2: http2}
		secure.Use(transport)
		get := func() (string, error) {
			transport.CloseIdleConnections()
			res, err := (&http.Client{Transport: transport}).Get(server.URL)
			if err != nil {
				return "", err
			}
			defer func() { _ = res.Body.Close() }()
			text, err := io.ReadAll(res.Body)
			return string(text), err
		}
		proto := "HTTP/1.1"
		if http2 {
			proto = "HTTP/2.0"
		}
		if got, err := get(); got != proto || err != nil {
			t.Fatalf("%s, %v, want %s", got, err, proto)
		}
		cert.Store(two.server("127.0.0.1"))
		if _, err := get(); err == nil || !strings.Contains(err.Error(), "unknown authority") {
			t.Errorf("a server of another authority: %v", err)
		}
		two.write(file)
		if got, err := get(); got != proto || err != nil {
			t.Errorf("after the file was replaced: %s, %v", got, err)
		}
		cert.Store(two.server("127.0.0.2"))
		if _, err := get(); err == nil || !strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("a server with another address: %v", err)
		}
		if err := os.WriteFile(file, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := get(); err == nil || !strings.Contains(err.Error(), "parameter ca") {
			t.Errorf("with a broken file: %v", err)
		}
	}
}

// TestNoTLS: without parameters, connections are plain.
func TestNoTLS(t *testing.T) {
	u, err := ParseURL("consul://127.0.0.1:1/x")
	if err != nil {
		t.Fatal(err)
	}
	var transport http.Transport
	u.TLS().Use(&transport)
	if config, err := u.TLS().Config(); u.TLS() != nil || transport.DialTLSContext != nil || config != nil || err != nil {
		t.Errorf("%v, %v, %v", u.TLS(), config, err)
	}
}
