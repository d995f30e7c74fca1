package journaltest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// delivering returns an append that reports the given sends of a record as done.
func delivering(e sharding.Epoch, from sharding.Entity, seq uint64, sends ...uint16) journal.Op {
	return journal.Op{Append: &sharding.Append{Shard: shard, Epoch: e, Entity: from, Delivered: []sharding.Delivered{{Seq: seq, Sends: sends, As: sharding.SendDone}}}}
}

// mailing is a record with sends. Their payloads differ.
func mailing(seq uint64, sends int) sharding.Record {
	r := record(seq, sharding.CommandID(fmt.Sprint("mail", seq)))
	for i := range sends {
		r.Sends = append(r.Sends, sharding.Send{To: bob, Input: sharding.Input{Command: "take", Payload: fmt.Append(nil, seq, i)}, ReplyTo: "told"})
	}
	return r
}

// sends reads the records of shards that have pending sends, in pages of at most limit records
// of each.
func (e *env) sends(r journal.Reader, limit int, shards ...journal.SendPosition) []journal.SendEntry {
	e.Helper()
	return e.sendPages(r, false, limit, shards...)
}

// sendPages is sends, or the same for records with dead letters.
func (e *env) sendPages(r journal.Reader, dead bool, limit int, shards ...journal.SendPosition) []journal.SendEntry {
	e.Helper()
	var all []journal.SendEntry
	for len(shards) > 0 {
		p, err := r.Sends(e.Context(), journal.SendsRequest{Shards: shards, Dead: dead, Limit: limit})
		if err != nil {
			e.Fatalf("sends: %v", err)
		}
		if p.Now.IsZero() || len(p.Damaged) > 0 {
			e.Fatalf("a page is %+v", p)
		}
		all = append(all, p.Entries...)
		var next []journal.SendPosition
		for _, s := range shards {
			n := 0
			for i := range p.Entries {
				if p.Entries[i].Shard == s.Shard {
					s = p.Entries[i].Position()
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
		shards = next
	}
	return all
}

// outbox reads the records with such sends of the shard that most tests use.
func (e *env) outbox() []journal.SendEntry {
	e.Helper()
	return e.sends(e.b, 100, journal.SendPosition{Shard: shard})
}

// deadLetters are the records of the shard that most tests use which have dead letters.
func (e *env) deadLetters() []journal.SendEntry {
	e.Helper()
	return e.sendPages(e.b, true, 100, journal.SendPosition{Shard: shard})
}

// states returns the states of the sends of each entry of the outbox, see marks.
func (e *env) states() (all []string) {
	e.Helper()
	for _, entry := range e.outbox() {
		all = append(all, marks(entry.States))
	}
	return all
}

const stateMarks = "-dri" // pending, done, refused, in doubt

// marks has a letter for each send.
func marks(s journal.SendStates) string {
	var b []byte
	for place := range 4 * len(s) {
		b = append(b, stateMarks[s.Of(place)])
	}
	return string(b)
}

// states is the opposite of marks.
func states(marks string) journal.SendStates {
	s := make(journal.SendStates, (len(marks)+3)/4)
	for place := range len(marks) {
		s[place/4] |= byte(strings.IndexByte(stateMarks, marks[place])) << (2 * (place % 4))
	}
	return s
}

// testSends: a record with sends has an entry until all of them have ended.
func testSends(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, mailing(1, 3), record(2, "a"), mailing(3, 17)))
	entry := func(of sharding.Entity, r sharding.Record, are string) journal.SendEntry {
		return journal.SendEntry{Shard: shard, Entity: of, Seq: r.Seq, At: e.now, States: states(are), Sends: r.Sends, Epoch: epoch}
	}
	const fresh = "-----------------"
	e.equal("sends", e.outbox(), []journal.SendEntry{entry(alice, mailing(1, 3), "---"), entry(alice, mailing(3, 17), fresh)})
	e.equal("records", e.load(alice).Records, withoutReplies(mailing(1, 3), record(2, "a"), mailing(3, 17)))
	e.equal("pending", e.load(alice).Pending, 20)
	e.equal("pending of an entity without sends", e.load(bob).Pending, 0)
	e.one(durable, delivering(epoch, alice, 1, 1))
	e.one(durable, delivering(epoch, alice, 3, 0, 7, 8, 16))
	e.equal("sends", e.outbox(), []journal.SendEntry{entry(alice, mailing(1, 3), "-d-"), entry(alice, mailing(3, 17), "d------dd-------d")})
	// With a record, and several at once.
	both := add(alice, mailing(4, 1))
	both.Append.Delivered = []sharding.Delivered{{Seq: 1, Sends: []uint16{0, 2}, As: sharding.SendDone}, {Seq: 3, Sends: []uint16{1}, As: sharding.SendDone}, {Seq: 3, Sends: []uint16{2}, As: sharding.SendDone}}
	e.one(durable, both)
	e.equal("sends", e.outbox(), []journal.SendEntry{entry(alice, mailing(3, 17), "ddd----dd-------d"), entry(alice, mailing(4, 1), "-")})
	e.equal("pending", e.load(alice).Pending, 12)
	// What is refused delivers and sends nothing.
	refused := add(alice, mailing(7, 1))
	refused.Append.Delivered = []sharding.Delivered{{Seq: 4, Sends: []uint16{0}, As: sharding.SendDone}}
	e.one(bySeq, refused)
	refused = firing(epoch, alice, []sharding.Fired{fired("none", 1, 0, 0)}, mailing(5, 1))
	refused.Append.Delivered = []sharding.Delivered{{Seq: 4, Sends: []uint16{0}, As: sharding.SendDone}}
	e.one(byWake, refused)
	e.equal("sends", e.outbox(), []journal.SendEntry{entry(alice, mailing(3, 17), "ddd----dd-------d"), entry(alice, mailing(4, 1), "-")})
	var all []uint16
	for i := range uint16(17) {
		all = append(all, i)
	}
	e.one(durable, delivering(epoch, alice, 3, all...))
	e.equal("sends", e.outbox(), []journal.SendEntry{entry(alice, mailing(4, 1), "-")})
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
		e.equal("states", e.states(), []string{"-dd-"})
	}
	e.one(durable, delivering(epoch, alice, 2, 0)) // it has none
	e.one(durable, delivering(epoch, alice, 9, 0)) // no such record
	e.one(durable, delivering(epoch, alice, 1, 3, 4, 8, 65535, 999))
	e.equal("states", e.states(), []string{"-dd-"})
	e.one(durable, ending(alice, sharding.Delivered{Seq: 1, Sends: []uint16{1}, As: sharding.SendRefused}))
	e.equal("states", e.states(), []string{"-dd-"})
	for range 2 {
		e.one(durable, delivering(epoch, alice, 1, 0, 1, 2))
		e.equal("sends", len(e.outbox()), 0)
	}
	e.equal("alice", e.load(alice).LastSeq, uint64(2))
}

