package intent

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/fact"
)

func shard(t string, i uint32) sharding.ShardID {
	return sharding.ShardID{Type: sharding.EntityType(t), Index: i}
}

// filled returns wishes of each kind, and their facts in order.
func filled() (in Intent, facts []fact.Fact) {
	r1, r2 := sharding.NodeID{Addr: "r1"}, sharding.NodeID{Addr: "r2"}
	facts = []fact.Fact{
		fact.Drain{Region: r1}, fact.Drain{Region: r2}, fact.Target{Version: "2", Seen: []string{"1"}},
		fact.Cordon{Region: "a"}, fact.Cordon{Region: "b"}, fact.Freeze{Frozen: true},
		fact.Pin{Shard: shard("S", 3), Region: "a"}, fact.Pin{Shard: shard("T", 1), Region: "b"}, fact.Pin{Shard: shard("T", 2), Region: "a"},
		fact.Move{Shard: shard("T", 0), Region: "a", Epoch: 7},
	}
	for _, f := range slices.Backward(facts) {
		in.Apply(f)
	}
	return in, facts
}

// next returns the facts up to a kind.
func next(in *Intent, c *Cursor, last Kind) (facts []fact.Fact) {
	for f := in.Next(c, last); f != nil; f = in.Next(c, last) {
		facts = append(facts, f)
	}
	return facts
}

// TestOrder: the facts of a checkpoint come in the order of their kinds and keys. Moves can come apart.
func TestOrder(t *testing.T) {
	in, want := filled()
	var c Cursor
	if got := next(&in, &c, Pins); !reflect.DeepEqual(got, want[:9]) {
		t.Errorf("up to pins: %+v", got)
	}
	if got := next(&in, &c, Moves); !reflect.DeepEqual(got, want[9:]) {
		t.Errorf("moves: %+v", got)
	}
	if err := in.Check(); err != nil {
		t.Error(err)
	}
}

// TestCursorAfterChanges: facts before the cursor come and go, and those after it are given nevertheless.
func TestCursorAfterChanges(t *testing.T) {
	in, _ := filled()
	var c Cursor
	for range 7 { // up to the first pin
		in.Next(&c, Pins)
	}
	in.Apply(fact.Pin{Shard: shard("S", 3)})
	in.Apply(fact.Pin{Shard: shard("A", 0), Region: "a"})
	in.Apply(fact.Pin{Shard: shard("T", 0), Region: "a"})
	var shards []sharding.ShardID
	for _, f := range next(&in, &c, Pins) {
		shards = append(shards, f.(fact.Pin).Shard)
	}
	if want := []sharding.ShardID{shard("T", 0), shard("T", 1), shard("T", 2)}; !slices.Equal(shards, want) {
		t.Errorf("pins after the cursor: %v, want %v", shards, want)
	}
}

// TestEnds: each wish ends by its own fact, and a move by a higher epoch.
func TestEnds(t *testing.T) {
	in, _ := filled()
	before := in.Clone()
	pinned := in.Pinned("T")
	for _, f := range []fact.Fact{
		fact.Drain{Region: sharding.NodeID{Addr: "r1"}, Resume: true}, fact.Cordon{Region: "a", Lifted: true}, fact.Freeze{},
		fact.Pin{Shard: shard("T", 1)}, fact.Target{}, fact.Cordon{},
	} {
		in.Apply(f)
	}
	in.EndMove(sharding.Row{Shard: shard("T", 0), Epoch: 7})
	if _, moves := in.Move(shard("T", 0)); !moves {
		t.Error("a move has ended at its own epoch")
	}
	in.EndMove(sharding.Row{Shard: shard("T", 0), Epoch: 8})
	for kind, want := range []int{Drains: 1, Targets: 1, Cordons: 1, Freezes: 0, Pins: 2, Moves: 0} {
		if got := in.Len(Kind(kind)); got != want {
			t.Errorf("%d wishes of kind %d, want %d", got, kind, want)
		}
	}
	if in.PinnedTo(shard("T", 1)) != "" || in.Cordoned("a") || !in.Cordoned("b") || in.Frozen(time.Now()) || in.Target().Version != "2" {
		t.Errorf("in effect is %+v", in)
	}
	if len(pinned) != 2 || len(in.Pinned("T")) != 1 {
		t.Errorf("a view has the pins %v, a later one %v", pinned, in.Pinned("T"))
	}
	if got, _ := filled(); !reflect.DeepEqual(next(&before, new(Cursor), Moves), next(&got, new(Cursor), Moves)) {
		t.Error("a copy has changed")
	}
}

// TestFreezeEnds: a freeze with an end is in effect before it.
func TestFreezeEnds(t *testing.T) {
	var in Intent
	end := time.Unix(1000, 0)
	in.Apply(fact.Freeze{Frozen: true, Until: end})
	if !in.Frozen(end.Add(-1)) || in.Frozen(end) || !in.Freeze().Frozen {
		t.Errorf("%+v", in.Freeze())
	}
}
