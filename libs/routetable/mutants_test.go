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

// TestMutantsOfFullTables: rows whose facts are gone would stay in a copy, or come back to it from a region.
func TestMutantsOfFullTables(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "full-replaces", "row-gone"} {
		mutant.Activate(name)
		tab := New()
		old := row(0, sharding.MakeEpoch(1, 1), sharding.Serving)
		tab.Apply(sharding.TableDelta{Version: version(1, 1), Full: true, Types: []sharding.TypeDesc{airport}, Rows: []sharding.Row{old}})
		tab.Apply(sharding.TableDelta{Version: version(2, 1), Full: true})
		_, stays := tab.Row(old.Shard)
		back := tab.Merge(old)
		if stays != (name == "full-replaces") || back != (name == "row-gone") {
			t.Errorf("mutant %q: the row stays: %t, comes back: %t", name, stays, back)
		}
	}
}
