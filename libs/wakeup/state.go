package wakeup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Check verifies the invariants of the keeper. An error means a bug.
func (k *Keeper) Check() error {
	wakes, failing, held, queued, retries, firings := 0, 0, 0, 0, 0, 0
	for _, s := range k.shards {
		waitingWakes := 0
		if k.byID[s.id] != s || s.closed {
			return fmt.Errorf("wakeup: %s is listed but closed", s.id)
		}
		for id, w := range s.wakes { // order-free: any error is a bug
			wakes++
			if _, known := k.failing[w]; known != (w.failures > 0) {
				return fmt.Errorf("wakeup: %q of %s has failed %d times; listed as failing: %t", w.Name, w.Entity, w.failures, known)
			}
			switch {
			case w.failures > 0:
				failing++
			case w.state == blocked:
				held++
			case w.state == waiting:
				waitingWakes++
			}
			if keyOf(&w.WakeRow) != id || w.shard != s {
				return fmt.Errorf("wakeup: %q of %s is in the wrong place", w.Name, w.Entity)
			}
			f := k.firings[w.Entity]
			ok := true
			switch w.state {
			case waiting:
				ok = s.typ.due.Has(w)
				queued++
			case retrying:
				ok = k.retries.Has(w)
				retries++
			case underWay:
				ok = f != nil && f.wake == w
			case blocked:
				ok = f != nil && slices.Contains(f.blocked, w)
			case damaged:
				ok = w.Err != nil
			default:
				ok = false
			}
			if !ok {
				return fmt.Errorf("wakeup: %q of %s is in state %d, but not where that says", w.Name, w.Entity, w.state)
			}
		}
		if waitingWakes != s.waitingWakes {
			return fmt.Errorf("wakeup: %s counts %d wake-ups that wait and are not failing; there are %d", s.id, s.waitingWakes, waitingWakes)
		}
	}
	for _, t := range k.types {
		queued -= len(t.due)
		firings += t.firingsUnderWay
	}
	if wakes != k.wakes || failing != len(k.failing) || held != k.blocked || queued != 0 || retries != len(k.retries) || firings != len(k.firings) {
		return fmt.Errorf("wakeup: counted %d wake-ups, %d failing, %d blocked, %d firings; there are %d, %d, %d, %d", k.wakes, len(k.failing), k.blocked, firings, wakes, failing, held, len(k.firings))
	}
	if wakes > k.cfg.Wakes || failing > k.cfg.FailingWakes || held > k.cfg.BlockedWakes {
		return fmt.Errorf("wakeup: %d wake-ups, %d of them failing and %d blocked, are above the limits", wakes, failing, held)
	}
	if k.reserved != len(k.readShards())*k.cfg.Page {
		return fmt.Errorf("wakeup: %d wake-ups are reserved for reads of %d shards", k.reserved, len(k.readShards()))
	}
	return nil
}

// readShards returns the shards of all reads in progress, including shards that were closed
// meanwhile.
func (k *Keeper) readShards() []*shard {
	var all []*shard
	for _, n := range slices.Sorted(maps.Keys(k.reads)) {
		all = append(all, k.reads[n].shards...)
	}
	return all
}

