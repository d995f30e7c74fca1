package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Check verifies what holds between any two steps. An error is a bug.
func (t *Tenure) Check() error {
	if on := t.phase == active; on != (t.gate != nil) || on != t.m.term.active || on && t.m.term.number != t.term {
		return fmt.Errorf("phase %d in term %d, and the machine is active: %t, in term %d", t.phase, t.term, t.m.term.active, t.m.term.number)
	}
	if (t.phase == standingBy) != (t.term == 0) {
		return fmt.Errorf("phase %d in term %d", t.phase, t.term)
	}
	if t.gate != nil && t.gate.Busy() != (t.append != request{}) {
		return fmt.Errorf("a record is in progress: %t, and the request for it is %+v", t.gate.Busy(), t.append)
	}
	return t.m.Check()
}

// Clone returns an independent copy. Outputs handed out before stay shared; they are never written to.
func (t *Tenure) Clone() *Tenure {
	c := *t
	c.m, c.out, c.machineOut = t.m.Clone(), nil, nil
	if t.gate != nil {
		g := *t.gate
		g.held, g.sends, g.replies = slices.Clone(g.held), maps.Clone(g.sends), maps.Clone(g.replies)
		c.gate = &g
	}
	return &c
}

// AppendState appends everything that decides about later outputs, in a canonical
// form, times relative to now: equal states behave alike.
func (t *Tenure) AppendState(now time.Time, b []byte) []byte {
	s := &state{b: b, now: now}
	s.uint(uint64(t.term))
	s.uint(uint64(t.phase))
	if t.term != 0 {
		s.time(t.until)
	}
	s.uint(uint64(t.last))
	s.uint(uint64(t.asked))
	if t.asked != 0 {
		s.time(t.askedAt)
	}
	s.time(t.retryAt)
	s.uint(uint64(t.failures))
	s.bool(t.resigned)
	s.bool(t.takeover.fenced)
	if s.bool(t.takeover.watching); t.takeover.watching {
		s.time(t.takeover.since)
		s.time(t.takeover.lastAt)
		s.time(t.takeover.surveyedAt)
		s.text(fmt.Sprint(t.takeover.last))
	}
	s.uint(t.heartbeat.N)
	if t.phase == active && t.heartbeatWrite.number == 0 {
		s.time(t.heartbeatAt)
	}
	for _, r := range []request{t.append, t.snapshot, t.heartbeatWrite} {
		s.uint(r.number)
		s.time(r.retryAt)
	}
	if t.gate != nil {
		s.gate(t.gate)
	}
	return t.m.AppendState(now, s.b)
}

// gate leaves out what follows from what is held.
func (s *state) gate(g *Gate) {
	for _, v := range []int{g.durable, g.newFacts, g.afterSnapshot, g.copiedFacts, g.own} {
		s.uint(uint64(v))
	}
	s.uint(g.seq)
	s.uint(g.first)
	s.bool(g.busy)
	s.bool(g.done)
	s.bool(g.compacting)
	s.text(fmt.Sprint(g.cursor))
	s.uint(uint64(len(g.held)))
	for _, h := range g.held {
		s.text(fmt.Sprintf("%T%+v", h.o, h.o))
	}
}
