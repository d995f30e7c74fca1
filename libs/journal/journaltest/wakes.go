package journaltest

import (
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

const byWake = sharding.RefusedWake

// setting is a reminder that a record sets. With due 0, the record removes the reminder.
func setting(name string, due, period int64) sharding.Wake {
	w := sharding.Wake{Kind: sharding.ReminderWake, Name: name, Due: due, Period: period}
	if due != 0 {
		w.Input = sharding.Input{Command: "ring", Version: 2, ReadableBy: 1, Shape: 1 << 63, Encoding: sharding.Protobuf, Payload: []byte(name)}
	}
	return w
}

// waking is a record that sets and removes wake-ups.
func waking(seq uint64, wakes ...sharding.Wake) sharding.Record {
	return sharding.Record{Seq: seq, Wakes: wakes}
}

// fired reports that a reminder has fired. The record with sequence number seq has set it, and
// that setting had already fired number times. It is due again at next; 0: it is removed.
func fired(name string, seq, number uint64, next int64) sharding.Fired {
	return sharding.Fired{WakeRef: sharding.WakeRef{Kind: sharding.ReminderWake, Name: name, Seq: seq, Number: number}, Next: next}
}

// firing returns an append that reports the reminders that have fired. It may have records,
// too.
func firing(e sharding.Epoch, to sharding.Entity, f []sharding.Fired, records ...sharding.Record) journal.Op {
	return journal.Op{Append: &sharding.Append{Shard: shard, Epoch: e, Entity: to, Records: records, Fired: f}}
}

// wakes reads the wake-ups of shards that are due before until (0: all), in pages of at most
// limit entries of each shard. Only the first page may be empty.
func (e *env) wakes(r journal.Reader, until int64, limit int, shards ...journal.ShardPosition) []journal.WakeEntry {
	e.Helper()
	var all []journal.WakeEntry
	for pages := 0; len(shards) > 0; pages++ {
		p, err := r.Wakes(e.Context(), journal.WakesRequest{Shards: shards, Until: until, Limit: limit})
		if err != nil {
			e.Fatalf("wake-ups: %v", err)
		}
		if p.Now.IsZero() || len(p.Damaged) > 0 || len(p.Entries) == 0 && pages > 0 {
			e.Fatalf("page %d is %+v", pages, p)
		}
		all = append(all, p.Entries...)
		shards = nextPositions(e, shards, p, limit)
	}
	return all
}

// nextPositions returns where the next page begins, for the shards that have more entries.
func nextPositions(e *env, shards []journal.ShardPosition, p journal.WakesPage, limit int) []journal.ShardPosition {
	e.Helper()
	var next []journal.ShardPosition
	for _, s := range shards {
		n := 0
		for i := range p.Entries {
			if row := &p.Entries[i]; row.Shard == s.Shard {
				s.After = row.Position()
				n++
			}
		}
		if n > limit {
			e.Fatalf("%d entries of shard %s, at most %d were asked for", n, s.Shard, limit)
		}
		if slices.Contains(p.More, s.Shard) {
			next = append(next, s)
		}
	}
	if len(next) != len(p.More) {
		e.Fatalf("more entries are said to be in %v: a shard that was not asked for, or one twice", p.More)
	}
	return next
}

// reminders returns all reminders of the shard that most tests use. It reads from due time 0 on. So
// it does not return a RememberWake, whose due time is negative (see sharding.Wake).
func (e *env) reminders() []journal.WakeEntry {
	e.Helper()
	return e.wakes(e.b, 0, 100, journal.ShardPosition{Shard: shard})
}

// standing is the entry of a wake-up that is set: the record with sequence number seq has set it,
// and that setting has fired number times.
func standing(of sharding.Entity, seq, number uint64, w sharding.Wake) journal.WakeEntry {
	return journal.WakeEntry{Shard: shard, Entity: of, WakeRef: sharding.WakeRef{Kind: w.Kind, Name: w.Name, Seq: seq, Number: number}, Due: w.Due, Period: w.Period, Input: w.Input}
}

// testWakes: the records of an entity set its wake-ups, replace and remove them.
func testWakes(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	a, b, c := setting("a", 1000, 0), setting("b", 500, 60_000), setting("c", 2000, 0)
	e.one(durable, add(alice, waking(1, a, b), waking(2, c)))
	e.one(durable, add(bob, waking(1, a)))
	e.equal("reminders", e.reminders(), []journal.WakeEntry{standing(alice, 1, 0, b), standing(alice, 1, 0, a), standing(bob, 1, 0, a), standing(alice, 2, 0, c)})
	e.equal("records", e.load(alice).Records, []sharding.Record{waking(1, a, b), waking(2, c)})
	// Set again and removed, also within one append, where the last record decides.
	later := setting("a", 3000, 5)
	e.one(durable, add(alice, waking(3, later, setting("b", 0, 0)), waking(4, setting("c", 0, 0)), waking(5, setting("c", 9, 0)), waking(6, setting("c", 0, 0))))
	e.equal("reminders", e.reminders(), []journal.WakeEntry{standing(bob, 1, 0, a), standing(alice, 3, 0, later)})
	e.one(durable, add(alice, waking(7, setting("b", 0, 0)), waking(8, setting("none", 0, 0)))) // there is none
	// Each kind has names of its own: this wake-up is remembered, and does not replace reminder a. Its
	// due time is negative (see sharding.Wake), so a request for reminders does not return it.
	remember := sharding.Wake{Kind: sharding.RememberWake, Name: "a", Due: -77}
	e.one(durable, add(alice, waking(9, remember)))
	e.equal("reminders", e.reminders(), []journal.WakeEntry{standing(bob, 1, 0, a), standing(alice, 3, 0, later)})
	first := journal.ShardPosition{Shard: shard, After: journal.WakePosition{Due: math.MinInt64}}
	e.equal("remembered", e.wakes(e.b, 1, 100, first), []journal.WakeEntry{standing(alice, 9, 0, remember)})
	e.equal("all", len(e.wakes(e.b, 0, 100, first)), 3)
	e.remembered(alice, 0, 1) // under another name
	// A wake-up may have fired before the record that sets it: its number is kept.
	carried := setting("carried", 70, 0)
	// A record may say how often its setting has fired. After the highest number comes 0.
	carried.Number = 1<<64 - 1
	e.one(durable, add(carol, waking(1, carried)))
	e.one(durable, firing(epoch, carol, []sharding.Fired{fired("carried", 1, 1<<64-1, 80)}))
	carried.Due = 80
	e.equal("reminders of carol", e.reminders()[0], standing(carol, 1, 0, carried))
	// An append that is refused sets nothing.
	e.one(bySeq, add(bob, waking(3, later)))
	e.one(byEpoch, appendAt(epoch-1, bob, waking(2, later)))
	e.equal("reminders", len(e.reminders()), 3)
}

// testFired: the append that reports a reminder as fired removes the reminder, or makes it due
// again. Its records may set or remove the reminder after that.
func testFired(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	once, often := setting("once", 100, 0), setting("often", 200, 50)
	e.one(durable, add(alice, waking(1, once, often)))
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("once", 1, 0, 0)}, record(2, "a")))
	e.equal("reminders", e.reminders(), []journal.WakeEntry{standing(alice, 1, 0, often)})
	e.equal("alice", e.load(alice).LastSeq, uint64(2))
	// An append that has no record.
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("often", 1, 0, 250)}))
	often.Due = 250
	e.equal("reminders", e.reminders(), []journal.WakeEntry{standing(alice, 1, 1, often)})
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("often", 1, 1, 300)}, record(3, "b")))
	often.Due = 300
	e.equal("reminders", e.reminders(), []journal.WakeEntry{standing(alice, 1, 2, often)})
	// What has fired comes before the record of the same append: the record sets the reminder
	// again, or removes it.
	again := setting("often", 900, 7)
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("often", 1, 2, 350)}, waking(4, again)))
	e.equal("reminders", e.reminders(), []journal.WakeEntry{standing(alice, 4, 0, again)})
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("often", 4, 0, 950)}, waking(5, setting("often", 0, 0))))
	e.equal("reminders", e.reminders(), []journal.WakeEntry(nil))
	e.one(durable, firing(epoch, alice, nil, waking(6, once), waking(7, setting("two", 5, 0))))
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("once", 6, 0, 0), fired("two", 7, 0, 0)}))
	e.equal("reminders", e.reminders(), []journal.WakeEntry(nil))
	e.equal("alice", e.load(alice).LastSeq, uint64(7))
}

