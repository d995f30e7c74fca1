package security

import (
	"net/http"
	"strings"
	"testing"
)

// TestTrustedProxies: X-Forwarded-For counts if a trusted proxy has sent it, as far as trusted proxies have written it.
func TestTrustedProxies(t *testing.T) {
	p, err := ParseProxies([]string{"10.1.0.0/16", "192.0.2.7", "2001:db8:1::/48"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, forwarded, want string // headers are separated by |
	}{
		{"10.1.2.3:5000", "198.51.100.1", "198.51.100.1:0"},
		{"[::ffff:10.1.2.3]:5000", "198.51.100.1", "198.51.100.1:0"},
		{"[2001:db8:1::2]:5000", "[2001:db8:2::1]:77", "[2001:db8:2::1]:0"},
		{"192.0.2.7:5000", "198.51.100.1:1234", "198.51.100.1:0"},
		{"192.0.2.8:5000", "198.51.100.1", "192.0.2.8:5000"}, // not a proxy
		{"10.1.2.3:5000", "", "10.1.2.3:5000"},
		// What the client has written itself comes first, and is not believed.
		{"10.1.2.3:5000", "203.0.113.9, 198.51.100.1", "198.51.100.1:0"},
		{"10.1.2.3:5000", "203.0.113.9|198.51.100.1", "198.51.100.1:0"},
		{"10.1.2.3:5000", "203.0.113.9, 198.51.100.1, 192.0.2.7, 10.1.9.9", "198.51.100.1:0"},
		{"10.1.2.3:5000", "10.1.4.4, 10.1.5.5", "10.1.4.4:0"},
		{"10.1.2.3:5000", "203.0.113.9, unknown", "10.1.2.3:5000"},
		{"10.1.2.3:5000", "203.0.113.9, unknown, 10.1.5.5", "10.1.5.5:0"},
		{"10.1.2.3:5000", "203.0.113.9,", "10.1.2.3:5000"},
		{"@", "198.51.100.1", "@"},
	} {
		r := &http.Request{RemoteAddr: c.from, Header: http.Header{}}
		for text := range strings.SplitSeq(c.forwarded, "|") {
			r.Header.Add("X-Forwarded-For", text)
		}
		if got := p.Client(r); got != c.want {
			t.Errorf("from %s with %q: %s, want %s", c.from, c.forwarded, got, c.want)
		}
		if got := Proxies(nil).Client(r); got != c.from {
			t.Errorf("without trusted proxies: %s, want %s", got, c.from)
		}
	}
}
