package coordinator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// leaveWorld is a cluster at random, perhaps in a rollout, in which a region is about to leave.
type leaveWorld struct {
	*planWorld
	r       *rand.Rand
	types   []sharding.TypeDesc
	regions []string
}

func newLeaveWorld(t *testing.T, seed uint64) *leaveWorld {
	r := rand.New(rand.NewPCG(seed, 4))
	cfg := DefaultConfig()
	cfg.Strategy = []allocation.Strategy{
		allocation.LeastShards{AbsoluteLimit: 9, RelativeLimit: 1}, allocation.Threshold{Threshold: 1, MaxSimultaneous: 3},
		allocation.ConsistentHashing{VirtualNodes: 10, BoundedLoad: 0.25, AbsoluteLimit: 9}, allocation.External{},
	}[r.IntN(4)]
	w := &leaveWorld{planWorld: &planWorld{world: newWorld(t, cfg)}, r: r}
	for i := range 1 + r.IntN(3) {
		w.types = append(w.types, sharding.TypeDesc{Type: sharding.EntityType("ABC"[i : i+1]), Shards: uint32(1 + r.IntN(20))})
	}
	old, added := 2+r.IntN(4), r.IntN(4)
	versions := []string{"1", []string{"1", "2"}[r.IntN(2)]}
	zoned, capped := r.IntN(2) == 0, r.IntN(3) == 0
	arrive := func(version string) {
		name := fmt.Sprint("r", len(w.regions))
		w.regions = append(w.regions, name)
		w.run(Member{Node: node(t, name), Name: name, Reachable: true})
		reg := control.Register{Name: name, Types: w.types, Version: version}
		if zoned {
			reg.Zone = fmt.Sprint("z", r.IntN(3))
		}
		if capped {
			reg.Capacity = uint32(1 + r.IntN(20))
		}
		w.run(calls(node(t, name), reg))
	}
	w.run(Elected{Term: 1})
	for range old {
		arrive(versions[0])
	}
	for _, d := range w.types {
		for _, i := range r.Perm(int(d.Shards)) {
			s := sharding.ShardID{Type: d.Type, Index: uint32(i)}
			w.run(Received{Msg: control.GetShardHome{Shard: s}})
			w.run(from(w.stored[s].Owner, control.ShardStarted{Shard: s, Epoch: w.stored[s].Epoch}))
			if r.IntN(8) == 0 {
				w.run(PinShards{Pins: []Pin{{s, w.regions[r.IntN(len(w.regions))]}}})
			}
		}
	}
	for range added {
		arrive(versions[1])
	}
	if r.IntN(2) == 0 {
		w.run(CordonRegion{Region: w.regions[r.IntN(len(w.regions))]})
	}
	return w
}

// leave makes a region leave or drains it, and returns the actual destinations of its shards, and the
// proposed ones.
func (w *leaveWorld) leave() (really, proposed map[sharding.ShardID]sharding.NodeID) {
	really, proposed = map[sharding.ShardID]sharding.NodeID{}, map[sharding.ShardID]sharding.NodeID{}
	name := w.regions[w.r.IntN(len(w.regions))]
	p, err := w.m.Propose(PlanQuery{Without: []string{name}})
	if err != nil {
		w.t.Fatal(err)
	}
	moves, _ := allocation.Propose(p.Input)
	for _, m := range moves {
		if m.Reason == allocation.ReasonLeave {
			proposed[m.Shard] = m.To
		}
	}
	n := len(w.facts)
	if w.r.IntN(2) == 0 {
		w.run(DrainRegion{Region: node(w.t, name).String()})
	} else {
		w.run(calls(node(w.t, name), control.GracefulShutdown{}))
	}
	for _, f := range w.facts[n:] {
		if row, is := f.(RowFact); is && !row.Successor.IsZero() {
			really[row.Row.Shard] = row.Successor
		}
	}
	return really, proposed
}

// unlikeProposed counts the clusters in which shards do not go where a proposal says.
func unlikeProposed(t *testing.T, log bool) (unlike, moves int) {
	for seed := range uint64(300) {
		really, proposed := newLeaveWorld(t, seed).leave()
		if moves += len(really); maps.Equal(really, proposed) {
			continue
		}
		if unlike++; log {
			for _, s := range slices.SortedFunc(maps.Keys(proposed), sharding.ShardID.Compare) {
				if really[s] != proposed[s] {
					t.Logf("seed %d: %v goes to %v, proposed is %v", seed, s, really[s], proposed[s])
				}
			}
		}
	}
	return unlike, moves
}

// TestShardsGoAsProposed: a proposal for a region that leaves comes true when it leaves, also in a
// rollout.
func TestShardsGoAsProposed(t *testing.T) {
	unlike, moves := unlikeProposed(t, true)
	if unlike > 0 || moves < 500 {
		t.Errorf("in %d of 300 clusters shards do not go as proposed; %d moves", unlike, moves)
	}
}
