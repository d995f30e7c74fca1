package coordinator

import (
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// handingOver is a world in which r1 hands T/0 off to r2, which has a later version of the
// application and stores in one form more. An epoch is reserved for r2.
func handingOver(t *testing.T) *world {
	t.Helper()
	w := beforeDirectHandoff(t)
	w.run(DrainRegion{Region: node(t, "r1").String()})
	if _, r := w.m.table.find(sharding.ShardID{Type: "T"}); r.next != sharding.MakeEpoch(1, 2) || r.successor != node(t, "r2") {
		t.Fatalf("the shard does not go to r2 at 1.2: %+v", r)
	}
	return w
}

// beforeDirectHandoff is that world before r1 is drained.
func beforeDirectHandoff(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, DefaultConfig())
	r1, r2 := node(t, "r1"), node(t, "r2")
	register := func(n sharding.NodeID, version uint16) {
		d := program(version, 2)
		w.run(calls(n, control.Register{Types: []sharding.TypeDesc{d}}))
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
	w.run(DrainRegion{Region: node(t, "r1").String(), Resume: true})
	w.run(MemberGone{Node: node(t, "r2")})
	_, r := w.m.table.find(sharding.ShardID{Type: "T"})
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
	if _, r := w.m.table.find(sharding.ShardID{Type: "T"}); r.Phase != sharding.Serving || r.Owner != node(t, "r2") || !r.stored().Has(1) {
		t.Errorf("in the next term the row is %+v", r)
	}
}

// startedFirst returns the forms that may be stored in T/0 before the successor serves it, if the
// coordinator learns of the successor first, and then that the owner has stored nothing.
func startedFirst(t *testing.T) sharding.FormSet {
	w := handingOver(t)
	shard := sharding.ShardID{Type: "T"}
	started := from(node(t, "r2"), control.ShardStarted{Shard: shard, Epoch: sharding.MakeEpoch(1, 2)})
	w.run(started)
	w.run(from(node(t, "r1"), control.ShardStopped{Shard: shard, Epoch: sharding.MakeEpoch(1, 1)}))
	w.run(started) // it gets the request again
	_, r := w.m.table.find(shard)
	if r.Phase != sharding.Serving || r.Owner != node(t, "r2") {
		t.Fatalf("the successor does not serve: %+v", r)
	}
	return r.before
}

// TestStartedFirst: what the owner has stored is known, whichever message comes first.
func TestStartedFirst(t *testing.T) {
	if forms := startedFirst(t); forms != "" {
		t.Errorf("%x may be stored, but the owner has stored nothing", string(forms))
	}
}

// reservedForOne reports whether an epoch is reserved for a successor although another region could
// be given the shard, if its owner has stored nothing in the form that only one of them reads.
func reservedForOne(t *testing.T) bool {
	w := newFormsWorld(t, 2)
	w.do(Elected{Term: 1})
	join := func(name string, version uint16) {
		n := node(t, name)
		w.do(Member{Node: n, Reachable: true})
		w.do(calls(n, control.Register{Types: []sharding.TypeDesc{program(version, 2)}}))
	}
	join("r2", 2)
	w.serve(0)
	join("r1", 1)
	join("r3", 2)
	w.leave(node(t, "r2"))
	return w.row(0).next != 0
}

// TestChoiceWaits: no successor is chosen before the owner has reported its stored forms, if the choice
// depends on that.
func TestChoiceWaits(t *testing.T) {
	if reservedForOne(t) {
		t.Error("an epoch is reserved for a region that may be the wrong one")
	}
}

// adoptedAtOnce reports whether the next coordinator tells the owner of a shard who its successor is,
// as soon as it is elected: the one before has stored the fact, and has died before it could say so.
func adoptedAtOnce(t *testing.T) bool {
	w := handingOver(t)
	w.run(Deposed{})
	shard, r1, r2 := sharding.ShardID{Type: "T"}, node(t, "r1"), node(t, "r2")
	want := control.HandOff{Term: 2, Shard: shard, Epoch: sharding.MakeEpoch(1, 1), Successor: r2, Next: sharding.MakeEpoch(1, 2)}
	told := slices.ContainsFunc(w.step(Elected{Term: 2, Facts: w.facts}), func(o Output) bool { return o == Send{To: r1, Msg: want} })
	// No region has registered yet. What the owner and the successor say counts all the same.
	given := slices.ContainsFunc(w.step(from(r1, control.ShardStopped{Shard: shard, Epoch: want.Epoch})), func(o Output) bool {
		return o == Send{To: r2, Msg: control.HostShard{Term: 2, Shard: shard, Epoch: want.Next}}
	})
	w.run(from(r2, control.ShardStarted{Shard: shard, Epoch: want.Next}))
	_, r := w.m.table.find(shard)
	return told && given && r.Phase == sharding.Serving && r.Owner == r2 && r.Epoch == want.Next
}

// TestAdoptedAtOnce: a handoff waits for nothing but a coordinator that is active.
func TestAdoptedAtOnce(t *testing.T) {
	if !adoptedAtOnce(t) {
		t.Error("the handoff does not end in the next term before the regions have registered")
	}
}
