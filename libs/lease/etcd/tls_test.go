package etcd

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
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
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/credentials"

	"github.com/roost-cluster/roost/libs/backendurl"
)

// TestRotatedAuthority replaces the file of the authority between two connections. The server must have the address that
// was dialled.
func TestRotatedAuthority(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	trust := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, other, other, public, private)
	if err != nil {
		t.Fatal(err)
	}
	trust(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	u, err := backendurl.ParseURL("etcd://" + server.Listener.Addr().String() + "/x?ca=" + file)
	if err != nil {
		t.Fatal(err)
	}
	secure := u.TLS()
	var c clientv3.Config
	if err := useFiles(&c, secure); err != nil || len(c.DialOptions) != 1 {
		t.Fatalf("%d options, %v", len(c.DialOptions), err)
	}
	creds := credentials.TransportCredentials(files{credentials.NewTLS(c.TLS), secure}).Clone()
	connect := func(authority string) error {
		raw, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = raw.Close() }()
		_, _, err = creds.ClientHandshake(t.Context(), authority, raw)
		return err
	}
	here := server.Listener.Addr().String()
	if err := connect(here); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a server of another authority: %v", err)
	}
	trust(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	if err := connect(here); err != nil {
		t.Errorf("after the file was replaced: %v", err)
	}
	if err := connect("127.0.0.2:2379"); err == nil || !strings.Contains(err.Error(), "127.0.0.2") {
		t.Errorf("a server with another address: %v", err)
	}
	trust([]byte("half"))
	if err := connect(here); err == nil || !strings.Contains(err.Error(), "parameter ca") {
		t.Errorf("with a broken file: %v", err)
	}
	if c = (clientv3.Config{}); useFiles(&c, nil) != nil || c.TLS != nil || len(c.DialOptions) != 0 {
		t.Errorf("without TLS: %+v", c)
	}
}
