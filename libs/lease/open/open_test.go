package open_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/open"
)

func TestOpen(t *testing.T) {
	ctx := context.Background()
	file := filepath.Join(t.TempDir(), "lease.db")
	for _, url := range []string{"memory:", "sqlite:" + file, "sqlite://" + file} {
		s, err := open.Open(ctx, url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if ok, err := s.Swap(ctx, url, 0, lease.Record{Term: 1}); !ok || err != nil {
			t.Errorf("%s: swap gives %v, %v", url, ok, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, url := range []string{"", "memory", "memory:x", "memory:?a=b", "sqlite:", "sqlite://", "sqlite:x.db?busy=1", "sqlite:x.db?", "zookeeper:z", "/tmp/x"} {
		if s, err := open.Open(context.Background(), url); !errors.Is(err, lease.ErrConfig) {
			t.Errorf("%q gives %v, %v", url, s, err)
		}
	}
}
