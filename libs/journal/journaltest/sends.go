package journaltest

import (
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// delivering is an append that says which sends of a record have ended.
func delivering(e sharding.Epoch, from sharding.Entity, seq uint64, sends ...uint16) journal.Op {
	return journal.Op{Append: &sharding.Append{Shard: shard, Epoch: e, Entity: from, Delivered: []sharding.Delivered{{Seq: seq, Sends: sends}}}}
}

// mailing is a record with sends. Their payloads differ.
func mailing(seq uint64, sends int) sharding.Record {
	r := record(seq, sharding.CommandID(fmt.Sprint("mail", seq)))
	for i := range sends {
		r.Sends = append(r.Sends, sharding.Send{To: bob, Input: sharding.Input{Command: "take", Payload: fmt.Append(nil, seq, i)}, ReplyTo: "told"})
	}
	return r
}

// sends reads the records of shards that have sends which have not ended, in pages of at most
// limit records of each.
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

// outbox reads the records with such sends of the shard that most tests use.
func (e *env) outbox() []journal.SendRow {
	e.Helper()
	return e.sends(e.b, 100, journal.SendPosition{Shard: shard})
}

// done returns, for each record of the outbox, which of its sends have ended: a set of bits,
// as in journal.SendRow.
func (e *env) done() (all [][]byte) {
	e.Helper()
	for _, s := range e.outbox() {
		all = append(all, s.Done)
	}
	return all
}

// testSends: a record with sends has a row until all of them have ended.
func testSends(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, mailing(1, 3), record(2, "a"), mailing(3, 17)))
	row := func(of sharding.Entity, r sharding.Record, done ...byte) journal.SendRow {
		return journal.SendRow{Shard: shard, Entity: of, Seq: r.Seq, At: e.now, Done: done, Sends: r.Sends}
	}
	e.equal("sends", e.outbox(), []journal.SendRow{row(alice, mailing(1, 3), 0), row(alice, mailing(3, 17), 0, 0, 0)})
	e.equal("records", e.load(alice).Records, withoutReplies(mailing(1, 3), record(2, "a"), mailing(3, 17)))
	e.one(durable, delivering(epoch, alice, 1, 1))
	e.one(durable, delivering(epoch, alice, 3, 0, 7, 8, 16))
	e.equal("sends", e.outbox(), []journal.SendRow{row(alice, mailing(1, 3), 2), row(alice, mailing(3, 17), 0x81, 1, 1)})
	// An append with a record, about sends of several records.
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

// testDeliveredAgain: an append may say again that a send has ended, even when all sends of its
// record have ended.
func testDeliveredAgain(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, delivering(epoch, alice, 1, 0)) // no such entity
	e.equal("entities", e.list(e.b, "", 10), []sharding.Entity(nil))
	e.one(durable, add(alice, mailing(1, 3), record(2, "a")))
	for range 2 {
		e.one(durable, delivering(epoch, alice, 1, 1, 2, 1))
		e.equal("done", e.done(), [][]byte{{6}})
	}
	e.one(durable, delivering(epoch, alice, 2, 0)) // the record has no sends
	e.one(durable, delivering(epoch, alice, 9, 0)) // no such record
	e.one(durable, delivering(epoch, alice, 1, 3, 7, 8, 65535, 999))
	e.equal("done", e.done(), [][]byte{{6}})
	for range 2 {
		e.one(durable, delivering(epoch, alice, 1, 0, 1, 2))
		e.equal("sends", len(e.outbox()), 0)
	}
	e.equal("alice", e.load(alice).LastSeq, uint64(2))
}
