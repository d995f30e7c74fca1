package journaltest

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

const byWake = sharding.RefusedWake

// setting is a wake-up that a record sets; due 0 removes it.
func setting(name string, due, period int64) sharding.Wake {
	w := sharding.Wake{Kind: sharding.TimerWake, Name: name, Due: due, Period: period}
	if due != 0 {
		w.Input = sharding.Input{Command: "ring", Version: 2, ReadableBy: 1, Shape: 1 << 63, Encoding: sharding.Protobuf, Payload: []byte(name)}
	}
	return w
}

// waking is a record that sets wake-ups.
func waking(seq uint64, wakes ...sharding.Wake) sharding.Record {
	return sharding.Record{Seq: seq, Wakes: wakes}
}

// fired says that a wake-up, as the record seq has set it, has fired. number is how often it
// had fired before.
func fired(name string, seq, number uint64, next int64) sharding.Fired {
	return sharding.Fired{WakeRef: sharding.WakeRef{Kind: sharding.TimerWake, Name: name, Seq: seq, Number: number}, Next: next}
}

// firing is an append that reports what has fired, and has records.
func firing(e sharding.Epoch, to sharding.Entity, f []sharding.Fired, records ...sharding.Record) journal.Op {
	return journal.Op{Append: &sharding.Append{Shard: shard, Epoch: e, Entity: to, Records: records, Fired: f}}
}

// delivering is an append that says which sends of a record have ended.
func delivering(e sharding.Epoch, from sharding.Entity, seq uint64, sends ...uint16) journal.Op {
	return journal.Op{Append: &sharding.Append{Shard: shard, Epoch: e, Entity: from, Delivered: []sharding.Delivered{{Seq: seq, Sends: sends}}}}
}

// wakes reads all wake-ups of shards, in pages of at most limit rows of each.
func (e *env) wakes(r journal.Reader, until int64, limit int, shards ...journal.ShardPosition) []journal.WakeRow {
	e.Helper()
	var all []journal.WakeRow
	for pages := 0; len(shards) > 0; pages++ {
		p, err := r.Wakes(e.Context(), journal.WakesRequest{Shards: shards, Until: until, Limit: limit})
		if err != nil {
			e.Fatalf("wake-ups: %v", err)
		}
		if p.Now.IsZero() || len(p.Damaged) > 0 || len(p.Rows) == 0 && pages > 0 {
			e.Fatalf("page %d is %+v", pages, p)
		}
		all = append(all, p.Rows...)
		shards = nextPositions(e, shards, p, limit)
	}
	return all
}

// nextPositions are those of the shards that have more rows.
func nextPositions(e *env, shards []journal.ShardPosition, p journal.WakesPage, limit int) []journal.ShardPosition {
	e.Helper()
	var next []journal.ShardPosition
	for _, s := range shards {
		n := 0
		for i := range p.Rows {
			if row := &p.Rows[i]; row.Shard == s.Shard {
				s.After = row.Position()
				n++
			}
		}
		if n > limit {
			e.Fatalf("%d rows of shard %s, at most %d were asked for", n, s.Shard, limit)
		}
		if slices.Contains(p.More, s.Shard) {
			next = append(next, s)
		}
	}
	if len(next) != len(p.More) {
		e.Fatalf("more rows are said to be in %v: a shard that was not asked for, or one twice", p.More)
	}
	return next
}

// timers are all timers of the shard that most tests use.
func (e *env) timers() []journal.WakeRow {
	e.Helper()
	return e.wakes(e.b, 0, 100, journal.ShardPosition{Shard: shard})
}

// standing is the row that the method timers returns for a wake-up that is set.
func standing(of sharding.Entity, seq, number uint64, w sharding.Wake) journal.WakeRow {
	return journal.WakeRow{Shard: shard, Entity: of, WakeRef: sharding.WakeRef{Kind: w.Kind, Name: w.Name, Seq: seq, Number: number}, Due: w.Due, Period: w.Period, Input: w.Input}
}

