package wakeup

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Check verifies the invariants of the keeper. An error means a bug.
func (k *Keeper) Check() error {
	failing, held, queued, firings, wakes := 0, 0, 0, 0, map[*wake]bool{}
	for _, s := range k.sweep.Shards() {
		waitingWakes := 0
		for id, w := range s.wakes { // order-free: any error is a bug
			wakes[w] = true
			switch {
			case w.Times > 0:
				failing++
			case w.state == blocked:
				held++
			case w.state == waiting:
				waitingWakes++
			}
			if keyOf(&w.WakeEntry) != id || w.shard != s {
				return fmt.Errorf("wakeup: %q of %s is in the wrong place", w.Name, w.Entity)
			}
			f := k.firings[w.Entity]
			ok := true
			switch w.state {
			case waiting:
				ok = s.typ.due.Has(w)
				queued++
			case retrying:
				ok = k.failing.Queued(w)
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
			return fmt.Errorf("wakeup: %s counts %d wake-ups that wait and are not failing; there are %d", s.ID, s.waitingWakes, waitingWakes)
		}
	}
	for _, t := range k.types {
		queued -= len(t.due)
		firings += t.firingsUnderWay
	}
	if len(wakes) != k.wakes || held != k.blocked || queued != 0 || firings != len(k.firings) {
		return fmt.Errorf("wakeup: counted %d wake-ups, %d blocked, %d firings; there are %d, %d, %d", k.wakes, k.blocked, firings, len(wakes), held, len(k.firings))
	}
	if len(wakes) > k.cfg.Wakes || failing > k.cfg.FailingWakes || held > k.cfg.BlockedWakes {
		return fmt.Errorf("wakeup: %d wake-ups, %d of them failing and %d blocked, are above the limits", len(wakes), failing, held)
	}
	return errors.Join(k.sweep.Check(), k.failing.Check(wakes))
}

// Clone returns a copy of the keeper that shares nothing with it.
func (k *Keeper) Clone() *Keeper {
	c := *k
	c.out = nil
	types, shards, wakes := map[*typeQueue]*typeQueue{}, map[*shard]*shard{}, map[*wake]*wake{}
	c.types = nil
	for _, t := range k.types {
		tc := *t
		types[t] = &tc
		c.types = append(c.types, &tc)
	}
	var copyWake func(w *wake) *wake
	copyShard := func(s *shard) *shard {
		if shards[s] == nil {
			sc := *s
			shards[s] = &sc
			sc.typ, sc.changed, sc.changedWakes, sc.ignored, sc.wakes = types[s.typ], maps.Clone(s.changed), slices.Clone(s.changedWakes), maps.Clone(s.ignored), map[key]*wake{}
			for id, w := range s.wakes { // order-free: copies
				sc.wakes[id] = copyWake(w)
			}
		}
		return shards[s]
	}
	copyWake = func(w *wake) *wake {
		if wakes[w] == nil {
			copied := *w
			wakes[w] = &copied
			copied.shard = copyShard(w.shard)
		}
		return wakes[w]
	}
	c.sweep, c.failing = k.sweep.Clone(copyShard), k.failing.Clone(copyWake)
	for _, t := range c.types {
		t.due = due.Map(t.due, copyWake)
	}
	c.firings = map[sharding.Entity]*firing{}
	for e, f := range k.firings { // order-free: copies
		c.firings[e] = &firing{shard: copyShard(f.shard), wake: copyWake(f.wake), ref: f.ref, blocked: due.Map(f.blocked, copyWake), more: f.more}
	}
	return &c
}

// AppendState appends a canonical description of the state, with times relative to now: equal
// states give equal bytes.
func (k *Keeper) AppendState(now time.Time, b []byte) []byte {
	b = k.sweep.AppendState(now, append(b, "wakeups "...), func(b []byte, s *shard) []byte {
		b = fmt.Appendf(b, " horizon %d after %d until %d again %t empty %t changed %d %d %d %t", s.horizon-now.UnixMilli(), s.after.Due, s.until,
			s.sweepAgain, s.empty, len(s.changed), len(s.changedWakes), len(s.ignored), s.outdated)
		for _, id := range slices.SortedFunc(maps.Keys(s.wakes), key.compare) {
			w := s.wakes[id]
			b = fmt.Appendf(b, "\n  %s %q %d %d due %d %d state %d times %d %d seen %t", w.Entity, w.Name, w.Seq, w.Number, w.Due-now.UnixMilli(), w.Period, w.state, w.Times, due.Left(now, w.RetryAt), w.sweep == s.sweep)
		}
		return b
	})
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
