package router

import (
	"testing"

	"github.com/roost-cluster/roost/libs/control"
)

// TestTakesItsMessages: a gateway takes each answer to a call of its own, and nothing
// else. The vocabulary sends it no messages.
func TestTakesItsMessages(t *testing.T) {
	m := New(DefaultConfig())
	for _, k := range control.Kinds {
		if k.To&control.Gateway != 0 {
			t.Errorf("%T is sent to gateways", k.Zero)
		}
		for _, other := range control.Kinds {
			for _, a := range append([]control.Message{other.Zero, nil}, other.Answers...) {
				want := k.From&control.Gateway != 0 && k.Answers != nil && (a == nil || control.CheckAnswer(k.Zero, a) == nil)
				if takes := m.replied(Replied{From: "c:1", Asked: k.Zero, Msg: a}); takes != want {
					t.Errorf("takes %T as the answer to %T: %t", a, k.Zero, takes)
				}
			}
		}
	}
}