// sends reads all records with sends of shards, in pages.
func (e *env) sends(r journal.Reader, limit int, shards ...journal.SendPosition) []journal.SendRow {
	e.Helper()
	var all []journal.SendRow
	for len(shards) > 0 {
		p, err := r.Sends(e.Context(), journal.SendsRequest{Shards: shards, Limit: limit})
		if err != nil {
			e.Fatalf("sends: %v", err)
		}
		if p.Now.IsZero() || len(p.Damaged) > 0 {
			e.Fatalf("a page is %+v", p)
		}
		all = append(all, p.Rows...)
		var next []journal.SendPosition
		for _, s := range shards {
			n := 0
			for i := range p.Rows {
				if p.Rows[i].Shard == s.Shard {
					s = p.Rows[i].Position()
					n++
				}
			}
			if n > limit {
				e.Fatalf("%d rows of shard %s, at most %d were asked for", n, s.Shard, limit)
			}
			if slices.Contains(p.More, s.Shard) {
				next = append(next, s)
			}
		}
		shards = next
	}
	return all
}

func (e *env) outbox() []journal.SendRow {
	e.Helper()
	return e.sends(e.b, 100, journal.SendPosition{Shard: shard})
}

// done says of each row of the outbox which sends have ended.
func (e *env) done() (all [][]byte) {
	e.Helper()
	for _, s := range e.outbox() {
		all = append(all, s.Done)
	}
	return all
}

// testWakes: the records of an entity set its wake-ups, replace and remove them.
func testWakes(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	a, b, c := setting("a", 1000, 0), setting("b", 500, 60_000), setting("c", 2000, 0)
	e.one(durable, add(alice, waking(1, a, b), waking(2, c)))
	e.one(durable, add(bob, waking(1, a)))
	e.equal("timers", e.timers(), []journal.WakeRow{standing(alice, 1, 0, b), standing(alice, 1, 0, a), standing(bob, 1, 0, a), standing(alice, 2, 0, c)})
	e.equal("records", e.load(alice).Records, []sharding.Record{waking(1, a, b), waking(2, c)})
	// Set again and removed, also within one append, where the last record decides.
	later := setting("a", 3000, 5)
	e.one(durable, add(alice, waking(3, later, setting("b", 0, 0)), waking(4, setting("c", 0, 0)), waking(5, setting("c", 9, 0)), waking(6, setting("c", 0, 0))))
	e.equal("timers", e.timers(), []journal.WakeRow{standing(bob, 1, 0, a), standing(alice, 3, 0, later)})
	e.one(durable, add(alice, waking(7, setting("b", 0, 0)), waking(8, setting("none", 0, 0)))) // there is none
	// A kind has names of its own.
	remember := sharding.Wake{Kind: sharding.RememberWake, Name: "a", Due: -77}
	e.one(durable, add(alice, waking(9, remember)))
	e.equal("timers", e.timers(), []journal.WakeRow{standing(bob, 1, 0, a), standing(alice, 3, 0, later)})
	first := journal.ShardPosition{Shard: shard, After: journal.WakePosition{Due: math.MinInt64}}
	e.equal("remembered", e.wakes(e.b, 1, 100, first), []journal.WakeRow{standing(alice, 9, 0, remember)})
	e.equal("all", len(e.wakes(e.b, 0, 100, first)), 3)
	// A wake-up may have fired before the record that sets it: its number is kept.
	carried := setting("carried", 70, 0)
	carried.Number = 1<<64 - 1
	e.one(durable, add(carol, waking(1, carried)))
	e.one(durable, firing(epoch, carol, []sharding.Fired{fired("carried", 1, 1<<64-1, 80)}))
	carried.Due = 80
	e.equal("timers of carol", e.timers()[0], standing(carol, 1, 0, carried))
	// What is refused sets nothing.
	e.one(bySeq, add(bob, waking(3, later)))
	e.one(byEpoch, appendAt(epoch-1, bob, waking(2, later)))
	e.equal("timers", len(e.timers()), 3)
}

