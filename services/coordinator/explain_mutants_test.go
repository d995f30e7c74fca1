//go:build mutants

package coordinator

import (
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestMutantsOfDecisions: what is kept of explanations would be wrong, too much, or hold facts back.
func TestMutantsOfDecisions(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for name, broken := range map[string]func(*testing.T) bool{
		"explanation-held":       heldBack,
		"explanation-made":       func(t *testing.T) bool { return len(unexplained(t)) > 0 },
		"explanation-cause":      func(t *testing.T) bool { return len(unexplained(t)) > 0 },
		"explanations-waiting":   func(*testing.T) bool { return logKeeps(1) != nil },
		"explanations-bounded":   func(*testing.T) bool { return logKeeps(1) != nil },
		"explanations-located":   func(*testing.T) bool { return logKeeps(1) != nil },
		"explanations-under-way": func(*testing.T) bool { return logKeeps(1) != nil },
		"explanations-flush":     func(*testing.T) bool { return logFlushes(false, false) != nil },
	} { // order-free
		for _, on := range []string{"", name} {
			mutant.Activate(on)
			if broken(t) != (on != "") {
				t.Errorf("mutant %q: noticed is %t", on, on == "")
			}
		}
	}
}

// unexplained returns the missing explanations of a shard that is given away, and handed off.
func unexplained(t *testing.T) (errs []error) {
	r1, r2 := node(t, "r1"), node(t, "r2")
	w := newWorld(t, DefaultConfig())
	shard := sharding.ShardID{Type: "T"}
	types := []sharding.TypeDesc{{Type: "T", Shards: 1}}
	for _, in := range []Input{
		Member{Node: r1, Reachable: true}, Member{Node: r2, Reachable: true}, Elected{Term: 1}, calls(r1, control.Register{Types: types}),
		Received{Msg: control.GetShardHome{Shard: shard}}, Stored{Facts: 2},
		from(r1, control.ShardStarted{Shard: shard, Epoch: sharding.MakeEpoch(1, 1)}), Stored{Facts: 1},
		calls(r2, control.Register{Types: types}), DrainRegion{Region: r1.String()},
	} {
		for _, o := range w.m.Step(w.now, in, nil) {
			if err := w.observe(o); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}
