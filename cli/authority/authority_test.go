package authority

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestIssue: a saved authority signs certificates that it vouches for, and is not overwritten.
func TestIssue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	made, err := New("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := made.Save(dir); err == nil {
		t.Error("an authority is overwritten")
	}
	if info, err := os.Stat(filepath.Join(dir, KeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is %v, %v", info.Mode(), err)
	}
	a, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, err := a.IssueFiles(dir, "region-1", Request{
		Name: "region-1", URIs: []string{URI("shop", "region", "region-1")}, Hosts: []string{"region-1.internal", "10.0.0.1"}, End: time.Now().Add(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	c := pair.Leaf
	for _, host := range []string{"region-1.internal", "10.0.0.1"} {
		for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			if _, err := c.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: host, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
	if len(c.URIs) != 1 || c.URIs[0].String() != "spiffe://shop/region/region-1" || c.IsCA {
		t.Errorf("URIs %v, authority %t", c.URIs, c.IsCA)
	}
	if block, _ := pem.Decode(a.PEM()); block == nil || block.Type != "CERTIFICATE" {
		t.Error("the authority is not PEM")
	}
	other, _ := New("other", time.Hour)
	if _, err := c.Verify(x509.VerifyOptions{Roots: other.Pool()}); err == nil {
		t.Error("another authority vouches for it")
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("an empty directory is an authority")
	}
}

// TestPlantedLinks: in a directory that another user may write to, a link with the name of a file that is about to be
// written leads nowhere: a private key would be written into a file of that user.
func TestPlantedLinks(t *testing.T) {
	a, err := New("test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	for _, name := range []string{"region-1.key.new", "region-1.pem.new", "region-1.key", "region-1.pem"} {
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, key, err := a.IssueFiles(dir, "region-1", Request{Name: "region-1", End: time.Now().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(victim); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file elsewhere has %q, %v", content, err)
	}
	if info, err := os.Lstat(key); err != nil || info.Mode() != 0o600 {
		t.Errorf("the key is %v, %v", info.Mode(), err)
	}
}
