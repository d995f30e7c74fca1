package lease_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/lease"
	_ "github.com/roost-cluster/roost/libs/lease/consul"
	_ "github.com/roost-cluster/roost/libs/lease/etcd"
	_ "github.com/roost-cluster/roost/libs/lease/kubernetes"
	_ "github.com/roost-cluster/roost/libs/lease/memory"
	_ "github.com/roost-cluster/roost/libs/lease/sqlstore"
)

func TestOpen(t *testing.T) {
	ctx := context.Background()
	file := filepath.Join(t.TempDir(), "lease.db")
	for _, url := range []string{"memory:", "sqlite:" + file, "sqlite://" + file} {
		s, err := lease.Open(ctx, url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if ok, err := s.Swap(ctx, url, lease.Record{}, lease.Record{Term: 1}); !ok || err != nil {
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

// Servers are contacted when they are needed, so they may be down at start.
func TestOpenServers(t *testing.T) {
	for _, url := range []string{
		"etcd://127.0.0.1:1/roost", "consul://127.0.0.1:1/roost", "kubernetes://prod?api=http://127.0.0.1:1", "postgres://me@127.0.0.1:1/roost",
	} {
		s, err := lease.Open(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if _, err := s.Get(ctx, "x"); !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), url[:strings.Index(url, ":")]) {
			t.Errorf("%s: get gives %v, want the name of the backend", url, err)
		}
		cancel()
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, url := range []string{"", "memory", "memory:x", "memory:?a=b", "sqlite:", "sqlite://", "sqlite:x.db?busy=1", "sqlite:x.db?", "zookeeper:z", "/tmp/x",
		"etcd:", "etcd://a:1", "etcd://a:1/x?lock=1", "consul://a:1", "kubernetes://prod/x?api=http://a", "postgres://h/d?search_path=x"} {
		if s, err := lease.Open(context.Background(), url); !errors.Is(err, lease.ErrConfig) {
			t.Errorf("%q gives %v, %v", url, s, err)
		}
	}
}