// testFiredIsChecked: an append is refused as a whole if it reports a reminder as fired whose
// setting does not stand.
func testFiredIsChecked(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	w := setting("w", 100, 50)
	list := func(f ...sharding.Fired) []sharding.Fired { return f }
	e.one(byWake, firing(epoch, alice, list(fired("w", 1, 0, 0)))) // no such entity
	e.one(byWake, firing(epoch, alice, list(fired("w", 1, 0, 0)), waking(1, w)))
	e.equal("alice", e.load(alice), journal.Loaded{})
	e.equal("entities", e.list(e.b, "", 10), []sharding.Entity(nil))
	e.one(durable, add(alice, waking(1, w), record(2, "a")))
	remember := fired("w", 1, 0, 0)
	remember.Kind = sharding.RememberWake
	for what, f := range map[string][]sharding.Fired{
		"another name":                  list(fired("v", 1, 0, 0)),
		"another kind":                  list(remember),
		"another record":                list(fired("w", 2, 0, 0)),
		"has fired once":                list(fired("w", 1, 1, 0)),
		"one that stands is not enough": list(fired("w", 1, 0, 0), fired("v", 1, 0, 0)),
		"twice":                         list(fired("w", 1, 0, 0), fired("w", 1, 0, 0)),
		"twice, in order":               list(fired("w", 1, 0, 200), fired("w", 1, 1, 0)),
	} {
		for _, records := range [][]sharding.Record{nil, {record(3, "b")}} {
			if r := e.commit(firing(epoch, alice, f, records...)); r[0].Verdict != byWake {
				e.Errorf("%s: %v", what, r[0].Verdict)
			}
		}
	}
	e.one(byWake, firing(epoch, bob, list(fired("w", 1, 0, 0)), record(1, "b"))) // alice has this reminder, not bob
	e.equal("reminders", e.reminders(), []journal.WakeEntry{standing(alice, 1, 0, w)})
	e.equal("alice", e.load(alice, "b").LastSeq, uint64(2))
	e.equal("bob", e.load(bob), journal.Loaded{})
	// A reminder that was set again, or has fired, does not fire as it was before.
	e.one(durable, add(alice, waking(3, w)))
	e.one(byWake, firing(epoch, alice, list(fired("w", 1, 0, 0)), record(4, "b")))
	e.one(durable, firing(epoch, alice, list(fired("w", 3, 0, 300)), record(4, "b")))
	e.one(byWake, firing(epoch, alice, list(fired("w", 3, 0, 300)), record(5, "c")))
	e.one(durable, firing(epoch, alice, list(fired("w", 3, 1, 0)), record(5, "c")))
	e.one(byWake, firing(epoch, alice, list(fired("w", 3, 1, 0))))
	// The other reasons for a refusal are checked first. A refused append leaves the reminder as it
	// is.
	e.one(durable, add(alice, waking(6, w)))
	good := list(fired("w", 6, 0, 0))
	e.one(bySeq, firing(epoch, alice, good, record(6, "d")))
	e.one(bySeq, firing(epoch, alice, list(fired("v", 6, 0, 0)), record(6, "d")))
	e.one(byID, firing(epoch, alice, good, record(7, "b")))
	e.one(byID, firing(epoch, alice, list(fired("v", 6, 0, 0)), record(7, "b")))
	e.one(byEpoch, firing(epoch+1, alice, good, record(7, "d")))
	// A batch has one append of an entity. A second one is refused by sequence number, whether
	// or not it has records.
	e.want(verdicts{durable, bySeq, durable}, add(alice, record(7, "d")), firing(epoch, alice, good), add(bob, record(1, "a")))
	e.equal("reminders", e.reminders(), []journal.WakeEntry{standing(alice, 6, 0, w)})
	e.want(verdicts{durable, bySeq}, firing(epoch, alice, good), add(alice, record(8, "e")))
}

