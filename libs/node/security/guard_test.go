package security

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestStrangeHostIsLogged: an absolute name is the same name, and a refused one is in the log.
func TestStrangeHostIsLogged(t *testing.T) {
	var text strings.Builder
	none, _ := NewOrigins(nil)
	g := Guard{Hosts: []string{"localhost", HostName("Region-1.example.:25520")}, Origins: none, Log: slog.New(slog.NewTextHandler(&text, nil))}
	for host, want := range map[string]bool{"localhost.": false, "localhost.:25520": false, "region-1.example:1": false, "REGION-1.example.": false, "rebound.example": true} {
		r := httptest.NewRequest(http.MethodGet, "http://x/livez", nil)
		r.Host = host
		if got := g.Refuses(httptest.NewRecorder(), r); got != want {
			t.Errorf("%s: refused %v", host, got)
		}
	}
	if !strings.Contains(text.String(), "host=rebound.example") {
		t.Errorf("the log has %q", text.String())
	}
}

// FuzzGuard: a handler sees the path exactly as it was sent, or the request is refused.
// Only /v1 is redirected, to /v1/.
func FuzzGuard(f *testing.F) {
	for _, path := range []string{
		"/v1/T/a/C", "/v1/T/x/../y/C", "/v1/T/x%2F..%2Fy/C", "/v1/T//C", "/v1/T/./C", "//v1/T/a/C", "/v1/T/a/C/", "/v1/T/..", "/v1", "/..%2f", "/v1/%2E%2E/a", "/v1/...", "", "*",
	} {
		f.Add(path)
	}
	var saw string
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/", func(_ http.ResponseWriter, r *http.Request) { saw = r.URL.EscapedPath() })
	none, _ := NewOrigins(nil)
	g := Guard{Origins: none}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || u.Host != "" {
			return
		}
		saw = ""
		r, w := &http.Request{Method: http.MethodPost, URL: u, RequestURI: path, Header: http.Header{}}, httptest.NewRecorder()
		if !g.Refuses(w, r) {
			mux.ServeHTTP(w, r)
		}
		switch {
		case saw != "" && saw != u.EscapedPath():
			t.Errorf("%q arrives as %q", path, saw)
		case w.Code/100 == 3 && u.Path != "/v1":
			t.Errorf("%q is redirected to %q", path, w.Header().Get("Location"))
		}
	})
}
