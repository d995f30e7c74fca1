package journaltest

import (
	"math"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// deletion is a record that deletes its entity.
func deletion(seq uint64, command sharding.CommandID) sharding.Record {
	r := record(seq, command)
	r.Events, r.Delete = nil, true
	return r
}

// testDelete: a delete is a record. The sequence continues, and nothing of the life before comes
// back: not its records, not its snapshot, not its wake-ups.
func testDelete(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, records(1, "a", "b")...))
	e.one(durable, snapshot(epoch, alice, 1, "old"))
	e.equal("fresh", freshness(e.load(alice)), false)
	e.one(durable, add(alice, deletion(3, "gone")))
	l := e.load(alice, "a", "gone")
	e.equal("life", l.Life, uint64(3))
	e.equal("last", l.LastSeq, uint64(3))
	e.equal("records", len(l.Records), 0)
	e.equal("snapshot", l.Snapshot, journal.Snapshot{})
	e.equal("fresh", l.Fresh(), true)
	e.equal("its commands are remembered", len(l.Stored), 2)
	e.one(byID, add(alice, record(4, "a")))
	// Snapshots of the life that has ended are refused, including a snapshot of its last
	// record.
	for seq := uint64(1); seq <= 3; seq++ {
		e.one(bySeq, snapshot(epoch, alice, seq, "late"))
	}
	e.one(bySeq, add(alice, record(1, "x")))
	e.one(durable, add(alice, blank(4)))
	e.equal("fresh", freshness(e.load(alice)), true)
	operators := record(5, "again")
	operators.Events, operators.Operator = nil, true
	e.one(durable, add(alice, operators))
	e.equal("fresh", freshness(e.load(alice)), true)
	e.one(durable, add(alice, record(6, "c")))
	l = e.load(alice)
	e.equal("records of the new life", l.Records, withoutReplies(blank(4), operators, record(6, "c")))
	e.equal("fresh", l.Fresh(), false)
	e.one(durable, snapshot(epoch, alice, 6, "new"))
	all, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: alice, WithoutSnapshot: true})
	if err != nil {
		e.Fatal(err)
	}
	e.equal("records of the new life", all.Records, withoutReplies(blank(4), operators, record(6, "c")))
	// In one unit with records of both lives, and in one batch with snapshots of both.
	e.want(verdicts{durable, durable, bySeq, durable},
		add(alice, record(7, "d"), deletion(8, "gone2"), record(9, "e")), snapshot(epoch, alice, 9, "newer"),
		snapshot(epoch, alice, 8, "older"), snapshot(epoch, alice, 9, "newest"))
	l = e.load(alice)
	e.equal("life", l.Life, uint64(8))
	e.equal("snapshot", string(l.Snapshot.Payload), "newest")
	e.want(verdicts{durable, durable}, snapshot(epoch, alice, 9, "again"), add(alice, deletion(10, "")))
	l = e.load(alice)
	e.equal("life", l.Life, uint64(10))
	e.equal("snapshot", l.Snapshot, journal.Snapshot{})
	e.one(durable, add(bob, deletion(1, "never there")))
	e.equal("life", e.load(bob).Life, uint64(1))
}

func freshness(l journal.Loaded) bool { return l.Fresh() }

// testDeleteWakes: wake-ups go with the record that deletes their entity, and sends stay.
func testDeleteWakes(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	first := mailing(1, 3)
	first.Wakes = []sharding.Wake{setting("a", 100, 0), setting("b", 200, 50), {Kind: sharding.RememberWake, Due: -5}}
	e.one(durable, add(alice, first))
	other := record(1, "other")
	other.Wakes = []sharding.Wake{setting("a", 100, 0)}
	e.one(durable, add(bob, other))
	gone := deletion(2, "gone")
	gone.Sends = first.Sends[:1]
	wrong := gone
	wrong.Wakes = []sharding.Wake{setting("c", 1, 0)}
	if op := add(alice, wrong); op.Check() == nil {
		e.Error("a record that deletes its entity may set a wake-up")
	}
	after := record(3, "after")
	after.Wakes = []sharding.Wake{setting("b", 300, 0)}
	fired := add(alice, gone, after)
	fired.Append.Fired = []sharding.Fired{{WakeRef: sharding.WakeRef{Kind: sharding.ReminderWake, Name: "b", Seq: 1}, Next: 250}}
	e.one(durable, fired)
	from := journal.ShardPosition{Shard: shard, After: journal.WakePosition{Due: math.MinInt64}}
	var names []string
	for _, w := range e.wakes(e.b, 0, 2, from) {
		names = append(names, string(w.Entity.ID)+w.Name)
	}
	e.equal("wake-ups", names, []string{"boba", "aliceb"})
	sends := e.sends(e.b, 10, journal.SendPosition{Shard: shard})
	e.equal("sends", len(sends), 2)
	e.equal("of both lives", []uint64{sends[0].Seq, sends[1].Seq}, []uint64{1, 2})
	// A firing of the life that has ended.
	late := add(alice)
	late.Append.Fired = []sharding.Fired{{WakeRef: sharding.WakeRef{Kind: sharding.ReminderWake, Name: "b", Seq: 1}}}
	e.one(sharding.RefusedWake, late)
	left := e.wakes(e.b, math.MaxInt64, 10, journal.ShardPosition{Shard: shard, After: journal.WakePosition{Due: journal.PurgeFrom}})
	e.equal("the rest of alice", left, []journal.WakeEntry{{
		Shard: shard, Entity: alice, WakeRef: sharding.WakeRef{Kind: sharding.PurgeWake, Seq: 2},
		Due: journal.PurgeFrom + e.cfg.LookAt(e.now).UnixMilli(),
	}})
}
