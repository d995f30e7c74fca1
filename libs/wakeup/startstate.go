package wakeup

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Check verifies the invariants of the starter. An error means a bug.
func (s *Starter) Check() error {
	wakes, underWay, queued, retries, reading, ready := 0, 0, 0, 0, 0, 0
	for _, sh := range s.shards {
		wakes += len(sh.page)
		if s.byID[sh.id] != sh || sh.closed {
			return fmt.Errorf("wakeup: %s is listed but closed", sh.id)
		}
		if (len(sh.page) > 0) != sh.typ.ready.Has(sh) {
			return fmt.Errorf("wakeup: %s has %d remembered entities to start, at %d", sh.id, len(sh.page), sh.place)
		}
		if sh.typ.ready.Has(sh) {
			ready++
		}
	}
	for e, st := range s.starts { // order-free: any error is a bug
		switch {
		case st.entity != e || s.byID[st.shard.id] != st.shard || st.underWay && st.queued:
			return fmt.Errorf("wakeup: the start of %s is in the wrong place", e)
		case st.underWay:
			underWay++
		case st.queued:
			queued++
		case !s.retries.Has(st):
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
	for _, shards := range s.reads { // order-free: a sum
		reading += len(shards)
	}
	if wakes != s.wakes || underWay != 0 || queued != 0 || ready != 0 || retries != len(s.retries) || s.reserved != reading*s.cfg.Page {
		return fmt.Errorf("wakeup: the starter counts %d wake-ups, %d reserved, %d retries; there are %d, %d, %d (%d %d %d)",
			s.wakes, s.reserved, len(s.retries), wakes, reading*s.cfg.Page, retries, underWay, queued, ready)
	}
	if wakes > s.cfg.Wakes || retries > s.cfg.Failing {
		return fmt.Errorf("wakeup: %d wake-ups of remembered entities, %d of them failing, are above the limits", wakes, retries)
	}
	return nil
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
	c.types, c.shards, c.byID, c.starts = nil, nil, map[sharding.ShardID]*startShard{}, map[sharding.Entity]*start{}
	for _, t := range s.types {
		tc := *t
		types[t] = &tc
		c.types = append(c.types, &tc)
	}
	for _, sh := range s.shards {
		c.shards = append(c.shards, copyShard(sh))
		c.byID[sh.id] = copyShard(sh)
	}
	for e, st := range s.starts { // order-free: copies
		sc := *st
		sc.shard = copyShard(st.shard)
		starts[st], c.starts[e] = &sc, &sc
	}
	for i, t := range s.types {
		c.types[i].ready, c.types[i].again = nil, nil
		for _, sh := range t.ready {
			c.types[i].ready = append(c.types[i].ready, copyShard(sh))
		}
		for _, st := range t.again {
			c.types[i].again = append(c.types[i].again, starts[st])
		}
	}
	c.retries = nil
	for _, st := range s.retries {
		c.retries = append(c.retries, starts[st])
	}
	c.reads = map[uint64][]*startShard{}
	for n, read := range s.reads { // order-free: copies
		for _, sh := range read {
			c.reads[n] = append(c.reads[n], copyShard(sh))
		}
	}
	return &c
}

// AppendState appends a canonical description of the state, with times relative to now: equal
// states give equal bytes.
func (s *Starter) AppendState(now time.Time, b []byte) []byte {
	rel := func(t time.Time) time.Duration {
		if t.IsZero() {
			return -1
		}
		return max(0, t.Sub(now))
	}
	b = fmt.Appendf(b, "starts scan %d from %d room %t after %d random %x last %d\n", rel(s.scanAt), s.scanFrom, s.noRoom, rel(s.readsAfter), s.jitter, s.lastRead)
	for _, n := range slices.Sorted(maps.Keys(s.reads)) {
		for _, sh := range s.reads[n] {
			b = fmt.Appendf(b, " reading %s %s closed %t\n", sh.id, sh.epoch, sh.closed)
		}
	}
	for _, t := range s.types {
		b = fmt.Appendf(b, " type %s in progress %d credit %d next %d busy %d alternate %t\n", t.name, t.underWay, t.credit, max(-s.cfg.maxLate(), t.nextAt.Sub(now)), rel(t.busyTill), t.alternate)
	}
	for _, sh := range s.shards {
		b = fmt.Appendf(b, " shard %s %s after %d %s read %d %t again %t", sh.id, sh.epoch, sh.after.Due, sh.after.Entity, rel(sh.readAt), sh.reading, sh.again)
		for i := range sh.page {
			b = fmt.Appendf(b, " %s", sh.page[i].Entity)
		}
		b = append(b, '\n')
	}
	for _, e := range slices.SortedFunc(maps.Keys(s.starts), sharding.Entity.Compare) {
		st := s.starts[e]
		b = fmt.Appendf(b, " start %s in progress %t queued %t times %d at %d\n", e, st.underWay, st.queued, st.times, rel(st.retryAt))
	}
	return b
}
