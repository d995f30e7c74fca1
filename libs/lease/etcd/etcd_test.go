package etcd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

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
	return "etcd://" + s.Addr() + "/" + strings.NewReplacer("/", ".", "#", ".").Replace(t.Name())
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := servertest.Etcd(t)
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
				if _, err := client(t, server).Delete(t.Context(), keyOf(url, name)); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// client is etcd as another client sees it.
func client(t *testing.T, s *servertest.Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.URL()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func keyOf(url, name string) string { return url[strings.LastIndex(url, "/"):] + "/" + name }

// A value of another writer is neither understood nor replaced.
func TestForeignValue(t *testing.T) {
	t.Parallel()
	server := servertest.Etcd(t)
	url := urlOf(t, server)
	c, s, key := client(t, server), openURL(t, url), keyOf(url, "x")
	for _, value := range []string{"", "hello", "{}", `{"version":"x"}`, strings.Repeat("[", 9000)} {
		if _, err := c.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
		_, err := s.Get(t.Context(), "x")
		if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "etcd "+server.URL()+" key "+key) {
			t.Errorf("%.20q gives %v, want ErrStore with the key", value, err)
		}
		if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); ok || err == nil {
			t.Errorf("%.20q is replaced: %v, %v", value, ok, err)
		}
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	server := servertest.Etcd(t)
	c, ctx := client(t, server), t.Context()
	_, _ = c.RoleAdd(ctx, "root") // some versions have it from the start
	if _, err := c.UserAdd(ctx, "root", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.UserGrantRole(ctx, "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "password")
	url := urlOf(t, server) + "?user=root&password_file=" + file
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong")
	// On a busy machine etcd may take longer over a password than is waited for.
	patiently := func(ask func(context.Context) error) (err error) {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			asking, cancel := context.WithTimeout(ctx, 5*time.Second)
			err = ask(asking)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				break
			}
		}
		return err
	}
	s := openURL(t, url)
	err := patiently(func(ctx context.Context) error { _, err := s.Get(ctx, "x"); return err })
	if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "authentication failed") || !strings.Contains(err.Error(), "etcd "+server.URL()+" key "+keyOf(url[:strings.Index(url, "?")], "x")) {
		t.Errorf("a wrong password gives %v", err)
	}
	write("secret")
	if err := patiently(func(ctx context.Context) error { _, err := s.Get(ctx, "x"); return err }); err != nil {
		t.Errorf("the right password gives %v", err)
	}
	// Changed while the client is connected: it is read again.
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Username: "root", Password: "secret", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	if _, err := admin.UserChangePassword(ctx, "root", "changed"); err != nil {
		t.Fatal(err)
	}
	write("changed")
	for range 3 { // the member refuses the old password first
		if err = patiently(func(ctx context.Context) error { _, err := s.Get(ctx, "x"); return err }); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("a changed password gives %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := openURL(t, "etcd://127.0.0.1:1/roost").Get(ctx, "x")
	if !errors.Is(err, lease.ErrStore) || !strings.Contains(err.Error(), "http://127.0.0.1:1 key /roost/x: member http://127.0.0.1:1 cannot be connected to") {
		t.Errorf("without a server: %v", err)
	}
}

// TestMemberThatDoesNotAnswer: a lease outlives the silence of the member that was asked, because the next request goes
// to another one.
func TestMemberThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	silent, well := servertest.Etcd(t), servertest.Etcd(t)
	s := openURL(t, "etcd://"+silent.Addr()+","+well.Addr()+"/roost")
	if _, err := s.Get(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	silent.Pause()
	defer silent.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 2*memberTimeout)
	defer cancel()
	if _, err := s.Get(ctx, "x"); err == nil {
		t.Fatal("a paused member answers")
	}
	for range 20 { // every one, not only two of three
		if _, err := s.Get(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := s.Swap(t.Context(), "x", lease.Record{}, lease.Record{Term: 1}); !ok || err != nil {
		t.Errorf("a swap: %v, %v", ok, err)
	}
}

func TestRefusedURLs(t *testing.T) {
	for url, want := range map[string]string{
		"etcd://":                           "members or the path",
		"etcd://a:1":                        "members or the path",
		"etcd://a/x":                        "is not host:port",
		"etcd://a:1/x?ttl=5s":               "unknown parameter",
		"etcd://a:1/x?user=me":              "belong together",
		"etcd://a:1/x?ca=/nonexistent/file": "parameter ca",
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
