//go:build mutants

package routetable

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestMutants: a coordinator that has not heard yet that its term is over
// answers a poll. Its term must not be believed again.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "watch-term"} {
		mutant.Activate(name)
		now := time.Unix(0, 0)
		w := NewWatcher(DefaultWatchConfig())
		w.SetCandidates([]string{"c1", "c2"}, nil)
		w.Changed(now, "c2", sharding.TableDelta{Version: sharding.Version{Term: 2, N: 1}})
		w.Changed(now, "c1", sharding.TableDelta{Version: sharding.Version{Term: 1, N: 9}})
		addr, term := w.Active()
		if kept := addr == "c2" && term == 2; kept != (name == "") {
			t.Errorf("mutant %q: %s is active in term %d", name, addr, term)
		}
	}
}