// testFired: what has fired is gone, or due again, with the records of the same append.
func testFired(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	once, often := setting("once", 100, 0), setting("often", 200, 50)
	e.one(durable, add(alice, waking(1, once, often)))
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("once", 1, 0, 0)}, record(2, "a")))
	e.equal("timers", e.timers(), []journal.WakeRow{standing(alice, 1, 0, often)})
	e.equal("alice", e.load(alice).LastSeq, uint64(2))
	// Without a record.
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("often", 1, 0, 250)}))
	often.Due = 250
	e.equal("timers", e.timers(), []journal.WakeRow{standing(alice, 1, 1, often)})
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("often", 1, 1, 300)}, record(3, "b")))
	often.Due = 300
	e.equal("timers", e.timers(), []journal.WakeRow{standing(alice, 1, 2, often)})
	// The record comes after that: it sets the wake-up again, or removes it.
	again := setting("often", 900, 7)
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("often", 1, 2, 350)}, waking(4, again)))
	e.equal("timers", e.timers(), []journal.WakeRow{standing(alice, 4, 0, again)})
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("often", 4, 0, 950)}, waking(5, setting("often", 0, 0))))
	e.equal("timers", e.timers(), []journal.WakeRow(nil))
	e.one(durable, firing(epoch, alice, nil, waking(6, once), waking(7, setting("two", 5, 0))))
	e.one(durable, firing(epoch, alice, []sharding.Fired{fired("once", 6, 0, 0), fired("two", 7, 0, 0)}))
	e.equal("timers", e.timers(), []journal.WakeRow(nil))
	e.equal("alice", e.load(alice).LastSeq, uint64(7))
}

// testFiredIsChecked: an append whose wake-up does not stand is refused as a whole.
func testFiredIsChecked(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	w := setting("w", 100, 50)
	one := func(f ...sharding.Fired) []sharding.Fired { return f }
	e.one(byWake, firing(epoch, alice, one(fired("w", 1, 0, 0)))) // no such entity
	e.one(byWake, firing(epoch, alice, one(fired("w", 1, 0, 0)), waking(1, w)))
	e.equal("alice", e.load(alice), journal.Loaded{})
	e.equal("entities", e.list(e.b, "", 10), []sharding.Entity(nil))
	e.one(durable, add(alice, waking(1, w), record(2, "a")))
	remember := fired("w", 1, 0, 0)
	remember.Kind = sharding.RememberWake
	for what, f := range map[string][]sharding.Fired{
		"another name":                  one(fired("v", 1, 0, 0)),
		"another kind":                  one(remember),
		"another record":                one(fired("w", 2, 0, 0)),
		"fired before":                  one(fired("w", 1, 1, 0)),
		"one that stands is not enough": one(fired("w", 1, 0, 0), fired("v", 1, 0, 0)),
		"twice":                         one(fired("w", 1, 0, 0), fired("w", 1, 0, 0)),
		"twice, in order":               one(fired("w", 1, 0, 200), fired("w", 1, 1, 0)),
	} {
		for _, records := range [][]sharding.Record{nil, {record(3, "b")}} {
			if r := e.commit(firing(epoch, alice, f, records...)); r[0].Verdict != byWake {
				e.Errorf("%s: %v", what, r[0].Verdict)
			}
		}
	}
	e.one(byWake, firing(epoch, bob, one(fired("w", 1, 0, 0)), record(1, "b"))) // that of alice
	e.equal("timers", e.timers(), []journal.WakeRow{standing(alice, 1, 0, w)})
	e.equal("alice", e.load(alice, "b").LastSeq, uint64(2))
	e.equal("bob", e.load(bob), journal.Loaded{})
	// It was set again, or has fired, meanwhile.
	e.one(durable, add(alice, waking(3, w)))
	e.one(byWake, firing(epoch, alice, one(fired("w", 1, 0, 0)), record(4, "b")))
	e.one(durable, firing(epoch, alice, one(fired("w", 3, 0, 300)), record(4, "b")))
	e.one(byWake, firing(epoch, alice, one(fired("w", 3, 0, 300)), record(5, "c")))
	e.one(durable, firing(epoch, alice, one(fired("w", 3, 1, 0)), record(5, "c")))
	e.one(byWake, firing(epoch, alice, one(fired("w", 3, 1, 0))))
	// Other reasons for a refusal come first. They leave the wake-up as it is.
	e.one(durable, add(alice, waking(6, w)))
	good := one(fired("w", 6, 0, 0))
	e.one(bySeq, firing(epoch, alice, good, record(6, "d")))
	e.one(bySeq, firing(epoch, alice, one(fired("v", 6, 0, 0)), record(6, "d")))
	e.one(byID, firing(epoch, alice, good, record(7, "b")))
	e.one(byID, firing(epoch, alice, one(fired("v", 6, 0, 0)), record(7, "b")))
	e.one(byEpoch, firing(epoch+1, alice, good, record(7, "d")))
	e.want(verdicts{durable, bySeq, durable}, add(alice, record(7, "d")), firing(epoch, alice, good), add(bob, record(1, "a")))
	e.equal("timers", e.timers(), []journal.WakeRow{standing(alice, 6, 0, w)})
	e.want(verdicts{durable, bySeq}, firing(epoch, alice, good), add(alice, record(8, "e")))
}

