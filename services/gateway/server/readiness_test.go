package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadinessSaysWhy: a gateway without a table says whom it has asked, and what
// came of it.
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
		"static:": "discovery lists nobody",
	} {
		g := f.start(func(c *Config) { c.Discovery = url })
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
