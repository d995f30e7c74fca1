package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadinessSaysWhy: a gateway without a table reports which addresses it has asked,
// with what result.
func TestReadinessSaysWhy(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = io.WriteString(w, `{"code":"failed_precondition","msg":"this is cluster prod, not test"}`)
	}))
	defer other.Close()
	f := newFake(t, 1<<20)
	for url, want := range map[string]string{
		"file:" + filepath.Join(t.TempDir(), "peers"):        "no such file",
		"static:127.0.0.1:1":                                 "127.0.0.1:1: ",
		"static:" + strings.TrimPrefix(other.URL, "http://"): "this is cluster prod, not test",
		"static:": "discovery lists no peers",
	} {
		g := f.start(func(c *Config) { c.Discovery.URL = url })
		eventually(t, "said: "+want, func() bool {
			res, err := http.Get(g.management + "/readyz?verbose")
			if err != nil {
				return false
			}
			defer func() { _ = res.Body.Close() }()
			text, _ := io.ReadAll(res.Body)
			return res.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "no route table yet: ") && strings.Contains(string(text), want)
		})
	}
}

// TestComplaintsAreForgotten: the error of an address is reported only while discovery
// lists it.
func TestComplaintsAreForgotten(t *testing.T) {
	f := newFake(t, 1<<20)
	peers := filepath.Join(t.TempDir(), "peers")
	list := func(addr string) {
		t.Helper()
		if err := os.WriteFile(peers+".new", []byte(addr+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(peers+".new", peers); err != nil {
			t.Fatal(err)
		}
	}
	list("127.0.0.1:1")
	g := f.start(func(c *Config) { c.Discovery.URL = "file:" + peers })
	says := func(want, not string) func() bool {
		return func() bool {
			res, err := http.Get(g.management + "/readyz?verbose")
			if err != nil {
				return false
			}
			defer func() { _ = res.Body.Close() }()
			text, _ := io.ReadAll(res.Body)
			return strings.Contains(string(text), want) && !strings.Contains(string(text), not)
		}
	}
	eventually(t, "the first address is reported", says("127.0.0.1:1: ", "127.0.0.1:2: "))
	n := 0
	eventually(t, "only the second one is", func() bool {
		n++ // a call to the first one may be in progress, and fail, when the list changes
		list(fmt.Sprintf("127.0.0.1:2\n127.0.0.1:%d", 3+n%2))
		return says("127.0.0.1:2: ", "127.0.0.1:1: ")()
	})
}

// TestRequiredTypes: a gateway is ready only when all types that it requires have been registered.
func TestRequiredTypes(t *testing.T) {
	f := newFake(t, 1<<20)
	readyz := func(g *running) string {
		res, err := http.Get(g.management + "/readyz")
		if err != nil {
			return err.Error()
		}
		defer func() { _ = res.Body.Close() }()
		text, _ := io.ReadAll(res.Body)
		return string(text)
	}
	ready := f.start(func(c *Config) { c.Required = []string{"Echo"} })
	eventually(t, "the required type is there", func() bool { return readyz(ready) == "ok\n" })
	waits := f.start(func(c *Config) { c.Required = []string{"Order", "Echo", "Cart"} })
	eventually(t, "it waits for two types", func() bool {
		return strings.Contains(readyz(waits), "[-] gateway: no region has registered yet that has the entity types Order, Cart (gateway.required_types)")
	})
	cfg := DefaultConfig()
	cfg.Required = []string{"no type"}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "gateway.required_types") {
		t.Errorf("a bad name is accepted: %v", err)
	}
}
