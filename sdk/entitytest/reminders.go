package entitytest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// Crash is the moment at which a region dies that is about to commit the effects of a turn.
type Crash int

const (
	// BeforeCommit: nothing of it is stored.
	BeforeCommit Crash = iota + 1
	// AfterCommit: it is stored, and no caller has learned of it.
	AfterCommit
)

// CrashAtCommit crashes the region at its next commit, as [Kit.Restart] does. A caller that waits gets an
// error with an unknown outcome. Reminders that are due fire again, if they still stand.
func (k *Kit) CrashAtCommit(when Crash) { k.crash, k.crashOf = when, sharding.Entity{} }

// CrashAtCommit crashes the region at the next commit of the entity, which may be one that another entity
// asks.
func (e Entity) CrashAtCommit(when Crash) { e.kit.crash, e.kit.crashOf = when, e.addr }

// FireAgain fires the last reminder that has fired once more, as a region does that did not learn how it
// ended. The journal refuses it: the command runs, and takes no effect.
func (k *Kit) FireAgain() {
	k.t.Helper()
	if k.lastFire == nil {
		k.t.Fatal("entitytest: FireAgain: no reminder has fired yet")
	}
	f := *k.lastFire
	k.open(f.Entity)
	f.Epoch = k.m.Epoch(f.Shard)
	k.step(f)
}

// Reminder is one that an entity has set and that has not fired for the last time.
type Reminder struct {
	Name    string
	Command string
	Due     time.Time
	Period  time.Duration // 0: it fires once
	// Failures is the number of failures of its command since it was due, and Error is the last error.
	Failures int
	Error    string
}

// Reminders returns the reminders of the entity, in the order in which they are due.
func (e Entity) Reminders() []Reminder {
	k, ent := e.kit, e.addr
	failing := k.wakeups.Failing(ent, len(k.journal(ent).reminders))
	var list []Reminder
	for _, r := range k.journal(ent).reminders { // order-free: sorted below
		out := Reminder{Name: r.Name, Command: r.Input.Command, Due: time.UnixMilli(r.Due).UTC(), Period: time.Duration(r.Period) * time.Millisecond}
		if i := slices.IndexFunc(failing, func(f wakeup.Failing) bool { return f.Name == r.Name }); i >= 0 {
			out.Failures, out.Error = failing[i].Times, string(failing[i].Code)+": "+failing[i].Message
		}
		list = append(list, out)
	}
	slices.SortFunc(list, func(a, b Reminder) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Name, b.Name)) })
	return list
}

// wakeupConfig is the keeper's configuration: it knows the due reminders without asking again.
func wakeupConfig() wakeup.Config {
	c := wakeup.DefaultConfig()
	c.Refresh = 365 * 24 * time.Hour
	c.Ahead = 2 * c.Refresh
	return c
}

// open opens the shard of an entity, if it is not open.
func (k *Kit) open(ent sharding.Entity) {
	k.openShard(ent)
	k.run()
}

// openShard is open, but leaves what the cores want then to its caller.
func (k *Kit) openShard(ent sharding.Entity) {
	if shard := k.shardOf(ent); k.m.Epoch(shard) == 0 {
		k.openWithKept(shard)
	}
}

// openWithKept opens a shard, with the states that a move has kept.
func (k *Kit) openWithKept(shard sharding.ShardID) {
	epoch := sharding.MakeEpoch(1, 1+k.restarts)
	kept := k.kept[shard]
	delete(k.kept, shard)
	k.core(turn.Open{Shard: shard, Epoch: epoch, Kept: kept})
	if !k.descs[shard.Type].Desc.Volatile {
		k.wakeups.Step(k.now, wakeup.Open{Shard: shard, Epoch: epoch}, &k.wanted)
		if k.descs[shard.Type].Remember {
			k.starter.Step(k.now, wakeup.Open{Shard: shard, Epoch: epoch}, &k.wanted)
		}
		k.outbox.Step(k.now, outbox.Open{Shard: shard, Epoch: epoch}, &k.sent)
	}
}

// openShards opens the shards of all entities that have reminders or pending sends, or are remembered.
func (k *Kit) openShards() {
	for _, ent := range slices.SortedFunc(maps.Keys(k.store), sharding.Entity.Compare) {
		if s := k.store[ent]; len(s.reminders) > 0 || s.remembered != nil || s.pending() > 0 {
			k.open(ent)
		}
	}
}

// page answers a read of reminders.
func (k *Kit) page(r wakeup.Read) wakeup.Page {
	p := wakeup.Page{Number: r.Number, WakesPage: journal.WakesPage{Now: k.now}}
	for _, after := range r.Shards {
		var rows []journal.WakeEntry
		for _, s := range k.store { // order-free: sorted below
			for _, row := range s.reminders { // order-free: sorted below
				if row.Shard == after.Shard && row.Due < r.Until && comparePlaces(&row, after.After) > 0 {
					rows = append(rows, row)
				}
			}
		}
		slices.SortFunc(rows, func(a, b journal.WakeEntry) int {
			return comparePlaces(&a, b.Position())
		})
		if len(rows) >= r.Limit {
			rows = rows[:r.Limit]
			p.More = append(p.More, after.Shard)
		}
		p.Entries = append(p.Entries, rows...)
	}
	return p
}

func comparePlaces(r *journal.WakeEntry, p journal.WakePosition) int {
	return cmp.Or(cmp.Compare(r.Due, p.Due), r.Entity.Compare(p.Entity), cmp.Compare(r.Name, p.Name))
}

// stands reports whether all reminders stand that an append says have fired.
func (s *stored) stands(fired []sharding.Fired) bool {
	for _, f := range fired {
		if r, ok := s.reminders[f.Name]; !ok || r.WakeRef != f.WakeRef {
			return false
		}
	}
	return true
}

// change does what an append does to reminders, and to the life of the entity.
func (s *stored) change(a *sharding.Append) {
	for _, f := range a.Fired {
		r := s.reminders[f.Name]
		if r.Number, r.Due = r.Number+1, f.Next; f.Next == 0 {
			delete(s.reminders, f.Name)
			continue
		}
		s.reminders[f.Name] = r
	}
	for _, rec := range a.Records {
		if rec.Delete {
			s.life, s.snapSeq, s.snap = rec.Seq, 0, nil
			clear(s.reminders)
			s.remembered = nil
		}
		for _, w := range rec.Wakes {
			if w.Kind == sharding.RememberWake {
				s.remember(a, w.Due)
				continue
			}
			if w.Due == 0 {
				delete(s.reminders, w.Name)
				continue
			}
			s.reminders[w.Name] = journal.WakeEntry{
				Shard: a.Shard, Entity: a.Entity, Due: w.Due, Period: w.Period, Input: w.Input,
				WakeRef: sharding.WakeRef{Kind: w.Kind, Name: w.Name, Seq: rec.Seq},
			}
		}
	}
}
