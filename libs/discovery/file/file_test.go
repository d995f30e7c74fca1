package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/discoverytest"
	"github.com/roost-cluster/roost/libs/discovery/file"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func lines(peers []discovery.Peer) string {
	var s strings.Builder
	for _, p := range peers {
		s.WriteString(p.String() + "\n")
	}
	return s.String()
}

func TestConformance(t *testing.T) {
	discoverytest.Run(t, func(t *testing.T, peers []discovery.Peer) discoverytest.Harness {
		path := filepath.Join(t.TempDir(), "peers")
		write(t, path, lines(peers))
		b, err := file.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return discoverytest.Harness{
			Backend: b,
			Change:  func(t *testing.T, peers []discovery.Peer) { write(t, path, lines(peers)) },
			Break: func(t *testing.T) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func TestFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	b, err := file.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "# who is there\n\n  a:1  # the first\r\ncoordinator@b:2\n#c:3\nd:4")
	got, err := b.Peers(context.Background())
	want := []discovery.Peer{{Addr: "a:1"}, {Addr: "b:2", Role: "coordinator"}, {Addr: "d:4"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for text, where := range map[string]string{
		"a:1\nb\n":                     ":2:",
		"a:1 b:2":                      ":1:",
		"a:1\n\n# x\na:0\n":            ":4:",
		strings.Repeat("a:1\n", 1<<19): "more than",
	} {
		write(t, path, text)
		if got, err := b.Peers(context.Background()); err == nil || !strings.Contains(err.Error(), where) || !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q gives %d peers, %v; want an error with %q", text, len(got), err, where)
		}
	}
}

func TestNotAFile(t *testing.T) {
	b, err := file.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Peers(context.Background()); err == nil {
		t.Error("a folder was read")
	}
	if _, err := file.Open(""); !errors.Is(err, discovery.ErrConfig) {
		t.Errorf("an empty path gives %v", err)
	}
}