// Clone returns a copy of the keeper that shares nothing with it.
func (k *Keeper) Clone() *Keeper {
	c := *k
	c.out = nil
	types, shards, wakes := map[*typeQueue]*typeQueue{}, map[*shard]*shard{}, map[*wake]*wake{}
	c.types, c.shards = nil, nil
	for _, t := range k.types {
		tc := *t
		types[t] = &tc
		c.types = append(c.types, &tc)
	}
	copyWake := func(w *wake) *wake {
		if wakes[w] == nil {
			copied := *w
			wakes[w] = &copied
		}
		return wakes[w]
	}
	copyShard := func(s *shard) *shard {
		if shards[s] == nil {
			sc := *s
			sc.typ, sc.changed, sc.changedWakes, sc.ignored, sc.wakes = types[s.typ], maps.Clone(s.changed), slices.Clone(s.changedWakes), maps.Clone(s.ignored), map[key]*wake{}
			shards[s] = &sc
		}
		return shards[s]
	}
	c.byID = map[sharding.ShardID]*shard{}
	for _, s := range k.shards {
		sc := copyShard(s)
		c.shards = append(c.shards, sc)
		c.byID[s.id] = sc
		for id, w := range s.wakes { // order-free: copies
			sc.wakes[id] = copyWake(w)
		}
	}
	copyWakes := func(rs []*wake) []*wake {
		var out []*wake
		for _, w := range rs {
			out = append(out, copyWake(w))
		}
		return out
	}
	for i := range c.types {
		c.types[i].due = copyWakes(c.types[i].due)
	}
	c.retries = copyWakes(k.retries)
	c.firings = map[sharding.Entity]*firing{}
	for e, f := range k.firings { // order-free: copies
		c.firings[e] = &firing{shard: copyShard(f.shard), wake: copyWake(f.wake), ref: f.ref, blocked: copyWakes(f.blocked), more: f.more}
	}
	c.reads = map[uint64]*reading{}
	for n, r := range k.reads { // order-free: copies
		rc := &reading{asked: r.asked, until: r.until, any: r.any}
		for _, s := range r.shards {
			rc.shards = append(rc.shards, copyShard(s))
		}
		c.reads[n] = rc
	}
	c.failing = map[*wake]struct{}{}
	for w := range k.failing { // order-free: copies
		c.failing[copyWake(w)] = struct{}{}
	}
	for _, copied := range wakes { // order-free: copies
		copied.shard = copyShard(copied.shard)
	}
	return &c
}

// AppendState appends a canonical description of the state, with times relative to now: equal
// states give equal bytes.
func (k *Keeper) AppendState(now time.Time, b []byte) []byte {
	rel := func(t time.Time) time.Duration {
		if t.IsZero() {
			return -1
		}
		return max(0, t.Sub(now))
	}
	b = k.clock.AppendState(append(b, "wakeups "...))
	b = fmt.Appendf(b, " scan %d from %d room %t after %d pause %d random %x last %d\n",
		rel(k.scanAt), k.scanFrom, k.noRoom, rel(k.readsAfter), k.failedReads, k.jitter, k.lastRead)
	for _, s := range k.readShards() {
		b = fmt.Appendf(b, " reading %s %s closed %t\n", s.id, s.epoch, s.closed)
	}
	for _, s := range k.shards {
		b = fmt.Appendf(b, " shard %s %s horizon %d after %d read %d %t again %t empty %t changed %d %d %d %t\n", s.id, s.epoch, s.horizon-now.UnixMilli(), s.after.Due,
			rel(s.readAt), s.reading, s.sweepAgain, s.empty, len(s.changed), len(s.changedWakes), len(s.ignored), s.outdated)
		for _, id := range slices.SortedFunc(maps.Keys(s.wakes), key.compare) {
			w := s.wakes[id]
			b = fmt.Appendf(b, "  %s %q %d %d due %d %d state %d times %d %d seen %t\n", w.Entity, w.Name, w.Seq, w.Number, w.Due-now.UnixMilli(), w.Period, w.state, w.failures, rel(w.retryAt), w.sweep == s.sweep)
		}
	}
	for _, e := range slices.SortedFunc(maps.Keys(k.firings), sharding.Entity.Compare) {
		f := k.firings[e]
		b = fmt.Appendf(b, " firing %s %q %d %d more %t", e, f.ref.Name, f.ref.Seq, f.ref.Number, f.more)
		for _, w := range f.blocked {
			b = fmt.Appendf(b, " %q", w.Name)
		}
		b = append(b, '\n')
	}
	return b
}

func (k key) compare(o key) int {
	return cmp.Or(k.entity.Compare(o.entity), cmp.Compare(k.kind, o.kind), strings.Compare(k.name, o.name))
}
