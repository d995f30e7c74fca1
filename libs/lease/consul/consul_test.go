package consul

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/lease/casstore"
	"github.com/roost-cluster/roost/libs/lease/leasetest"
	"github.com/roost-cluster/roost/libs/test/servertest"
)

func openURL(t *testing.T, url string) *casstore.Backend {
	t.Helper()
	u, err := backendurl.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func urlOf(t *testing.T, s *servertest.Server) string {
	return "consul://" + s.Addr() + "/" + strings.NewReplacer("/", ".", "#", ".").Replace(t.Name())
}

func keyOf(url, name string) string { return url[strings.LastIndex(url, "/")+1:] + "/" + name }

// client is Consul as another client sees it.
func client(t *testing.T, s *servertest.Server, token string) *api.Client {
	t.Helper()
	c, err := api.NewClient(&api.Config{Address: s.URL(), Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConformance(t *testing.T) {
	server := servertest.Consul(t, servertest.ConsulConfig{})
	leasetest.Run(t, func(t *testing.T) leasetest.Harness {
		url := urlOf(t, server)
		return leasetest.Harness{
			Backend: openURL(t, url),
			Second:  func(t *testing.T) lease.Backend { return openURL(t, url) },
			Reopen:  func(t *testing.T) lease.Backend { server.Restart(); return openURL(t, url) },
		}
	})
	leasetest.RunServer(t, func(t *testing.T) leasetest.ServerHarness {
		url := urlOf(t, server)
		return leasetest.ServerHarness{
			Server: server,
			Open:   func(t *testing.T) lease.Backend { return openURL(t, url) },
			Delete: func(t *testing.T, name string) {
				if _, err := client(t, server, "").KV().Delete(keyOf(url, name), nil); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// A value of another writer is neither understood nor replaced.
func TestForeignValue(t *testing.T) {
	server := servertest.Consul(t, servertest.ConsulConfig{})
	url := urlOf(t, server)
	s, key := openURL(t, url), keyOf(url, "x")
	for _, value := range []string{"", "hello", "{}", `{"version":"x"}`} {
		if _, err := client(t, server, "").KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
			t.Fatal(err)
		}
		_, err := s.Get(t.Context(), "x")
		if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "consul "+server.Addr()+" key "+key) {
			t.Errorf("%.20q gives %v, want ErrStore with the key", value, err)
		}
		if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); ok || err == nil {
			t.Errorf("%.20q is replaced: %v, %v", value, ok, err)
		}
	}
}

// A token that is refused, then one that is good, in the same file.
func TestToken(t *testing.T) {
	server := servertest.Consul(t, servertest.ConsulConfig{ACL: true})
	file := filepath.Join(t.TempDir(), "token")
	s := func() *casstore.Backend {
		if err := os.WriteFile(file, []byte("11111111-2222-3333-4444-555555555555\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return openURL(t, urlOf(t, server)+"?token_file="+file)
	}()
	_, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1})
	if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "key") {
		t.Errorf("a wrong token gives %v", err)
	}
	if err := os.WriteFile(file, []byte(servertest.ConsulRoot), 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); !ok || err != nil {
		t.Errorf("the right token gives %v, %v", ok, err)
	}
}

func TestRefusedURLs(t *testing.T) {
	for url, want := range map[string]string{
		"consul://a:1":                            "path is missing",
		"consul://a/x":                            "is not host:port",
		"consul://a:1,b:1/x":                      "give one",
		"consul://a:1/x?service=y":                "unknown parameter",
		"consul://a:1/x?token_file=/nonexistent/": "token_file",
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
