//go:build linux

package servertest_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/test/servertest"
)

func TestEtcd(t *testing.T) {
	s := servertest.Etcd(t)
	lives(t, s, func(verb string) string {
		// The keys and values of its JSON are base64.
		body := `{"key":"cm9vc3Q="}`
		if verb == "put" {
			body = `{"key":"cm9vc3Q=","value":"a2VwdA=="}`
		}
		if verb == "get" {
			verb = "range"
		}
		return call(t, http.MethodPost, s.URL()+"/v3/kv/"+verb, body, "")
	}, "a2VwdA==")
}

func TestConsul(t *testing.T) {
	s := servertest.Consul(t, servertest.ConsulConfig{})
	lives(t, s, func(verb string) string {
		if verb == "put" {
			return call(t, http.MethodPut, s.URL()+"/v1/kv/roost", "kept", "")
		}
		return call(t, http.MethodGet, s.URL()+"/v1/kv/roost?raw", "", "")
	}, "kept")
}

func TestConsulWithTokens(t *testing.T) {
	s := servertest.Consul(t, servertest.ConsulConfig{ACL: true})
	if got := call(t, http.MethodPut, s.URL()+"/v1/kv/roost", "x", ""); !strings.Contains(got, "Permission denied") {
		t.Errorf("without a token: %s", got)
	}
	if got := call(t, http.MethodPut, s.URL()+"/v1/kv/roost", "x", servertest.ConsulRoot); got != "true\n" && got != "true" {
		t.Errorf("with the token: %s", got)
	}
}

// lives restarts, stops and pauses a server; what was stored must stay.
func lives(t *testing.T, s *servertest.Server, do func(verb string) string, want string) {
	t.Helper()
	do("put")
	for _, again := range []func(){s.Restart, func() { s.Stop(); s.Run() }, func() { s.Pause(); s.Resume() }} {
		again()
		if got := do("get"); !strings.Contains(got, want) {
			t.Errorf("want %s, got %s", want, got)
		}
	}
	s.Kill()
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		_ = conn.Close()
		t.Error("a killed server accepts connections")
	}
}

func call(t *testing.T, method, url, body, token string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Consul-Token", token)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