// testWakesAreFenced: an owner of another epoch changes no wake-up and no send, whether or
// not its append has records.
func testWakesAreFenced(e *env) {
	w := setting("w", 100, 50)
	f := []sharding.Fired{fired("w", 1, 0, 0)}
	e.one(byEpoch, firing(0, alice, f)) // the shard was never claimed
	e.one(durable, claim(shard, epoch, 1))
	sending := waking(1, w)
	sending.Sends = make([]sharding.Send, 2)
	e.one(durable, add(alice, sending))
	e.one(durable, claim(shard, epoch+1, 2))
	for _, other := range []sharding.Epoch{0, epoch, epoch + 2} {
		r := e.one(byEpoch, firing(other, alice, f))
		e.equal("fence of the refusal", r.Fence, sharding.Fence{Epoch: epoch + 1, Owner: 2})
		e.one(byEpoch, firing(other, alice, f, record(2, "a")))
		e.one(byEpoch, delivering(other, alice, 1, 0))
	}
	e.equal("reminders", e.reminders(), []journal.WakeEntry{standing(alice, 1, 0, w)})
	e.equal("states", e.states(), []string{"----"})
	e.one(durable, firing(epoch+1, alice, f))
	e.one(durable, delivering(epoch+1, alice, 1, 0))
}
