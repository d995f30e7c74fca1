package open_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/open"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	if err := os.WriteFile(path, []byte("a:1\nb:2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"static:a:1,b:2", "static://a:1,b:2", "file:" + path, "file://" + path} {
		b, err := open.Open(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if peers, err := b.Peers(context.Background()); err != nil || len(peers) != 2 || peers[1].Addr != "b:2" {
			t.Errorf("%s: %v, %v", url, peers, err)
		}
	}
	b, err := open.Open("static:")
	if err != nil {
		t.Fatal(err)
	}
	if peers, err := b.Peers(context.Background()); err != nil || len(peers) != 0 {
		t.Errorf("an empty list gives %v, %v", peers, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, url := range []string{"", "static", "static:a", "static:a:1?ttl=3", "static:a:1?", "file:", "file:/x?poll=1s", "dsn:x", "a:1,b:2"} {
		if b, err := open.Open(url); !errors.Is(err, discovery.ErrConfig) || b != nil {
			t.Errorf("%q gives %v, %v", url, b, err)
		}
	}
}