// testWakesAreFenced: an owner of another epoch changes no wake-up and no send, whether or
// not its append has records.
func testWakesAreFenced(e *env) {
	w := setting("w", 100, 50)
	f := []sharding.Fired{fired("w", 1, 0, 0)}
	e.one(byEpoch, firing(0, alice, f)) // nobody claimed
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
	e.equal("timers", e.timers(), []journal.WakeRow{standing(alice, 1, 0, w)})
	e.equal("done", e.done(), [][]byte{{0}})
	e.one(durable, firing(epoch+1, alice, f))
	e.one(durable, delivering(epoch+1, alice, 1, 0))
}

// mailing is a record with sends, to be told apart by their payloads.
func mailing(seq uint64, sends int) sharding.Record {
	r := record(seq, sharding.CommandID(fmt.Sprint("mail", seq)))
	for i := range sends {
		r.Sends = append(r.Sends, sharding.Send{To: bob, Input: sharding.Input{Command: "take", Payload: fmt.Append(nil, seq, i)}, ReplyTo: "told"})
	}
	return r
}

// testSends: a record with sends has a row until all of them have ended.
func testSends(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, mailing(1, 3), record(2, "a"), mailing(3, 17)))
	row := func(of sharding.Entity, r sharding.Record, done ...byte) journal.SendRow {
		return journal.SendRow{Shard: shard, Entity: of, Seq: r.Seq, At: e.now, Done: done, Sends: r.Sends}
	}
	e.equal("sends", e.outbox(), []journal.SendRow{row(alice, mailing(1, 3), 0), row(alice, mailing(3, 17), 0, 0, 0)})
	e.equal("records", e.load(alice).Records, bare(mailing(1, 3), record(2, "a"), mailing(3, 17)))
	e.one(durable, delivering(epoch, alice, 1, 1))
	e.one(durable, delivering(epoch, alice, 3, 0, 7, 8, 16))
	e.equal("sends", e.outbox(), []journal.SendRow{row(alice, mailing(1, 3), 2), row(alice, mailing(3, 17), 0x81, 1, 1)})
	// With a record, and several at once.
	both := add(alice, mailing(4, 1))
	both.Append.Delivered = []sharding.Delivered{{Seq: 1, Sends: []uint16{0, 2}}, {Seq: 3, Sends: []uint16{1}}, {Seq: 3, Sends: []uint16{2}}}
	e.one(durable, both)
	e.equal("sends", e.outbox(), []journal.SendRow{row(alice, mailing(3, 17), 0x87, 1, 1), row(alice, mailing(4, 1), 0)})
	// What is refused delivers and sends nothing.
	refused := add(alice, mailing(7, 1))
	refused.Append.Delivered = []sharding.Delivered{{Seq: 4, Sends: []uint16{0}}}
	e.one(bySeq, refused)
	refused = firing(epoch, alice, []sharding.Fired{fired("none", 1, 0, 0)}, mailing(5, 1))
	refused.Append.Delivered = []sharding.Delivered{{Seq: 4, Sends: []uint16{0}}}
	e.one(byWake, refused)
	e.equal("sends", e.outbox(), []journal.SendRow{row(alice, mailing(3, 17), 0x87, 1, 1), row(alice, mailing(4, 1), 0)})
	var all []uint16
	for i := range uint16(17) {
		all = append(all, i)
	}
	e.one(durable, delivering(epoch, alice, 3, all...))
	e.equal("sends", e.outbox(), []journal.SendRow{row(alice, mailing(4, 1), 0)})
	e.equal("alice", e.load(alice).LastSeq, uint64(4))
}

