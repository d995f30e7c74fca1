package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/services/coordinator/internal/state"
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
	s := &encoder{state.State{Bytes: b, Now: now}}
	s.Uint(uint64(t.term))
	s.Uint(uint64(t.phase))
	if t.term != 0 {
		s.Time(t.until)
	}
	s.Uint(uint64(t.last))
	s.Uint(uint64(t.asked))
	if t.asked != 0 {
		s.Time(t.askedAt)
	}
	s.Time(t.retryAt)
	s.Uint(uint64(t.failures))
	s.Bool(t.resigned)
	s.Bool(t.takeover.fenced)
	if s.Bool(t.takeover.watching); t.takeover.watching {
		s.Time(t.takeover.since)
		s.Time(t.takeover.lastAt)
		s.Time(t.takeover.surveyedAt)
		s.Text(fmt.Sprint(t.takeover.last))
	}
	s.Uint(t.heartbeat.N)
	if t.phase == active && t.heartbeatWrite.number == 0 {
		s.Time(t.heartbeatAt)
	}
	for _, r := range []request{t.append, t.checkpoint, t.heartbeatWrite} {
		s.Uint(r.number)
		s.Time(r.retryAt)
	}
	if t.gate != nil {
		s.gate(t.gate)
	}
	return t.m.AppendState(now, s.Bytes)
}

// gate leaves out what follows from what is held.
func (s *encoder) gate(g *Gate) {
	for _, v := range []int{g.durable, g.newFacts, g.afterMark, g.copiedFacts, g.own} {
		s.Uint(uint64(v))
	}
	s.Uint(g.seq)
	s.Uint(g.first)
	s.Bool(g.busy)
	s.Bool(g.done)
	s.Bool(g.compacting)
	s.Text(fmt.Sprint(g.cursor))
	s.Uint(uint64(len(g.held)))
	for _, h := range g.held {
		s.Text(fmt.Sprintf("%T%+v", h.o, h.o))
	}
}
