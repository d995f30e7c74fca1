//go:build linux

package etcd_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/roost-cluster/roost/libs/backendurl"
	"github.com/roost-cluster/roost/libs/discovery"
	"github.com/roost-cluster/roost/libs/discovery/discoverytest"
	"github.com/roost-cluster/roost/libs/discovery/etcd"
	"github.com/roost-cluster/roost/libs/test/servertest"
)

const prefix = "/roost/test/"

func open(t *testing.T, url, cluster string) *etcd.Backend {
	t.Helper()
	u, err := backendurl.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	b, err := etcd.Open(u, cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// admin is a server and a user that may do anything there.
type admin struct {
	*clientv3.Client
	server *servertest.Server
}

func start(t *testing.T, user, password string) admin {
	t.Helper()
	s := servertest.Etcd(t)
	return admin{client(t, s, user, password), s}
}

func client(t *testing.T, s *servertest.Server, user, password string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr()}, Username: user, Password: password, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// set makes the entries match the peers exactly, in one transaction per
// hundred.
func (a admin) set(t *testing.T, peers []discovery.Peer) {
	t.Helper()
	if _, err := a.Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	var ops []clientv3.Op
	for _, p := range discovery.Normalize(peers) {
		value, err := json.Marshal(map[string]string{"addr": p.Addr, "role": p.Role, "cluster": "test"})
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, clientv3.OpPut(prefix+p.String(), string(value)))
	}
	for len(ops) > 0 {
		n := min(len(ops), 100)
		if _, err := a.Txn(t.Context()).Then(ops[:n]...).Commit(); err != nil {
			t.Fatal(err)
		}
		ops = ops[n:]
	}
}

func (a admin) put(t *testing.T, key, value string) string {
	t.Helper()
	if _, err := a.Put(t.Context(), prefix+key, value); err != nil {
		t.Fatal(err)
	}
	return prefix + key
}

func TestConformance(t *testing.T) {
	t.Parallel()
	var shared *admin // by tests that leave the server up
	discoverytest.Suite{
		Name: "etcd",
		With: func(tt *testing.T, peers []discovery.Peer) discoverytest.Harness {
			if shared == nil {
				a := start(t, "", "")
				shared = &a
			}
			a := *shared
			a.set(tt, peers)
			url := "etcd://" + a.server.Addr() + "/roost/test?ttl=2s"
			do := func(f func()) func(*testing.T) { return func(*testing.T) { f() } }
			return discoverytest.Harness{
				Backend:   open(tt, url, "test"),
				Second:    func(t *testing.T) discovery.Backend { return open(t, url, "test") },
				Change:    a.set,
				Break:     func(t *testing.T) { a.put(t, "x", "") },
				Garbage:   func(t *testing.T) string { return a.put(t, "x@y", `{"addr":`) },
				WrongPort: func(t *testing.T) string { return a.put(t, "a:0", `{"addr":"a:0","cluster":"test"}`) },
				Foreign:   func(t *testing.T) string { return a.put(t, "a:1", `{"addr":"a:1","cluster":"other"}`) },
				Down:      do(a.server.Kill),
				Up: func(*testing.T) {
					a.server.Resume()
					if !a.server.Running() {
						a.server.Run()
					}
				},
				Pause: do(a.server.Pause),
				Lose: func(t *testing.T) {
					a.set(t, nil)
				},
			}
		},
	}.Run(t)
}

// With users, whose permissions come and go.
func TestConformanceOfCredentials(t *testing.T) {
	t.Parallel()
	a := start(t, "", "")
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(a.UserAdd(ctx, "root", "secret"))
	must(a.UserGrantRole(ctx, "root", "root"))
	must(a.RoleAdd(ctx, "roost"))
	allow := func(t *testing.T) {
		if _, err := a.RoleGrantPermission(context.Background(), "roost", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
			t.Fatal(err)
		}
	}
	allow(t)
	must(a.UserAdd(ctx, "roost", "hidden"))
	must(a.UserGrantRole(ctx, "roost", "roost"))
	must(a.AuthEnable(ctx))
	a.Client = client(t, a.server, "root", "secret")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hidden\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "etcd://" + a.server.Addr() + "/roost/test?ttl=2s&user=roost&password_file=" + file
	discoverytest.Suite{
		Name: "etcd",
		With: func(t *testing.T, peers []discovery.Peer) discoverytest.Harness {
			a.set(t, peers)
			return discoverytest.Harness{
				Backend: open(t, url, "test"),
				Second:  func(t *testing.T) discovery.Backend { return open(t, url, "test") },
				Deny: func(t *testing.T) string {
					if _, err := a.RoleRevokePermission(t.Context(), "roost", prefix, clientv3.GetPrefixRangeEnd(prefix)); err != nil {
						t.Fatal(err)
					}
					return prefix
				},
				Allow: allow,
			}
		},
	}.Run(t)

	// A password that is wrong, and then is not.
	wrong := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(wrong, []byte("guess"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, strings.Replace(url, file, wrong, 1), "test")
	for range 3 {
		if got, err := b.Peers(ctx); !errors.Is(err, discovery.ErrDenied) || !strings.Contains(err.Error(), `"roost"`) {
			t.Errorf("a wrong password gives %v, %v", got, err)
		}
	}
	if err := os.WriteFile(wrong, []byte("hidden"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Peers(ctx); err != nil {
		t.Errorf("the right password: %v", err)
	}
	if got, err := open(t, "etcd://"+a.server.Addr()+"/roost/test", "test").Peers(ctx); !errors.Is(err, discovery.ErrDenied) {
		t.Errorf("no user gives %v, %v", got, err)
	}
}