// testDeliveredAgain: that a send has ended may be said again, whatever has ended meanwhile.
func testDeliveredAgain(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, delivering(epoch, alice, 1, 0)) // no such entity
	e.equal("entities", e.list(e.b, "", 10), []sharding.Entity(nil))
	e.one(durable, add(alice, mailing(1, 3), record(2, "a")))
	for range 2 {
		e.one(durable, delivering(epoch, alice, 1, 1, 2, 1))
		e.equal("done", e.done(), [][]byte{{6}})
	}
	e.one(durable, delivering(epoch, alice, 2, 0)) // it has none
	e.one(durable, delivering(epoch, alice, 9, 0)) // no such record
	e.one(durable, delivering(epoch, alice, 1, 3, 7, 8, 65535, 999))
	e.equal("done", e.done(), [][]byte{{6}})
	for range 2 {
		e.one(durable, delivering(epoch, alice, 1, 0, 1, 2))
		e.equal("sends", len(e.outbox()), 0)
	}
	e.equal("alice", e.load(alice).LastSeq, uint64(2))
}

// testWakePages: every row is in exactly one page, in the order in which they are due, however
// long the pages are, and many shards are read at once.
func testWakePages(e *env) {
	var shards []journal.ShardPosition
	want := map[sharding.ShardID]int{}
	for n := range uint32(12) {
		s := sharding.ShardID{Type: alice.Type, Index: n}
		if n == 11 {
			s = sharding.ShardID{Type: "Account2", Index: 3}
		}
		shards = append(shards, journal.ShardPosition{Shard: s})
		e.one(durable, claim(s, epoch, 1))
		for i := range int(n) * 3 {
			id := sharding.Entity{Type: s.Type, ID: sharding.EntityID(fmt.Sprint(n, "-", (i*7)%5, "é", i))}
			r := waking(1)
			for k := range 1 + i%3 { // many are due at the same time
				r.Wakes = append(r.Wakes, setting(fmt.Sprint("w", k), int64(1000+(i+k)%4), 0))
			}
			e.one(durable, journal.Op{Append: &sharding.Append{Shard: s, Epoch: epoch, Entity: id, Records: []sharding.Record{r}}})
			want[s] += len(r.Wakes)
		}
	}
	for what, r := range map[string]journal.Reader{"driver": e.b, "reader": e.openReader()} {
		var whole []journal.WakeRow
		for _, limit := range []int{1000, 1, 3, 36} {
			got := e.wakes(r, 0, limit, shards...)
			slices.SortStableFunc(got, func(a, b journal.WakeRow) int { return a.Shard.Compare(b.Shard) })
			count := map[sharding.ShardID]int{}
			for i, w := range got {
				count[w.Shard]++
				if w.Err != nil || string(w.Input.Payload) != w.Name {
					e.Fatalf("%s: %+v", what, w)
				}
				if i > 0 && got[i-1].Shard == w.Shard && got[i-1].Due > w.Due {
					e.Fatalf("%s: %+v comes after %+v", what, w, got[i-1])
				}
			}
			e.equal(fmt.Sprint(what, ": rows in pages of ", limit), count, want)
			if whole == nil {
				whole = got
			}
			e.equal(fmt.Sprint(what, ": in pages of ", limit), got, whole)
		}
		var before int
		for _, w := range whole {
			if w.Due < 1002 {
				before++
			}
		}
		e.equal(what+": due before 1002", len(e.wakes(r, 1002, 5, shards...)), before)
		e.equal(what+": due before the first", len(e.wakes(r, 1000, 5, shards...)), 0)
		for i := range shards {
			shards[i].After = journal.WakePosition{Due: 1002}
		}
		e.equal(what+": from 1002 on", len(e.wakes(r, 0, 5, shards...)), len(whole)-before)
		// After names an entity that is not stored (any more). Then the page begins at its due
		// time, so that rows of that time come again, and none is left out.
		for i := range shards {
			shards[i].After = journal.WakePosition{Due: 1002, Entity: sharding.Entity{Type: shards[i].Shard.Type, ID: "gone"}, Kind: sharding.TimerWake, Name: "x"}
		}
		if got := len(e.wakes(r, 0, 5, shards...)); got < len(whole)-before && e.store.Renumber != nil {
			e.Errorf("%s: %d rows behind an entity that is gone, want %d", what, got, len(whole)-before)
		}
		for i := range shards {
			shards[i].After = journal.WakePosition{}
		}
	}
}

