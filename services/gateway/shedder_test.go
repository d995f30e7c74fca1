package gateway

import (
	"strconv"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestShedder: after a refusal by its region, commands for an entity are shed for a small
// share of the time that commands wait for it, unless they have more time left than the
// refused one had.
func TestShedder(t *testing.T) {
	const limit = 100
	s := NewShedder(limit)
	a, b := sharding.Entity{Type: "T", ID: "a"}, sharding.Entity{Type: "T", ID: "b"}
	now := time.Unix(1000, 0)
	answered := func(e sharding.Entity, wait time.Duration) {
		s.Observe(e, 0, &router.Finish{Reply: sharding.Reply{Outcome: sharding.Executed, Timing: sharding.Timing{Mailbox: wait}}}, now)
	}
	refused := func(e sharding.Entity, left time.Duration) {
		s.Observe(e, left, &router.Finish{Reply: sharding.Reject(sharding.ResourceExhausted, "full"), Region: sharding.NodeID{Addr: "r1:1"}}, now)
	}
	answered(a, time.Hour)
	refused(a, time.Second)
	if s.Sheds(a, time.Second, now) {
		t.Error("shed although no waiting time is known")
	}
	answered(a, 160*time.Millisecond)
	refused(a, time.Second)
	refused(a, time.Millisecond)
	for _, x := range []struct {
		entity sharding.Entity
		left   time.Duration
		after  time.Duration
		want   bool
	}{
		{a, time.Second, 0, true},
		{a, time.Second, 9 * time.Millisecond, true},
		{a, time.Second, 10 * time.Millisecond, false},
		{a, time.Second + 1, 0, false},
		{b, time.Second, 0, false},
	} {
		if got := s.Sheds(x.entity, x.left, now.Add(x.after)); got != x.want {
			t.Errorf("%s with %s left after %s: shed %t, want %t", x.entity.ID, x.left, x.after, got, x.want)
		}
	}
	// Refusals by the gateway itself, or for another reason, say nothing about the load.
	s.Observe(b, time.Second, &router.Finish{Reply: sharding.Reject(sharding.ResourceExhausted, "full")}, now)
	s.Observe(b, time.Second, &router.Finish{Reply: sharding.Reject(sharding.Unavailable, "gone"), Region: sharding.NodeID{Addr: "r1:1"}}, now)
	if len(s.entities) != 1 {
		t.Errorf("remembered are %v", s.entities)
	}
	if s.Drop(now.Add(shedMemory)); s.Empty() {
		t.Error("dropped too early")
	}
	if s.Drop(now.Add(shedMemory + 1)); !s.Empty() {
		t.Error("not dropped")
	}
	for i := range 2 * limit {
		refused(sharding.Entity{Type: "T", ID: sharding.EntityID(strconv.Itoa(i))}, time.Second)
	}
	if len(s.entities) != limit {
		t.Errorf("%d entities are remembered, want %d", len(s.entities), limit)
	}
}
