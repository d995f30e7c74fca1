package journaltest

import (
	"fmt"
	"math"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

func purge(e sharding.Epoch, of sharding.Entity, life uint64) journal.Op {
	return journal.Op{Purge: &journal.Purge{Shard: shard, Epoch: e, Entity: of, Life: life}}
}

// deleted returns the entries of deleted entities that are not fully purged.
func (e *env) deleted() []journal.WakeEntry {
	e.Helper()
	return e.wakes(e.b, math.MaxInt64, 10, journal.ShardPosition{Shard: shard, After: journal.WakePosition{Due: journal.PurgeFrom}})
}

// lookIn returns when an entry is due.
func (e *env) lookIn(w *journal.WakeEntry) time.Duration {
	return time.UnixMilli(w.Due - journal.PurgeFrom).Sub(e.now)
}

// left returns the deleted entities that are not fully purged, each with the time until the
// next look at it.
func (e *env) left() map[sharding.EntityID]time.Duration {
	e.Helper()
	left := map[sharding.EntityID]time.Duration{}
	for _, w := range e.deleted() {
		left[w.Entity.ID] = e.lookIn(&w)
	}
	return left
}

// own lets time pass like the owner of the shard, which checks the due entries every minute.
func (e *env) own(d time.Duration) {
	e.Helper()
	for end := e.now.Add(d); e.now.Before(end); {
		e.pass(time.Minute)
		for _, w := range e.deleted() {
			if e.lookIn(&w) <= 0 {
				e.one(durable, purge(epoch, w.Entity, w.Seq))
			}
		}
	}
}

func (e *env) exists(id sharding.Entity) bool {
	e.Helper()
	page, err := e.b.List(e.Context(), journal.ListRequest{Type: id.Type, Limit: 100})
	if err != nil {
		e.Fatal(err)
	}
	for _, x := range page {
		if x == id {
			return true
		}
	}
	return false
}

// testPurge: a deleted entity is gone when its keys are old enough, however few they are. Its
// shard still remembers the expired keys.
func testPurge(e *env) {
	old, unused, gone := key7(e.now, 1), key7(e.now, 2), key7(e.now, 3)
	e.one(durable, claim(shard, epoch, 1))
	e.one(sharding.RefusedWake, purge(epoch, alice, 1))
	e.one(durable, add(alice, record(1, old), record(2, "plain"), blank(3)))
	e.one(sharding.RefusedWake, purge(epoch, alice, 3))
	e.one(durable, snapshot(epoch, alice, 3, "s"))
	e.one(durable, add(alice, deletion(4, gone)))
	e.one(durable, add(bob, records(1, "b")...))
	soon := map[sharding.EntityID]time.Duration{alice.ID: e.cfg.LookAt(e.now).Sub(e.now)}
	e.equal("left", e.left(), soon)
	// Fenced, and about one life.
	e.one(byEpoch, purge(epoch+1, alice, 4))
	e.one(sharding.RefusedWake, purge(epoch, alice, 3))
	// Too early: nothing is removed.
	e.pass(e.cfg.DedupeAge / 2)
	e.one(durable, purge(epoch, alice, 4))
	e.equal("left", e.left(), soon)
	e.equal("still remembered", len(e.load(alice, old, "plain", gone).Stored), 3)
	e.pass(e.cfg.DedupeAge/2 + time.Second)
	e.one(durable, purge(epoch, alice, 4))
	e.equal("left", len(e.left()), 0)
	e.equal("stored", e.exists(alice), false)
	e.equal("bob is stored", e.exists(bob), true)
	e.one(sharding.RefusedWake, purge(epoch, alice, 4)) // a repeat, as after a lost reply
	// An absent entity knows that old keys have expired; those without a time are expired.
	absent := func(id sharding.Entity) {
		e.Helper()
		l, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: id, Shard: shard, Lookup: []sharding.CommandID{old, unused, gone, "plain", key7(e.now, 4)}})
		if err != nil {
			e.Fatal(err)
		}
		x := sharding.Stored{Expired: true}
		e.equal("stored of absent entities", l, journal.Loaded{Stored: map[sharding.CommandID]sharding.Stored{old: x, unused: x, gone: x}})
	}
	absent(alice)
	absent(carol)
	for _, id := range []sharding.CommandID{old, unused, gone} {
		e.one(byID, add(alice, record(1, id)))
		e.one(byID, add(carol, record(1, id)))
	}
	e.one(bySeq, add(alice, record(5, "late")))
	// The entity that is made anew knows it too, and its sequence begins again.
	e.one(durable, add(alice, record(1, key7(e.now, 5))))
	e.one(byID, add(alice, record(2, old)))
	e.equal("expired", e.load(alice, old).Stored[old], sharding.Stored{Expired: true})
	e.equal("life", e.load(alice).Life, uint64(0))
	e.one(durable, add(bob, record(2, unused))) // nothing of bob has expired
}

