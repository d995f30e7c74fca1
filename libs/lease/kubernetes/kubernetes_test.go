package kubernetes

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/casstore"
	"github.com/roost-cluster/roost/libs/lease/leasetest"
	"github.com/roost-cluster/roost/libs/sharding"
)

const leases = "/apis/coordination.k8s.io/v1/namespaces/prod/leases/"

func openAt(t *testing.T, s *apiServer) *casstore.Backend {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("good\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := backendurl.ParseURL("kubernetes://prod?api=http://" + s.addr + "&token_file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	store, err := Open(u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestConformance(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) leasetest.Harness {
		s := newAPIServer(t)
		again := func(t *testing.T) lease.Backend { return openAt(t, s) }
		return leasetest.Harness{Backend: openAt(t, s), Second: again, Reopen: again}
	})
	leasetest.RunServer(t, func(t *testing.T) leasetest.ServerHarness {
		s := newAPIServer(t)
		return leasetest.ServerHarness{
			Server: s,
			Open:   func(t *testing.T) lease.Backend { return openAt(t, s) },
			Delete: func(_ *testing.T, name string) { s.delete(leases + name) },
		}
	})
}

// People see the holder in Kubernetes' own words.
func TestSpec(t *testing.T) {
	s := newAPIServer(t)
	r := lease.Record{Term: math.MaxUint32, Holder: sharding.NodeID{Addr: "10.0.0.1:25521", UID: 7}, TTL: 2 * time.Second}
	if ok, err := openAt(t, s).Swap(t.Context(), "coordinator.shop", lease.Record{}, r); !ok || err != nil {
		t.Fatal(ok, err)
	}
	got := s.objects[leases+"coordinator.shop"]["spec"].(map[string]any)
	if got["holderIdentity"] != "10.0.0.1:25521" || got["leaseDurationSeconds"] != 2.0 || got["leaseTransitions"] != float64(math.MaxInt32) {
		t.Errorf("the spec is %v", got)
	}
	if _, err := time.Parse(time.RFC3339Nano, got["renewTime"].(string)); err != nil {
		t.Error(err)
	}
}

// A Lease that another program uses is neither understood nor replaced.
func TestForeignLease(t *testing.T) {
	s := newAPIServer(t)
	s.objects[leases+"x"] = map[string]any{
		"metadata": map[string]any{"name": "x", "resourceVersion": "5"}, "spec": map[string]any{"holderIdentity": "other"},
	}
	store := openAt(t, s)
	_, err := store.Get(t.Context(), "x")
	if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "namespace prod lease x") {
		t.Errorf("a foreign lease gives %v", err)
	}
	if ok, err := store.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); ok || err == nil {
		t.Errorf("a foreign lease is replaced: %v, %v", ok, err)
	}
}

func TestRefusedToken(t *testing.T) {
	s := newAPIServer(t)
	store := openAt(t, s)
	s.setToken("another")
	_, err := store.Get(t.Context(), "x")
	if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "401") || !strings.Contains(err.Error(), "token") {
		t.Errorf("a refused token gives %v", err)
	}
	s.setToken("good")
	if _, err := store.Get(t.Context(), "x"); err != nil {
		t.Errorf("a good token gives %v", err)
	}
}

func TestObjectName(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"x", "X", "coordinator.shop", "a..b", "-a", "hex-58", "hex-", strings.Repeat("a", 300)} {
		o := objectName(name)
		if !plain.MatchString(o) {
			t.Errorf("%q becomes %q, which is not a name", name, o)
		}
		if other, ok := seen[o]; ok {
			t.Errorf("%q and %q both become %q", name, other, o)
		}
		seen[o] = name
	}
}

func TestRefusedURLs(t *testing.T) {
	for url, want := range map[string]string{
		"kubernetes://":                                    "no namespace",
		"kubernetes://prod":                                "not in a pod",
		"kubernetes://a:1?api=http://b":                    "not a valid namespace",
		"kubernetes://prod/x?api=http://b":                 "there is a path",
		"kubernetes://prod?api=ftp://b":                    "must be a URL",
		"kubernetes://prod?kubeconfig=k":                   "unknown parameter",
		"kubernetes://prod?api=http://b&ca=/nonexistent/f": "parameter ca",
	} {
		u, err := backendurl.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(u); !errors.Is(err, lease.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %v, want %q", url, err, want)
		}
	}
}
