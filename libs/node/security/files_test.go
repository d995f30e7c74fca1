package security_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/node/security/securitytest"
)

func TestTLSReload(t *testing.T) {
	a := securitytest.NewAuthority(t)
	files := a.Issue(2)
	var complaints []error
	loaded, err := security.LoadFiles("tls", files, func(err error) { complaints = append(complaints, err) })
	if err != nil {
		t.Fatal(err)
	}
	expect := func(serial int64) {
		t.Helper()
		leaf, _, err := loaded.Own()
		if err != nil || leaf.SerialNumber.Int64() != serial {
			t.Fatalf("got serial %v, %v; want %d", leaf.SerialNumber, err, serial)
		}
	}
	expect(2)
	a.Issue(3)
	expect(3)
	a.Must(os.WriteFile(files.Cert, []byte("half writ"), 0o600))
	expect(3)
	expect(3)
	if len(complaints) != 1 {
		t.Errorf("complaints about a broken file: %v, want one", complaints)
	}
	a.Issue(4)
	expect(4)
	a.Must(os.Remove(files.Key))
	expect(4)

	// Other files with the same time stamps and sizes: text outside PEM blocks is ignored.
	stamped := func(serial int64) {
		a.Issue(serial)
		for _, path := range []string{files.Cert, files.Key, files.CA} {
			text, err := os.ReadFile(path)
			a.Must(err)
			a.Must(os.WriteFile(path, append(text, strings.Repeat("\n", 8192-len(text))...), 0o600))
			a.Must(os.Chtimes(path, time.Unix(1_000_000_000, 0), time.Unix(1_000_000_000, 0)))
		}
	}
	stamped(5)
	expect(5)
	stamped(6)
	expect(6)
}

// TestSystemAuthorities: without tls.ca, a stranger could get a certificate with any URI from an authority of the
// system, so host names count.
func TestSystemAuthorities(t *testing.T) {
	a := securitytest.NewAuthority(t)
	files, err := security.LoadPeerFiles(a.IssueAt("spiffe://shop/region/r1"), "shop", security.DefaultIdentity, true, nil)
	a.Must(err)
	leaf, _, err := files.Own()
	a.Must(err)
	shown := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	shown.VerifiedChains = [][]*x509.Certificate{shown.PeerCertificates} // as the system's authorities would
	for _, withCA := range []bool{true, false} {
		config, err := files.ClientConfig("127.0.0.1:1", control.Region, withCA)
		a.Must(err)
		if err := config.VerifyConnection(shown); (err == nil) != withCA {
			t.Errorf("with tls.ca %t: %v", withCA, err)
		}
	}
}

func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// TestDenyList: each kind of line denies its certificate and no other.
func TestDenyList(t *testing.T) {
	a := securitytest.NewAuthority(t)
	load := func(files security.TLS) *x509.Certificate {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		a.Must(err)
		return pair.Leaf
	}
	one, two := load(a.IssueFor("spiffe://shop/region/r1", time.Now().Add(time.Hour))), load(a.IssueFor("spiffe://shop/region/r2", time.Now().Add(time.Hour)))
	for _, line := range []string{
		"spiffe://shop/region/r1", fmt.Sprintf("serial:00%X", one.SerialNumber), "sha256:" + fingerprint(one),
	} {
		denied, err := security.Denies("# comment\n\n"+line, one, two)
		if err != nil || !slices.Equal(denied, []bool{true, false}) {
			t.Errorf("%q: %v, %v", line, denied, err)
		}
	}
	for _, wrong := range []string{"region-1", "serial:", "serial:xyz", "sha256:00", "serial:00"} {
		if _, err := security.Denies(wrong); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
