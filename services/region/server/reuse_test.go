package server

import (
	"testing"

	"github.com/roost-cluster/roost/libs/turn"
)

// TestPlaceOfCallerIsReused: the answer to a request that was answered before, such as an accepted tell, never goes to
// the caller that has its place now, nor to an empty place.
func TestPlaceOfCallerIsReused(t *testing.T) {
	var c callers
	first := c.add(caller{number: 1})
	if got := c.find(first); got == nil || got.number != 1 {
		t.Fatalf("the first caller is %+v", got)
	}
	c.remove(first)
	if got := c.find(first); got != nil {
		t.Errorf("an empty place has the caller %+v", got)
	}
	second := c.add(caller{number: 2})
	if uint32(first) != uint32(second) {
		t.Fatalf("%x and %x have places of their own", first, second)
	}
	if got := c.find(first); got != nil {
		t.Errorf("the answer to the first request goes to caller %d", got.number)
	}
	if got := c.find(second); got == nil || got.number != 2 {
		t.Errorf("the second caller is %+v", got)
	}
	if got := c.find(second | turn.RequestID(1)<<31); got != nil {
		t.Errorf("a place that there is not has the caller %+v", got)
	}
}

// TestSlotOfAnEarlierIncarnation: what the core wants of an incarnation never hits the next one, which has the same slot.
func TestSlotOfAnEarlierIncarnation(t *testing.T) {
	incarnation := func(number uint64) turn.Incarnation { return turn.Incarnation(number<<32 | 3) }
	s := &shardLoop{}
	s.newSlot(incarnation(1))
	next := s.newSlot(incarnation(2))
	next.ctx = &turnContext{Context: t.Context()}
	if sl := s.slot(incarnation(1)); sl != nil {
		t.Errorf("the earlier incarnation has the slot of %v", sl.inc)
	}
	s.cancel(turn.Cancel{Incarnation: incarnation(1)})
	s.drop(turn.Drop{Incarnation: incarnation(1)})
	s.vacate(incarnation(1))
	if err := next.ctx.Err(); err != nil || s.slot(incarnation(2)) != next {
		t.Errorf("the turn of the next incarnation has ended: %v; its slot is %+v", err, s.slot(incarnation(2)))
	}
	s.cancel(turn.Cancel{Incarnation: incarnation(2)})
	if next.ctx.Err() == nil {
		t.Error("its own turn continues")
	}
	s.drop(turn.Drop{Incarnation: incarnation(2)})
	if s.slot(incarnation(2)) != nil {
		t.Error("its own slot is kept")
	}
}
