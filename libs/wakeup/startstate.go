package wakeup

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Check verifies the invariants of the starter. An error means a bug.
func (s *Starter) Check() error {
	wakes, underWay, queued, retries, ready, starts := 0, 0, 0, 0, 0, map[*start]bool{}
	for _, sh := range s.sweep.Shards() {
		wakes += len(sh.page)
		if (len(sh.page) > 0) != sh.typ.ready.Has(sh) {
			return fmt.Errorf("wakeup: %s has %d remembered entities to start, at %d", sh.ID, len(sh.page), sh.place)
		}
		if sh.typ.ready.Has(sh) {
			ready++
		}
	}
	for e, st := range s.starts { // order-free: any error is a bug
		starts[st] = true
		switch {
		case st.entity != e || s.sweep.Shard(st.shard.ID) != st.shard || st.underWay && st.queued:
			return fmt.Errorf("wakeup: the start of %s is in the wrong place", e)
		case st.underWay:
			underWay++
		case st.queued:
			queued++
		case !s.failing.Queued(st):
			return fmt.Errorf("wakeup: nothing will start %s again", e)
		default:
			retries++
		}
	}
	for _, t := range s.types {
		underWay, queued, ready = underWay-t.underWay, queued-len(t.again), ready-len(t.ready)
		if t.underWay > s.cfg.Limit {
			return fmt.Errorf("wakeup: %d entities of %s are being started, above the limit", t.underWay, t.name)
		}
	}
	if wakes != s.wakes || underWay != 0 || queued != 0 || ready != 0 || retries != s.failing.Waiting() {
		return fmt.Errorf("wakeup: the starter counts %d wake-ups, %d retries; there are %d, %d (%d %d %d)", s.wakes, s.failing.Waiting(), wakes, retries, underWay, queued, ready)
	}
	if wakes > s.cfg.Wakes || retries > s.cfg.Failing {
		return fmt.Errorf("wakeup: %d wake-ups of remembered entities, %d of them failing, are above the limits", wakes, retries)
	}
	return errors.Join(s.sweep.Check(), s.failing.Check(starts))
}

// Clone returns a copy of the starter that shares nothing with it.
func (s *Starter) Clone() *Starter {
	c := *s
	c.out = nil
	types, shards, starts := map[*startType]*startType{}, map[*startShard]*startShard{}, map[*start]*start{}
	copyShard := func(sh *startShard) *startShard {
		if shards[sh] == nil {
			sc := *sh
			sc.typ, sc.page = types[sh.typ], slices.Clone(sh.page)
			shards[sh] = &sc
		}
		return shards[sh]
	}
	c.types, c.starts = nil, map[sharding.Entity]*start{}
	for _, t := range s.types {
		tc := *t
		types[t] = &tc
		c.types = append(c.types, &tc)
	}
	for e, st := range s.starts { // order-free: copies
		sc := *st
		sc.shard = copyShard(st.shard)
		starts[st], c.starts[e] = &sc, &sc
	}
	copyStart := func(st *start) *start { return starts[st] }
	for _, t := range c.types {
		t.ready, t.again = due.Map(t.ready, copyShard), due.Map(t.again, copyStart)
	}
	c.sweep, c.failing = s.sweep.Clone(copyShard), s.failing.Clone(copyStart)
	return &c
}

// AppendState appends a canonical description of the state, with times relative to now: equal
// states give equal bytes.
func (s *Starter) AppendState(now time.Time, b []byte) []byte {
	b = s.sweep.AppendState(now, append(b, "starts "...), func(b []byte, sh *startShard) []byte {
		b = fmt.Appendf(b, " after %d %s next %t again %t", sh.after.Due, sh.after.Entity, sh.next, sh.again)
		for i := range sh.page {
			b = fmt.Appendf(b, " %s", sh.page[i].Entity)
		}
		return b
	})
	for _, t := range s.types {
		b = fmt.Appendf(b, " type %s in progress %d credit %d next %d busy %d alternate %t\n", t.name, t.underWay, t.credit, max(-s.cfg.maxLate(), t.nextAt.Sub(now)), due.Left(now, t.busyTill), t.alternate)
	}
	for _, e := range slices.SortedFunc(maps.Keys(s.starts), sharding.Entity.Compare) {
		st := s.starts[e]
		b = fmt.Appendf(b, " start %s in progress %t queued %t times %d at %d\n", e, st.underWay, st.queued, st.Times, due.Left(now, st.RetryAt))
	}
	return b
}
