package region

import (
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestTakesItsMessages: a region takes each message that the vocabulary sends it, and
// each answer to a call of its own, and nothing else.
func TestTakesItsMessages(t *testing.T) {
	m := NewControlCore(DefaultConfig(sharding.NodeID{Addr: "r:1", UID: 1}, "r"))
	for _, k := range control.Kinds {
		if takes := m.receive(Received{Msg: k.Zero}); takes != (k.To&control.Region != 0) {
			t.Errorf("takes %T: %t", k.Zero, takes)
		}
		for _, other := range control.Kinds {
			for _, a := range append([]control.Message{other.Zero, nil}, other.Answers...) {
				want := k.From&control.Region != 0 && k.Answers != nil && (a == nil || control.CheckAnswer(k.Zero, a) == nil)
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