// ending returns an append that only reports how sends have ended.
func ending(of sharding.Entity, d ...sharding.Delivered) journal.Op {
	return journal.Op{Append: &sharding.Append{Shard: shard, Epoch: epoch, Entity: of, Delivered: d}}
}

// testDeadLetters: a dead letter is in pages of its own until it is done.
func testDeadLetters(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, mailing(1, 5), mailing(2, 1), mailing(3, 1)))
	dead := func() (all []string) {
		for _, entry := range e.deadLetters() {
			all = append(all, fmt.Sprint(entry.Seq, marks(entry.States)))
			if entry.Err != nil || len(entry.Sends) == 0 {
				e.Errorf("dead letters: %+v", entry)
			}
		}
		return all
	}
	e.equal("dead", dead(), []string(nil))
	refused := sharding.Delivered{Seq: 1, Sends: []uint16{0, 4}, As: sharding.SendRefused}
	inDoubt := sharding.Delivered{Seq: 1, Sends: []uint16{1}, As: sharding.SendInDoubt}
	other := sharding.Delivered{Seq: 3, Sends: []uint16{0}, As: sharding.SendInDoubt}
	for range 2 {
		e.one(durable, ending(alice, refused, inDoubt, other))
		e.equal("dead", dead(), []string{"1ri--r---", "3i---"})
		e.equal("pending", e.states(), []string{"ri--r---", "----"})
		e.equal("pending of alice", e.load(alice).Pending, 3)
	}
	// A dead letter keeps its state until it is done.
	inDoubt.Sends, refused.Sends = []uint16{0}, []uint16{1}
	e.one(durable, ending(alice, inDoubt, refused))
	e.equal("dead", dead(), []string{"1ri--r---", "3i---"})
	e.one(durable, delivering(epoch, alice, 1, 2, 3))
	e.one(durable, delivering(epoch, alice, 2, 0))
	e.equal("pending", e.states(), []string(nil))
	e.equal("dead", dead(), []string{"1riddr---", "3i---"})
	e.one(durable, delivering(epoch, alice, 3, 0))
	e.one(durable, delivering(epoch, alice, 1, 0, 1, 4))
	e.equal("dead", dead(), []string(nil))
	e.equal("pending of alice", e.load(alice).Pending, 0)
}

