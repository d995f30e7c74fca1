package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
)

func TestLeaseShow(t *testing.T) {
	asked := "sqlite:" + filepath.Join(t.TempDir(), "{cluster}.db")
	url := strings.ReplaceAll(asked, "{cluster}", "shop")
	run := func(want string, code int, args ...string) {
		t.Helper()
		var out, errOut strings.Builder
		got := run(t.Context(), append([]string{"cluster", "lease", asked, "--cluster", "shop"}, args...), &out, &errOut)
		if text := out.String() + errOut.String(); got != code || !strings.Contains(text, want) {
			t.Errorf("%v gives %d and %q; want %d and %q", args, got, text, code, want)
		}
	}
	run("there is no lease file", app.ExitFailed)
	s, err := lease.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	run("there is no such lease", app.ExitOK)
	record := lease.Record{Version: 1, Term: 7, Holder: sharding.NodeID{Addr: "10.0.0.1:25521", UID: 5}, TTL: 300 * time.Millisecond, Nonce: 1}
	if ok, err := s.Swap(t.Context(), "coordinator.shop", lease.Record{}, record); !ok || err != nil {
		t.Fatal(ok, err)
	}
	run("expired: 10.0.0.1:25521 held it in term 7", app.ExitOK)
	run(`"state":"expired","holder":"10.0.0.1:25521","uid":"5","term":7,"version":1,"ttl":"300ms"`, app.ExitOK, "-o", "json")
	run("the store can be written", app.ExitOK, "--test")
	free := lease.Record{Version: 2, Term: 7}
	if ok, err := s.Swap(t.Context(), "coordinator.shop", record, free); !ok || err != nil {
		t.Fatal(ok, err)
	}
	run("free since the holder of term 7 released it", app.ExitOK)

	c := lease.DefaultConfig()
	c.Self = sharding.NodeID{Addr: "10.0.0.2:25521", UID: 6}
	k, err := lease.NewKeeper(s, "coordinator.shop", c, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	acquired, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx, func(o lease.Output) {
			if _, ok := o.(lease.Acquired); ok {
				close(acquired)
			}
		})
	}()
	<-acquired
	run("held by 10.0.0.2:25521 in term 8, and renewed", app.ExitOK)
	stop()
	<-done
}

func TestLeaseShowRefuses(t *testing.T) {
	for url, code := range map[string]int{"memory:": app.ExitUsage, "zookeeper:x": app.ExitUsage, "etcd://a": app.ExitUsage} {
		var out, errOut strings.Builder
		if got := run(t.Context(), []string{"cluster", "lease", url, "--dir", t.TempDir()}, &out, &errOut); got != code {
			t.Errorf("%s gives %d and %q, want %d", url, got, errOut.String(), code)
		}
	}
}