// testSendPages is testWakePages for sends.
func testSendPages(e *env) {
	var shards []journal.SendPosition
	want := map[sharding.ShardID]int{}
	for n := range uint32(8) {
		s := sharding.ShardID{Type: alice.Type, Index: n}
		shards = append(shards, journal.SendPosition{Shard: s})
		e.one(durable, claim(s, epoch, 1))
		for i := range int(n) {
			id := sharding.Entity{Type: s.Type, ID: sharding.EntityID(fmt.Sprint(n, "-", (i*7)%5, "é", i))}
			e.one(durable, journal.Op{Append: &sharding.Append{Shard: s, Epoch: epoch, Entity: id, Records: []sharding.Record{mailing(1, 1), blank(2), mailing(3, 9)}}})
			want[s] += 2
		}
	}
	for what, r := range map[string]journal.Reader{"driver": e.b, "reader": e.openReader()} {
		var whole []journal.SendRow
		for _, limit := range []int{1000, 1, 3, 14} {
			got := e.sends(r, limit, shards...)
			slices.SortStableFunc(got, func(a, b journal.SendRow) int { return a.Shard.Compare(b.Shard) })
			count := map[sharding.ShardID]int{}
			for i, s := range got {
				count[s.Shard]++
				if s.Err != nil || !s.At.Equal(e.now) || !slices.EqualFunc(s.Sends, mailing(s.Seq, len(s.Sends)).Sends, func(a, b sharding.Send) bool {
					return a.To == b.To && a.ReplyTo == b.ReplyTo && bytes.Equal(a.Input.Payload, b.Input.Payload)
				}) {
					e.Fatalf("%s: %+v", what, s)
				}
				if i > 0 && got[i-1].Entity == s.Entity && got[i-1].Seq >= s.Seq {
					e.Fatalf("%s: %+v comes after %+v", what, s, got[i-1])
				}
			}
			e.equal(fmt.Sprint(what, ": rows in pages of ", limit), count, want)
			if whole == nil {
				whole = got
			}
			e.equal(fmt.Sprint(what, ": in pages of ", limit), got, whole)
		}
	}
}

