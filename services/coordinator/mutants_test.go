//go:build mutants

package coordinator

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestPersistBeforeSend shows that the observer of all tests here notices when
// the order of a fact and what depends on it is swapped.
func TestPersistBeforeSend(t *testing.T) {
	r1 := node(t, "r1")
	for _, name := range []string{"", "persist-before-send"} {
		w := newWorld(t, DefaultConfig())
		for _, in := range []Input{
			Member{Node: r1, Reachable: true}, Elected{Term: 1},
			Register{Region: r1, Types: []sharding.TypeDesc{{Type: "T", Shards: 4}}},
			WatchTable{Watch: 1, Version: sharding.Version{Term: 1, N: 1}},
		} {
			w.step(in)
		}
		mutant.Activate(name)
		out := w.m.Step(w.now, GetShardHome{Shard: sharding.ShardID{Type: "T"}}, nil)
		mutant.Activate("")
		wrong := 0
		for _, o := range out {
			wrong += one(w.observe(o) != nil)
		}
		if want := 2 * one(name != ""); len(out) != 3 || wrong != want {
			t.Errorf("mutant %q: %d of %d outputs come before their fact, want %d of 3: %+v", name, wrong, len(out), want, out)
		}
	}
}
