package server

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/bootstrap"
)

// patient forms a cluster on request.
type patient struct{ now atomic.Bool }

func (p *patient) Decide(bootstrap.Info) bootstrap.Decision {
	if p.now.Load() {
		return bootstrap.Decision{Choice: bootstrap.JoinSelf, Why: "it is time"}
	}
	return bootstrap.Decision{Why: "waits for the right time"}
}

// TestOwnDecider: who forms a cluster is decided by a rule of the user's own, and
// what asks discovery meanwhile is counted.
func TestOwnDecider(t *testing.T) {
	noneLeft(t)
	addr, rule := freeAddr(t), &patient{}
	r := launch(t, t.TempDir(), addr, "static://"+addr, func(c *Config) { c.Bootstrap.Decider = rule })
	await(t, "it waits as it was told", func() bool {
		return strings.Contains(r.get("/readyz?verbose"), "waits for the right time") && strings.Contains(r.get("/bootstrap/status"), "waits for the right time")
	})
	await(t, "lookups are counted", func() bool {
		for _, line := range strings.Split(r.get("/metrics"), "\n") {
			if strings.HasPrefix(line, `roost_discovery_lookups_total{roost_cluster="dev",roost_discovery_backend="static"`) {
				return !strings.HasSuffix(line, " 0")
			}
		}
		return false
	})
	if strings.Contains(r.get("/metrics"), "roost_discovery_registered") {
		t.Error("an entry is counted where no process enters itself")
	}
	rule.now.Store(true)
	await(t, "it forms a cluster", func() bool { return strings.HasPrefix(r.get("/readyz"), "ok") })
	r.end()
}

// TestUnusableArbiter: a coordinator that could not take over says so, with the
// store and the key, and lives on.
func TestUnusableArbiter(t *testing.T) {
	noneLeft(t)
	addr := freeAddr(t)
	r := launch(t, t.TempDir(), addr, "static://"+addr, func(c *Config) { c.LeaseURL = "consul://127.0.0.1:1/roost/{cluster}" })
	await(t, "readiness names the store", func() bool {
		got := r.get("/readyz?verbose")
		return strings.Contains(got, "[-] lease") && strings.Contains(got, "consul 127.0.0.1:1") && strings.Contains(got, "roost/dev/coordinator.dev")
	})
	if got := r.get("/livez"); !strings.HasPrefix(got, "ok") {
		t.Errorf("livez is %s", got)
	}
	r.end()
}

// TestLoopThatStandsStill: a coordinator whose loop does not go on fails its liveness check, with the
// name of the loop, and passes it as soon as the loop continues.
func TestLoopThatStandsStill(t *testing.T) {
	noneLeft(t)
	addr := freeAddr(t)
	r := start(t, t.TempDir(), addr, "static://"+addr, func(c *Config) { c.StalledAfter = 50 * time.Millisecond })
	if got := r.get("/livez?verbose"); got != "[+] coordinator loop\n[+] membership loop\nok\n" {
		t.Errorf("livez is %q", got)
	}
	goOn := make(chan struct{})
	r.server.inbox.Put(func() { <-goOn })
	await(t, "it stands still", func() bool {
		got := r.get("/livez")
		return strings.Contains(got, "[-] coordinator loop: has stood still for") && !strings.Contains(got, "membership") && strings.HasSuffix(got, "failed\n")
	})
	close(goOn)
	await(t, "it continues", func() bool { return strings.HasPrefix(r.get("/livez"), "ok") })
	r.end()
}