// testPurgeLives: the rest of an ended life is removed while a later life exists.
func testPurgeLives(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	first := mailing(1, 2)
	first.Command = key7(e.now, 1)
	e.one(durable, add(alice, first, deletion(2, "gone"), record(3, "new")))
	e.pass(e.cfg.DedupeAge + time.Second)
	e.one(durable, add(alice, record(4, "newer")))
	// Its sends are not done.
	e.one(durable, purge(epoch, alice, 2))
	e.equal("left", e.left(), map[sharding.EntityID]time.Duration{alice.ID: e.cfg.LookAt(e.now).Sub(e.now)})
	e.equal("sends", len(e.sends(e.b, 10, journal.SendPosition{Shard: shard})), 1)
	e.one(durable, delivering(epoch, alice, 1, 0, 1))
	e.one(durable, purge(epoch, alice, 2))
	e.equal("left", len(e.left()), 0)
	l := e.load(alice, first.Command, "gone", "new", "newer")
	e.equal("records", l.Records, withoutReplies(records(3, "new", "newer")...))
	e.equal("its life", l.Life, uint64(2))
	e.equal("expired", l.Stored[first.Command], sharding.Stored{Expired: true})
	e.equal("remembered", len(l.Stored), 3) // and one that has expired
	e.one(byID, add(alice, record(5, "new")))
	e.one(durable, add(alice, record(5, "gone"))) // it was expired, and has no time in it
	e.one(durable, add(alice, deletion(6, "gone again")))
	// The number of keys does not protect them, and one batch does not do it twice.
	e.pass(e.cfg.DedupeAge + time.Second)
	e.want(verdicts{durable, sharding.RefusedWake, bySeq, bySeq},
		purge(epoch, alice, 6), purge(epoch, alice, 6), add(alice, record(7, "x")), snapshot(epoch, alice, 6, "s"))
	e.equal("stored", e.exists(alice), false)
}

// testPurgeSeenTime: time counts only if one process has seen it pass.
func testPurgeSeenTime(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "a"), deletion(2, "gone")))
	e.pass(2 * e.cfg.DedupeAge)
	e.b = e.open()
	e.one(durable, purge(epoch, alice, 2))
	e.equal("stored", e.exists(alice), true)
	e.pass(e.cfg.DedupeAge / 2)
	e.one(durable, purge(epoch, alice, 2))
	e.equal("stored", e.exists(alice), true)
	e.equal("left", e.left(), map[sharding.EntityID]time.Duration{alice.ID: e.cfg.LookAt(e.now).Sub(e.now)})
	// A record in between: from then on only what passes after it counts for its key.
	e.one(durable, add(alice, record(3, "new")))
	e.pass(e.cfg.DedupeAge/2 + time.Second)
	e.one(durable, purge(epoch, alice, 2))
	e.equal("left", len(e.left()), 0)
	e.equal("records", len(e.load(alice).Records), 1)
	e.one(durable, add(alice, deletion(4, "")))
	e.one(durable, purge(epoch, alice, 4))
	e.equal("stored", e.exists(alice), true)
	e.pass(e.cfg.DedupeAge)
	e.one(durable, purge(epoch, alice, 4))
	e.equal("stored", e.exists(alice), false)
}

// testPurgeReplaced: an entity is gone although processes are replaced as often as keys are
// expired, or more often.
func testPurgeReplaced(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, deletion(1, "gone")))
	e.own(e.cfg.DedupeAge / 5) // then its process is replaced
	for range 2 {
		e.b = e.open()
		e.equal("stored", e.exists(alice), true)
		e.own(e.cfg.DedupeAge * 5 / 6)
	}
	e.equal("stored", e.exists(alice), false)
	e.one(durable, add(alice, deletion(1, "gone")))
	e.own(e.cfg.DedupeAge / 5)
	e.b = e.open()
	e.own(e.cfg.DedupeAge)
	e.equal("stored", e.exists(alice), false)
}