// testDeliverOnce: what depends on a send that is not done is refused once it is.
func testDeliverOnce(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, mailing(1, 3)))
	once := func(seq uint64, as sharding.SendState, r []sharding.Record, sends ...uint16) journal.Op {
		op := ending(alice, sharding.Delivered{Seq: seq, Sends: sends, As: as, Once: true})
		op.Append.Records = r
		return op
	}
	e.one(durable, once(1, sharding.SendDone, []sharding.Record{record(2, "a")}, 1))
	e.equal("states", e.states(), []string{"-d--"})
	for range 2 {
		e.one(byWake, once(1, sharding.SendDone, []sharding.Record{record(3, "b")}, 1))
		e.one(byWake, once(1, sharding.SendDone, nil, 0, 1))
		e.one(byWake, once(1, sharding.SendDone, nil, 77))
		e.one(byWake, once(2, sharding.SendDone, nil, 0)) // it has none
		e.one(byWake, once(9, sharding.SendDone, nil, 0)) // no such record
	}
	e.one(durable, ending(alice, sharding.Delivered{Seq: 1, Sends: []uint16{0, 2}, As: sharding.SendRefused}))
	e.one(durable, once(1, sharding.SendDone, []sharding.Record{mailing(3, 1)}, 0)) // a dead letter is not done
	e.equal("dead", len(e.deadLetters()), 1)
	e.one(durable, once(1, sharding.SendDone, nil, 2))
	e.one(byWake, once(1, sharding.SendDone, nil, 2))
	e.equal("dead", len(e.deadLetters()), 0)
	e.equal("states", e.states(), []string{"----"})
	e.equal("alice", e.load(alice).LastSeq, uint64(3))
}

// testDeliverBeside: an append that only reports ended sends does not count as the one append
// that an entity has in a batch, and comes before all others.
func testDeliverBeside(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, mailing(1, 4)))
	done := func(sends ...uint16) journal.Op { return delivering(epoch, alice, 1, sends...) }
	once := ending(alice, sharding.Delivered{Seq: 1, Sends: []uint16{3}, As: sharding.SendDone, Once: true})
	once.Append.Records = []sharding.Record{record(3, "b")}
	e.want(verdicts{durable, durable, durable, durable}, done(0), add(alice, record(2, "a")), done(1), delivering(epoch, alice, 2, 0))
	e.equal("states", e.states(), []string{"dd--"})
	e.want(verdicts{durable, bySeq, durable}, add(alice, mailing(3, 1)), add(alice, record(3, "c")), delivering(epoch, alice, 3, 0))
	e.equal("states", e.states(), []string{"dd--", "----"}) // record 3 was not there yet
	once.Append.Records[0].Seq = 4
	e.want(verdicts{byWake, durable}, once, done(3))
	e.want(verdicts{durable, durable, byEpoch}, claim(shard, epoch+1, 2), done(2), delivering(epoch+1, alice, 1, 2))
	e.one(durable, delivering(epoch+1, alice, 3, 0))
	e.equal("sends", len(e.outbox()), 0)
}