// testPageBytes: a page reads only so much of the records, and at least one.
func testPageBytes(e *env) {
	cfg := e.cfg
	cfg.PageBytes = 3000
	e.store = e.fresh(e.T, cfg, e.clock)
	e.b = e.open()
	const entities, size = 12, 1000
	var shards []journal.ShardPosition
	var senders []journal.SendPosition
	for n := range uint32(3) {
		s := sharding.ShardID{Type: alice.Type, Index: n}
		shards, senders = append(shards, journal.ShardPosition{Shard: s}), append(senders, journal.SendPosition{Shard: s})
		e.one(durable, claim(s, epoch, 1))
		for i := range entities {
			r := mailing(1, 1)
			r.Sends[0].Input.Payload = make([]byte, size<<(i%5))
			r.Wakes = []sharding.Wake{setting("w", 5, 0)}
			id := sharding.Entity{Type: s.Type, ID: sharding.EntityID(fmt.Sprint(n, "-", i))}
			e.one(durable, journal.Op{Append: &sharding.Append{Shard: s, Epoch: epoch, Entity: id, Records: []sharding.Record{r}}})
		}
	}
	p, err := e.b.Wakes(e.Context(), journal.WakesRequest{Shards: shards, Limit: 1000})
	if err != nil || len(p.Rows) == 0 || len(p.Rows) > 3 || len(p.More) != len(shards) {
		e.Fatalf("a page has %d rows, more of %v, %v", len(p.Rows), p.More, err)
	}
	e.equal("wake-ups", len(e.wakes(e.b, 0, 1000, shards...)), 3*entities)
	e.equal("sends", len(e.sends(e.b, 1000, senders...)), 3*entities)
}

// testDamagedWakes: a damaged record is an error of its rows, and of no others.
func testDamagedWakes(e *env) {
	if e.store.Damage == nil {
		e.Skip("this store cannot be damaged")
	}
	e.one(durable, claim(shard, epoch, 1))
	for _, id := range []sharding.Entity{alice, bob, carol} {
		r := mailing(2, 1)
		r.Wakes = []sharding.Wake{setting("a", 5, 0), setting("b", 6, 0)}
		e.one(durable, add(id, record(1, "x"), r))
	}
	if err := e.store.Damage(bob, 2); err != nil {
		e.Fatal(err)
	}
	if e.store.Renumber != nil { // the record is missing
		if err := e.store.Renumber(carol, 2, 3); err != nil {
			e.Fatal(err)
		}
	}
	for what, r := range map[string]journal.Reader{"driver": e.b, "reader": e.openReader()} {
		for _, limit := range []int{1, 100} {
			good, bad := 0, 0
			check := func(of sharding.Entity, err error) {
				e.Helper()
				switch {
				case of == alice && err == nil, of == carol && err == nil && e.store.Renumber == nil:
					good++
				case of != alice && is(err, journal.ErrCorrupt):
					bad++
				default:
					e.Errorf("%s: %s: %v", what, of, err)
				}
			}
			for _, w := range e.wakes(r, 0, limit, journal.ShardPosition{Shard: shard}) {
				if check(w.Entity, w.Err); w.Name != "a" && w.Name != "b" || w.Seq != 2 {
					e.Errorf("%s: %+v", what, w)
				}
			}
			for _, s := range e.sends(r, limit, journal.SendPosition{Shard: shard}) {
				if check(s.Entity, s.Err); s.Seq != 2 || len(s.Done) != 1 {
					e.Errorf("%s: %+v", what, s)
				}
			}
			if good+bad != 9 || bad < 3 {
				e.Errorf("%s: %d rows are good, %d damaged", what, good, bad)
			}
		}
	}
	// The wake-up and the sends of a damaged record can still be ended.
	e.one(durable, firing(epoch, bob, []sharding.Fired{fired("a", 2, 0, 0)}))
	e.one(durable, delivering(epoch, bob, 2, 0))
}
