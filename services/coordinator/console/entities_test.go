package console

import (
	"strings"
	"testing"
)

// TestBefore: a prefix begins after what before returns, and nothing that could be an id is between.
func TestBefore(t *testing.T) {
	for _, prefix := range []string{"a", "a0", "ü", "€", "!", "a\u0800"} {
		b := string(before(prefix))
		if b >= prefix || strings.HasPrefix(b, prefix) {
			t.Errorf("before %q is %q", prefix, b)
		}
		for _, id := range []string{"", "A", "Z~", "a/", "a/\U0010ffff", "\u00fb\U0010ffff", "\u20ab", " \U0010ffff", "a\u07ff\U0010ffff"} {
			if id < prefix && id > b {
				t.Errorf("%q is between %q and %q", id, b, prefix)
			}
		}
	}
}
