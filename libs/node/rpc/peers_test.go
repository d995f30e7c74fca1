package rpc

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/node/config"
	"github.com/roost-cluster/roost/libs/node/security"
	"github.com/roost-cluster/roost/libs/node/security/securitytest"
)

// A gateway on another host that listens for questions on loopback is not asked: this host's own loopback would answer.
func TestGatewayOutOfReach(t *testing.T) {
	for _, test := range []struct {
		self, gateway, peers, management string
		out                              bool
	}{
		{"10.0.0.1:25521", "10.0.0.2:8080", "", "127.0.0.1:8558", true},
		{"10.0.0.1:25521", "10.0.0.2:8080", "", "localhost:8558", true},
		{"10.0.0.1:25521", "10.0.0.2:8080", "[::1]:9000", "10.0.0.2:8558", true},
		{"10.0.0.1:25521", "10.0.0.2:8080", "10.0.0.2:9000", "127.0.0.1:8558", false},
		{"10.0.0.1:25521", "10.0.0.2:8080", "", "10.0.0.2:8558", false},
		{"10.0.0.1:25521", "10.0.0.1:8080", "", "127.0.0.1:8558", false}, // on the same host
		{"127.0.0.1:25521", "127.0.0.1:8080", "", "127.0.0.1:8558", false},
		{"10.0.0.1:25521", "10.0.0.2:8080", "", "", false}, // it is queried, and the answer shows the fault
	} {
		err := GatewayOutOfReach(test.self, test.gateway, test.peers, test.management)
		if (err != nil) != test.out || err != nil && !strings.Contains(err.Error(), "which only its own host reaches") {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// configOf is a configuration with TLS files and a time to connect.
func configOf(files security.TLS, timeout time.Duration) *config.Config {
	c := config.Default(":0")
	c.TLS, c.DialTimeout, c.MaxAnswer = files, timeout, 1<<20
	return &c
}

func TestTLSRefuses(t *testing.T) {
	a := securitytest.NewAuthority(t)
	good := a.Issue(2)
	absent, wrong, empty := good, good, good
	absent.Cert = "/nonexistent"
	wrong.Key = good.Cert
	empty.CA = filepath.Join(t.TempDir(), "ca.pem")
	a.Must(os.WriteFile(empty.CA, []byte("nothing"), 0o600))
	for name, test := range map[string]struct {
		files security.TLS
		want  string
	}{"absent": {absent, "/nonexistent"}, "wrong key": {wrong, "tls.key"}, "empty authority": {empty, "no certificate"}} {
		if _, err := NewPeers(configOf(test.files, time.Second), nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDialTimeout(t *testing.T) {
	// A listener that accepts and says nothing: the handshake never ends.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	p, err := NewPeers(configOf(securitytest.NewAuthority(t).Issue(2), 20*time.Millisecond), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Of(Members).Dial(t.Context(), mute.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
