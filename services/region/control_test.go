package region

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestTakesItsMessages: a region takes each message that the vocabulary sends it, and
// each answer to a call of its own, and nothing else. FindShards is a call of its router.
func TestTakesItsMessages(t *testing.T) {
	m := NewControlCore(DefaultConfig(sharding.NodeID{Addr: "r:1", UID: 1}, "r"))
	for _, k := range control.Kinds {
		if takes := m.receive(Received{Msg: k.Zero}); takes != (k.To&control.Region != 0) {
			t.Errorf("takes %T: %t", k.Zero, takes)
		}
		for _, other := range control.Kinds {
			for _, a := range append([]control.Message{other.Zero, nil}, other.Answers...) {
				want := k.From&control.Region != 0 && k.Answers != nil && control.Name(k.Zero) != "FindShards" && (a == nil || control.CheckAnswer(k.Zero, a) == nil)
				if takes := m.replied(Replied{From: "c:1", Asked: k.Zero, Msg: a}); takes != want {
					t.Errorf("takes %T as the answer to %T: %t", a, k.Zero, takes)
				}
			}
			for _, a := range other.Answers {
				if m.receive(Received{Msg: a}) {
					t.Errorf("takes the answer %T to nothing", a)
				}
			}
		}
	}
}

// TestFeedsNoOlderTypes: an answer that arrives after the answer with a newer table does not take
// commands from the router that the control core knows.
func TestFeedsNoOlderTypes(t *testing.T) {
	c := NewControlCore(DefaultConfig(sharding.NodeID{Addr: "r:1", UID: 1}, "r"))
	c.Step(time.Unix(1, 0), FeedRouter{}, nil)
	answer := func(n uint64, commands ...sharding.CommandDesc) (fed int) {
		d := sharding.TableDelta{Version: sharding.Version{Term: 1, N: n}, Types: []sharding.TypeDesc{{Type: "Cart", Shards: 4, Commands: commands}}}
		for _, o := range c.Step(time.Unix(1, 0), Replied{From: "c:1", Asked: control.WatchTable{}, Msg: control.TableChanged{Delta: d}}, nil) {
			if f, ok := o.(Feed); ok {
				fed = len(f.Delta.Types[0].Commands)
			}
		}
		return fed
	}
	if n := answer(2, sharding.CommandDesc{Name: "Add"}, sharding.CommandDesc{Name: "Get"}); n != 2 {
		t.Errorf("the router receives %d commands, want 2", n)
	}
	if n := answer(1, sharding.CommandDesc{Name: "Get"}); n != 2 {
		t.Errorf("an older answer tells the router of %d commands, not of 2", n)
	}
}
