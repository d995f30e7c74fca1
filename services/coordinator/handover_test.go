package coordinator

import (
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// handingOver is a world in which r1 hands T/0 off to r2, which has a later version of the
// application and stores in one form more. An epoch is reserved for r2.
func handingOver(t *testing.T) *world {
	t.Helper()
	w := beforeHandover(t)
	w.run(DrainRegion{Region: node(t, "r1")})
	if _, r := w.m.find(sharding.ShardID{Type: "T"}); r.next != sharding.MakeEpoch(1, 2) || r.successor != node(t, "r2") {
		t.Fatalf("the shard does not go to r2 at 1.2: %+v", r)
	}
	return w
}

// beforeHandover is that world before r1 is drained.
func beforeHandover(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, DefaultConfig())
	r1, r2 := node(t, "r1"), node(t, "r2")
	register := func(n sharding.NodeID, version uint16) {
		d := program(version, 2)
		w.run(calls(n, control.Register{Types: []sharding.TypeDesc{d}, HandsOver: true}))
	}
	w.run(Member{Node: r1, Reachable: true})
	w.run(Member{Node: r2, Reachable: true})
	w.run(Elected{Term: 1})
	register(r1, 1)
	w.run(Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T"}}})
	w.run(from(r1, control.ShardStarted{Shard: sharding.ShardID{Type: "T"}, Epoch: sharding.MakeEpoch(1, 1)}))
	register(r2, 2)
	return w
}

// storedBySuccessor returns the forms that count for the owner of T/0 after the successor: it was
// lost, and may have claimed the shard and stored something.
func storedBySuccessor(t *testing.T) sharding.FormSet {
	w := handingOver(t)
	w.run(from(node(t, "r1"), control.ShardStopped{Shard: sharding.ShardID{Type: "T"}, Epoch: sharding.MakeEpoch(1, 1)}))
	w.run(DrainRegion{Region: node(t, "r1"), Resume: true})
	w.run(MemberGone{Node: node(t, "r2")})
	_, r := w.m.find(sharding.ShardID{Type: "T"})
	if r.Epoch <= sharding.MakeEpoch(1, 2) {
		t.Fatalf("the shard is still to go to r2: %+v", r)
	}
	return r.before
}

// TestFormsOfSuccessors: what a successor may have stored at its epoch counts for the next owner,
// also in the next term.
func TestFormsOfSuccessors(t *testing.T) {
	if forms := storedBySuccessor(t); !forms.Has(1) {
		t.Errorf("after the successor %x may be stored", string(forms))
	}
	w := handingOver(t)
	w.run(Deposed{})
	w.run(Elected{Term: 2, Facts: w.facts})
	w.run(from(node(t, "r2"), control.ShardStarted{Shard: sharding.ShardID{Type: "T"}, Epoch: sharding.MakeEpoch(1, 2)}))
	if _, r := w.m.find(sharding.ShardID{Type: "T"}); r.Phase != sharding.Serving || r.Owner != node(t, "r2") || !r.stored().Has(1) {
		t.Errorf("in the next term the row is %+v", r)
	}
}