// testPurgeAgain: of an entity that is deleted again and again the old lives go, however often
// that is.
func testPurgeAgain(e *env) {
	const lives, every = 24, 5 * time.Minute
	e.cfg.DedupeCount = 3 * lives // so that only purges expire keys
	e.store = e.fresh(e.T, e.cfg, e.clock)
	e.b = e.open()
	e.equal("a life is shorter than the pause between two looks", e.cfg.LookAt(e.now).Sub(e.now) > every, true)
	key := func(life int) sharding.CommandID { return sharding.CommandID(fmt.Sprint("c", life)) }
	e.one(durable, claim(shard, epoch, 1))
	for n := range lives {
		seq := uint64(2*n + 1)
		e.one(durable, add(alice, record(seq, key(n)), deletion(seq+1, "")))
		left := e.deleted()
		e.equal("entries", len(left), 1)
		e.equal("the life that has ended", left[0].Seq, seq+1)
		e.own(every)
	}
	for n := range lives {
		age := time.Duration(lives-n) * every
		found := len(e.load(alice, key(n)).Stored)
		if due := e.cfg.DedupeAge; age < due && found == 0 || age > due*5/4 && found > 0 {
			e.Errorf("%d keys of a command that ran %v ago are remembered; they are for %v", found, age, due)
		}
	}
	e.own(e.cfg.DedupeAge * 5 / 4)
	e.equal("stored", e.exists(alice), false)
}

// testPurgeIsBounded: a purge removes some records, the next one the next ones.
func testPurgeIsBounded(e *env) {
	const n = 2*journal.MaxPurge + 10
	e.one(durable, claim(shard, epoch, 1))
	for seq := uint64(1); seq <= n; seq += 100 {
		var rs []sharding.Record
		for i := range uint64(100) {
			rs = append(rs, record(seq+i, sharding.CommandID(fmt.Sprint("c", seq+i))))
		}
		e.one(durable, add(alice, rs...))
	}
	last := e.load(alice).LastSeq
	e.one(durable, add(alice, deletion(last+1, "gone")))
	e.pass(e.cfg.DedupeAge + time.Second)
	for i := range 3 {
		e.equal("stored", e.exists(alice), true)
		e.equal("due", e.left()[alice.ID] <= 0, true)
		e.equal("remembered", len(e.load(alice, "gone").Stored), 1)
		if i > 0 {
			e.equal("expired", len(e.load(alice, "c1").Stored), 0)
		}
		e.one(durable, purge(epoch, alice, last+1))
	}
	e.equal("stored", e.exists(alice), false)
}

// testPurgedNumbers: two processes, one purge, one new entity: a process that remembers the
// number of the purged entity must not take it for the number of another one.
func testPurgedNumbers(e *env) {
	first, second := e.b, e.open()
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(bob, record(1, "b")))
	e.one(durable, add(alice, record(1, "a"))) // the newest number
	e.one(durable, add(alice, deletion(2, "")))
	e.pass(e.cfg.DedupeAge + time.Second)
	e.b = second
	e.one(durable, add(bob, record(2, "b2")))
	for range 2 {
		e.one(durable, purge(epoch, alice, 2))
		e.pass(e.cfg.DedupeAge + time.Second)
	}
	e.equal("stored", e.exists(alice), false)
	e.one(durable, add(carol, record(1, "c")))
	e.b = first
	e.one(sharding.RefusedWake, purge(epoch, alice, 2))
	fired := add(alice)
	fired.Append.Fired = []sharding.Fired{{WakeRef: sharding.WakeRef{Kind: sharding.ReminderWake, Name: "t", Seq: 1}}}
	e.one(sharding.RefusedWake, fired)
	e.one(bySeq, add(alice, record(3, "late")))
	e.one(durable, add(alice, record(1, "again")))
	e.one(durable, add(bob, record(3, "b3")))
	for range 2 {
		for id, want := range map[sharding.Entity][]sharding.CommandID{alice: {"again"}, bob: {"b", "b2", "b3"}, carol: {"c"}} {
			e.equal("records of "+id.String(), e.load(id).Records, withoutReplies(records(1, want...)...))
		}
		e.b = second
	}
	// And once more, with an entity that is made anew by the other process.
	e.one(durable, add(carol, deletion(2, "")))
	e.pass(e.cfg.DedupeAge + time.Second)
	e.one(durable, purge(epoch, carol, 2))
	e.one(durable, add(carol, record(1, "new")))
	e.b = first
	with := record(2, "timer")
	with.Wakes = []sharding.Wake{setting("t", 100, 0)}
	e.one(durable, add(carol, with))
	e.b = second
	fired = add(carol)
	fired.Append.Fired = []sharding.Fired{{WakeRef: sharding.WakeRef{Kind: sharding.ReminderWake, Name: "t", Seq: 2}}}
	e.one(durable, fired)
}
