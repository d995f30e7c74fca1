package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestTakesItsMessages: an active coordinator takes each message that the vocabulary
// sends it, and nothing else. A standby sends every call on.
func TestTakesItsMessages(t *testing.T) {
	active, standby := New(DefaultConfig()), New(DefaultConfig())
	active.Step(time.Unix(0, 0), Elected{Term: 1}, nil)
	active.Step(time.Unix(0, 0), Member{Node: sharding.NodeID{Addr: "r:1", UID: 1}}, nil)
	for _, k := range control.Kinds {
		if takes := active.receive(Received{From: sharding.NodeID{Addr: "r:1", UID: 1}, Call: 5, Msg: k.Zero}); takes != (k.To&control.Coordinator != 0) {
			t.Errorf("takes %T: %t", k.Zero, takes)
		}
		if slices.ContainsFunc(k.Answers, func(a control.Message) bool { return active.receive(Received{Msg: a}) }) {
			t.Errorf("takes an answer to %T", k.Zero)
		}
		if k.To&control.Coordinator == 0 || k.Answers == nil {
			continue
		}
		out := standby.Step(time.Unix(0, 0), Received{Call: 5, Msg: k.Zero}, nil)
		if len(out) != 1 || out[0] != (Reply{Call: 5, Msg: control.NotActive{}}) {
			t.Errorf("a standby answers %T with %+v", k.Zero, out)
		}
	}
	if active.receive(Received{}) {
		t.Error("takes nothing for a message")
	}
}

// TestVersionOfARegion: one that no page could show is refused.
func TestVersionOfARegion(t *testing.T) {
	now, r1 := time.Unix(0, 0), node(t, "r1")
	for version, ok := range map[string]bool{"": true, "1.2.3": true, "a\nb": false, string(make([]byte, 1000)): false} {
		m := New(DefaultConfig())
		m.Step(now, Elected{Term: 1}, nil)
		m.Step(now, Member{Node: r1, Reachable: true}, nil)
		out := m.Step(now, calls(r1, control.Register{Version: version}), nil)
		ack, _ := sent(out[len(out)-1]).(control.RegisterAck)
		if (ack.Refusal == "") != ok {
			t.Errorf("%q: %+v", version, out)
		}
	}
}
