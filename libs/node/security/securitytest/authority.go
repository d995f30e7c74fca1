package securitytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/node/security"
)

// authority signs certificates for loopback.
type Authority struct {
	t      *testing.T
	Dir    string // of its files; ca.pem is its own certificate
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// NewAuthority returns an authority whose files are in a directory of the test.
func NewAuthority(t *testing.T) *Authority {
	a := &Authority{t: t, Dir: t.TempDir()}
	a.key = a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(50 * time.Minute), // sooner than what it issues
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	a.Must(err)
	a.cert, err = x509.ParseCertificate(der)
	a.Must(err)
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

// must ends the test if there is an error.
func (a *Authority) Must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.Must(err)
	return key
}

func (a *Authority) write(name, kind string, der []byte) {
	a.t.Helper()
	a.Must(os.WriteFile(filepath.Join(a.Dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// issue writes a certificate with the given serial number and its key.
func (a *Authority) Issue(serial int64) security.TLS {
	a.t.Helper()
	key := a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	a.Must(err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	a.Must(err)
	a.write("cert.pem", "CERTIFICATE", der)
	a.write("key.pem", "EC PRIVATE KEY", keyDER)
	// Timestamps of file systems may be too coarse to tell two writes apart.
	a.serial++
	stamp := time.Unix(a.serial, 0)
	a.Must(os.Chtimes(filepath.Join(a.Dir, "cert.pem"), stamp, stamp))
	return security.TLS{
		Cert: filepath.Join(a.Dir, "cert.pem"), Key: filepath.Join(a.Dir, "key.pem"),
		CA: filepath.Join(a.Dir, "ca.pem"), ClientAuth: "require",
	}
}

// IssueFor writes a certificate with a URI and its key to files of its own.
func (a *Authority) IssueFor(uri string, end time.Time) security.TLS {
	a.t.Helper()
	key := a.newKey()
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1000 + a.serial), Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if uri != "" {
		u, err := url.Parse(uri)
		a.Must(err)
		template.URIs = []*url.URL{u}
	}
	return a.sign(template, key)
}

// sign writes the certificate of a template.
func (a *Authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) security.TLS {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	a.Must(err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	a.Must(err)
	name := fmt.Sprintf("%x", template.SerialNumber)
	a.write(name+".pem", "CERTIFICATE", der)
	a.write(name+".key", "EC PRIVATE KEY", keyDER)
	return security.TLS{Cert: filepath.Join(a.Dir, name+".pem"), Key: filepath.Join(a.Dir, name+".key"), CA: filepath.Join(a.Dir, "ca.pem"), ClientAuth: "require"}
}

// IssueAt writes a certificate with a URI for some host names and addresses, or for none.
func (a *Authority) IssueAt(uri string, hosts ...string) security.TLS {
	a.t.Helper()
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(5000 + a.serial), Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	if uri != "" {
		u, err := url.Parse(uri)
		a.Must(err)
		template.URIs = []*url.URL{u}
	}
	return a.sign(template, a.newKey())
}
