package server

import (
	"strconv"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestPress: commands for an entity are refused for a small share of what waits
// for it, those with no more time than the one that its region refused.
func TestPress(t *testing.T) {
	const limit = 100
	p := press{limit: limit, entities: map[sharding.Entity]pressed{}}
	a, b := sharding.Entity{Type: "T", ID: "a"}, sharding.Entity{Type: "T", ID: "b"}
	now := time.Unix(1000, 0)
	p.answered(a, time.Hour)
	p.refused(a, time.Second, now)
	if p.refuses(a, time.Second, now) {
		t.Error("refused though nothing is known of what waits")
	}
	p.answered(a, 160*time.Millisecond)
	p.refused(a, time.Second, now)
	p.refused(a, time.Millisecond, now)
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
		if got := p.refuses(x.entity, x.left, now.Add(x.after)); got != x.want {
			t.Errorf("%s with %s left after %s: refused %t, want %t", x.entity.ID, x.left, x.after, got, x.want)
		}
	}
	p.forget(now.Add(pressTime))
	if len(p.entities) != 1 {
		t.Error("forgotten too early")
	}
	if p.forget(now.Add(pressTime + 1)); len(p.entities) > 0 || p.some.Load() {
		t.Error("not forgotten")
	}
	for i := range 2 * limit {
		p.refused(sharding.Entity{Type: "T", ID: sharding.EntityID(strconv.Itoa(i))}, time.Second, now)
	}
	if len(p.entities) != limit {
		t.Errorf("%d entities are remembered, want %d", len(p.entities), limit)
	}
}
