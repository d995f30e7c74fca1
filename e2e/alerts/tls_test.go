package alerts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
)

// authority issues the certificate that all processes of a cluster share.
type authority struct {
	*testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{T: t, dir: t.TempDir()}
	a.key = a.newKey()
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := a.sign(a.cert, a.key)
	a.write("ca.pem", "CERTIFICATE", der)
	var err error
	a.cert, err = x509.ParseCertificate(der)
	a.must(err)
	a.issue(90 * 24 * time.Hour)
	return a
}

func (a *authority) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	return key
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	a.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	a.must(err)
	return der
}

// write replaces a file at once.
func (a *authority) write(name, kind string, der []byte) {
	a.Helper()
	file := filepath.Join(a.dir, name)
	a.must(os.WriteFile(file+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	a.must(os.Rename(file+".new", file))
}

// issue writes a certificate that is valid for a while. The key stays the same, so that no process
// sees a certificate with the key of another one.
func (a *authority) issue(valid time.Duration) {
	a.Helper()
	der, err := x509.MarshalECPrivateKey(a.key)
	a.must(err)
	a.write("key.pem", "EC PRIVATE KEY", der)
	a.write("cert.pem", "CERTIFICATE", a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.key))
}

// startTLS starts a cluster of processes that have certificates. Clients need none.
func startTLS(t *testing.T) (*cluster, *authority) {
	t.Helper()
	a := newAuthority(t)
	secured := func(more ...string) []string {
		return append(more, "--tls.cert="+filepath.Join(a.dir, "cert.pem"), "--tls.key="+filepath.Join(a.dir, "key.pem"), "--tls.ca="+filepath.Join(a.dir, "ca.pem"))
	}
	c := start(t, "list-region", launcher.Options{Coordinators: 2, Regions: 2, Gateways: 1, Args: map[string][]string{
		launcher.Coordinator: secured(), launcher.Region: secured(), launcher.Gateway: secured("--tls.client_auth=none"),
	}})
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	c.client, c.scheme = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}, "https:"
	return c, a
}
