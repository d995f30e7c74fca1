//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	launcher "github.com/roost-cluster/roost/cli/cluster"
	"github.com/roost-cluster/roost/e2e/cluster/history"
	"github.com/roost-cluster/roost/e2e/cluster/load"
	"github.com/roost-cluster/roost/libs/test/servertest"
)

// TestDiscoveryServers: processes that know nothing but a URL register there, and find each
// other.
func TestDiscoveryServers(t *testing.T) {
	roost := filepath.Join(binaries(t), "roost")
	t.Run("etcd", func(t *testing.T) {
		s := servertest.Etcd(t)
		discovered(t, roost, s, "etcd://"+s.Addr()+"/roost/{cluster}?ttl=1m")
	})
	t.Run("consul", func(t *testing.T) {
		s := servertest.Consul(t, servertest.ConsulConfig{})
		discovered(t, roost, s, "consul://"+s.Addr()+"/roost-{cluster}?ttl=1m")
	})
}

func discovered(t *testing.T, roost string, s *servertest.Server, url string) {
	flag := []string{"--discovery.url=" + url}
	c := start(t, launcher.Options{Coordinators: 2, Regions: 2, Gateways: 1, Args: map[string][]string{
		launcher.Coordinator: flag, launcher.Region: flag, launcher.Gateway: flag,
	}})
	// listed returns the names of the processes that discovery lists.
	listed := func() (names []string, err error) {
		cmd := exec.CommandContext(t.Context(), roost, "cluster", "discovery", "--cluster=dev", "-o", "json", url)
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("roost cluster discovery: %w", err)
		}
		var answer struct{ Peers []struct{ Addr, Role string } }
		if err := json.Unmarshal(out, &answer); err != nil {
			return nil, err
		}
		for _, p := range answer.Peers {
			i := slices.IndexFunc(c.Processes(), func(q launcher.Process) bool { return q.Service == p.Addr && q.Role == p.Role })
			if i < 0 {
				return nil, fmt.Errorf("%s at %s is not a process of the cluster", p.Role, p.Addr)
			}
			names = append(names, c.Processes()[i].Name)
		}
		slices.Sort(names)
		return names, nil
	}
	want := func(names ...string) {
		t.Helper()
		eventually(t, time.Minute, func() error {
			got, err := listed()
			if err == nil && !slices.Equal(got, names) {
				err = fmt.Errorf("discovery lists %v, want %v", got, names)
			}
			return err
		})
	}
	l := load.New(c.Gateways(), defaultRate)
	sum := 0
	add := func() {
		t.Helper()
		sum++
		eventually(t, time.Minute, func() error {
			a := l.Post(t.Context(), 0, "/v1/Counter/c1/Add", fmt.Sprint("key-", sum), map[string]int{"delta": 1})
			if a.Outcome != history.Executed || !strings.Contains(string(a.Body), fmt.Sprintf(":%d", sum)) {
				return fmt.Errorf("add %d: %v %s", sum, a.Outcome, a.Body)
			}
			return nil
		})
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	want("coordinator-1", "coordinator-2", "region-1", "region-2")
	add()
	// A process that stops removes its entry. The entry of one that is killed stays for its
	// TTL of a minute.
	must(c.Stop(ctx, "region-2"))
	if got, err := listed(); err != nil || !slices.Equal(got, []string{"coordinator-1", "coordinator-2", "region-1"}) {
		t.Errorf("after a stop discovery lists %v, %v", got, err)
	}
	add()
	must(c.Kill("coordinator-1"))
	want("coordinator-1", "coordinator-2", "region-1")
	add()
	// Discovery is down: running processes continue, and register again.
	s.Kill()
	add()
	s.Run()
	must(c.Restart(ctx, "region-2"))
	must(c.Restart(ctx, "coordinator-1"))
	must(c.Kill("gateway-1"))
	must(c.Restart(ctx, "gateway-1"))
	must(c.Ready(ctx))
	want("coordinator-1", "coordinator-2", "region-1", "region-2")
	add()
}
