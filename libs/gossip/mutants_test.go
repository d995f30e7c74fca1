//go:build mutants

package gossip_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/gossip/gossiptest"
	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutants shows what happens without the guards of joining. Each returns
// what is wrong, and nothing while the guard is there.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, m := range []struct {
		name, place string
		broken      func(t *testing.T) string
	}{
		{"quarantine", "gossip: what contradicted itself is refused permanently", ghost},
		{"era", "gossip: nothing of another era is joined", revenant},
		{"era-lift", "gossip: who moves on to the next era drops who is missing there", lifted},
		{"era-left", "gossip: what is said about an era that a node has left is ignored", excluded},
		{"era-join", "gossip: no node is let in that may have been removed and forgotten", admitted},
		{"excluded-by-own-side", "gossip: who is excluded by its own side ends, even if it is the oldest", usurped},
		{"config-check", "gossip: who is set up differently is not let in", func(t *testing.T) string {
			net, n3 := pair(t, func(cfg *gossip.Config) { cfg.Downing = gossip.AutoDown{After: time.Minute} })
			net.Start(n3)
			net.Run(5 * time.Second)
			if len(net.Nodes[0].M.View().Members) != 2 {
				return "a node with another downing strategy is a member"
			}
			return ""
		}},
		{"pause-first", "gossip: a pause does not move timers on that are set after it", stuck},
		{"answered-again", "gossip: who does not hear this node any more is suspected", deaf},
		{"min-members", "gossip: no node is up before there are enough", func(*testing.T) string {
			net := gossiptest.New(1)
			cfg := gossip.DefaultConfig()
			cfg.MinMembers = 2
			node := net.Add("n1:1", cfg)
			net.Start(node)
			if statuses(node)[gossip.Up] > 0 {
				return "one of two is up"
			}
			return ""
		}},
	} {
		mutant.Activate("")
		if why := m.broken(t); why != "" {
			t.Errorf("with the guard: %s", why)
		}
		mutant.Activate(m.name)
		why := m.broken(t)
		if why == "" {
			t.Errorf("%-21s SURVIVES  (%s)", m.name, m.place)
		}
		t.Logf("%-21s %s", m.name, why)
	}
}
