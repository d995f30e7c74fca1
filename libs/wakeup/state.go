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
	rows, failing, held, queued, retries, firings := 0, 0, 0, 0, 0, 0
	for _, s := range k.shards {
		waitingRows := 0
		if k.byID[s.id] != s || s.closed {
			return fmt.Errorf("wakeup: %s is listed but closed", s.id)
		}
		for id, r := range s.rows { // order-free: any error is a bug
			rows++
			if _, known := k.failing[r]; known != (r.failures > 0) {
				return fmt.Errorf("wakeup: %q of %s has failed %d times; listed as failing: %t", r.Name, r.Entity, r.failures, known)
			}
			switch {
			case r.failures > 0:
				failing++
			case r.state == blocked:
				held++
			case r.state == waiting:
				waitingRows++
			}
			if r.key() != id || r.shard != s {
				return fmt.Errorf("wakeup: %q of %s is in the wrong place", r.Name, r.Entity)
			}
			f := k.firings[r.Entity]
			ok := true
			switch r.state {
			case waiting:
				ok = s.typ.due.Has(r)
				queued++
			case retrying:
				ok = k.retries.Has(r)
				retries++
			case underWay:
				ok = f != nil && f.row == r
			case blocked:
				ok = f != nil && slices.Contains(f.blocked, r)
			case damaged:
				ok = r.Err != ""
			default:
				ok = false
			}
			if !ok {
				return fmt.Errorf("wakeup: %q of %s is in state %d, but not where that says", r.Name, r.Entity, r.state)
			}
		}
		if waitingRows != s.waitingRows {
			return fmt.Errorf("wakeup: %s counts %d wake-ups that wait and are not failing; there are %d", s.id, s.waitingRows, waitingRows)
		}
	}
	for _, t := range k.types {
		queued -= len(t.due)
		firings += t.firing
	}
	if rows != k.rows || failing != len(k.failing) || held != k.blocked || queued != 0 || retries != len(k.retries) || firings != len(k.firings) {
		return fmt.Errorf("wakeup: counted %d rows, %d failing, %d blocked, %d firings; there are %d, %d, %d, %d", k.rows, len(k.failing), k.blocked, firings, rows, failing, held, len(k.firings))
	}
	if rows > k.cfg.Rows || failing > k.cfg.FailingRows || held > k.cfg.BlockedRows {
		return fmt.Errorf("wakeup: %d rows, %d of them failing and %d blocked, are above the limits", rows, failing, held)
	}
	if k.reserved != len(k.readShards())*k.cfg.Page {
		return fmt.Errorf("wakeup: %d rows are reserved for reads of %d shards", k.reserved, len(k.readShards()))
	}
	return nil
}

// readShards returns the shards of all reads under way, including shards that were closed
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
	types, shards, rows := map[*typeQueue]*typeQueue{}, map[*shard]*shard{}, map[*row]*row{}
	c.types, c.shards = nil, nil
	for _, t := range k.types {
		tc := *t
		types[t] = &tc
		c.types = append(c.types, &tc)
	}
	copyRow := func(r *row) *row {
		if rows[r] == nil {
			rc := *r
			rows[r] = &rc
		}
		return rows[r]
	}
	copyShard := func(s *shard) *shard {
		if shards[s] == nil {
			sc := *s
			sc.typ, sc.changed, sc.changedRows, sc.renewed, sc.rows = types[s.typ], maps.Clone(s.changed), slices.Clone(s.changedRows), maps.Clone(s.renewed), map[key]*row{}
			shards[s] = &sc
		}
		return shards[s]
	}
	c.byID = map[sharding.ShardID]*shard{}
	for _, s := range k.shards {
		sc := copyShard(s)
		c.shards = append(c.shards, sc)
		c.byID[s.id] = sc
		for id, r := range s.rows { // order-free: copies
			sc.rows[id] = copyRow(r)
		}
	}
	copyRows := func(rs []*row) []*row {
		var out []*row
		for _, r := range rs {
			out = append(out, copyRow(r))
		}
		return out
	}
	for i := range c.types {
		c.types[i].due = copyRows(c.types[i].due)
	}
	c.retries = copyRows(k.retries)
	c.firings = map[sharding.Entity]*firing{}
	for e, f := range k.firings { // order-free: copies
		c.firings[e] = &firing{shard: copyShard(f.shard), row: copyRow(f.row), ref: f.ref, blocked: copyRows(f.blocked), more: f.more}
	}
	c.reads = map[uint64]*reading{}
	for n, r := range k.reads { // order-free: copies
		rc := &reading{until: r.until, any: r.any}
		for _, s := range r.shards {
			rc.shards = append(rc.shards, copyShard(s))
		}
		c.reads[n] = rc
	}
	c.failing = map[*row]struct{}{}
	for r := range k.failing { // order-free: copies
		c.failing[copyRow(r)] = struct{}{}
	}
	for r, rc := range rows { // order-free: copies
		rc.shard = copyShard(r.shard)
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
	b = fmt.Appendf(b, "wakeups clock %d scan %d from %d room %t after %d pause %d random %x last %d\n",
		k.storeClock-k.storeClockAt.UnixMilli(), rel(k.scanAt), k.scanFrom, k.noRoom, rel(k.readsAfter), k.failedReads, k.jitter, k.lastRead)
	for _, s := range k.readShards() {
		b = fmt.Appendf(b, " reading %s %s closed %t\n", s.id, s.epoch, s.closed)
	}
	for _, s := range k.shards {
		b = fmt.Appendf(b, " shard %s %s horizon %d after %d read %d %t again %t empty %t changed %d %d %d %t\n", s.id, s.epoch, s.horizon-now.UnixMilli(), s.after.Due,
			rel(s.readAt), s.reading, s.sweepAgain, s.empty, len(s.changed), len(s.changedRows), len(s.renewed), s.outdated)
		for _, id := range slices.SortedFunc(maps.Keys(s.rows), key.compare) {
			r := s.rows[id]
			b = fmt.Appendf(b, "  %s %q %d %d due %d %d state %d times %d %d seen %t\n", r.Entity, r.Name, r.Seq, r.Number, r.Due-now.UnixMilli(), r.Period, r.state, r.failures, rel(r.retryAt), r.sweep == s.sweep)
		}
	}
	for _, e := range slices.SortedFunc(maps.Keys(k.firings), sharding.Entity.Compare) {
		f := k.firings[e]
		b = fmt.Appendf(b, " firing %s %q %d %d more %t", e, f.ref.Name, f.ref.Seq, f.ref.Number, f.more)
		for _, r := range f.blocked {
			b = fmt.Appendf(b, " %q", r.Name)
		}
		b = append(b, '\n')
	}
	return b
}

func (k key) compare(o key) int {
	return cmp.Or(k.entity.Compare(o.entity), cmp.Compare(k.kind, o.kind), strings.Compare(k.name, o.name))
}
