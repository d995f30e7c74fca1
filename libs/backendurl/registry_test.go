package backendurl

import (
	"errors"
	"strings"
	"testing"
)

func TestRegistry(t *testing.T) {
	bad := errors.New("bad config")
	r := NewRegistry[int](bad, map[string]string{"a": "example.com/a", "b": "example.com/b"})
	r.Register(1, "a")
	r.Register(2, "c", "cc")
	for rawURL, want := range map[string]int{"a:x": 1, "c://x": 2, "cc:": 2} {
		if got, _, err := r.Of(rawURL); err != nil || got != want {
			t.Errorf("%s: %d, %v", rawURL, got, err)
		}
	}
	if _, rest, _ := r.Of("a:x:y"); rest != "x:y" {
		t.Errorf("the rest is %q", rest)
	}
	for rawURL, words := range map[string]string{
		"b:x": `import _ "example.com/b"`,
		"d:x": `"d" is not known; use a, b, c or cc`,
		"x":   "not a URL; use a, b, c or cc",
		"":    "not a URL",
	} {
		if _, _, err := r.Of(rawURL); !errors.Is(err, bad) || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", rawURL, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a scheme can be registered twice")
		}
	}()
	r.Register(3, "d", "a")
}
