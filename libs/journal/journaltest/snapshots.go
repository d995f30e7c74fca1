package journaltest

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

func testSnapshots(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(bySeq, snapshot(epoch, alice, 0, "nothing"))
	e.one(bySeq, snapshot(epoch, alice, 1, "too early"))
	e.one(durable, add(alice, records(1, "a", "b", "c", "d")...))
	e.one(bySeq, snapshot(epoch, alice, 5, "too early"))
	e.one(durable, snapshot(epoch, alice, 2, "at 2"))
	l := e.load(alice, "a")
	e.equal("snapshot", l.Snapshot, journal.Snapshot{Seq: 2, Encoding: sharding.Protobuf, Form: form, Payload: []byte("at 2")})
	e.equal("records after it", l.Records, withoutReplies(records(3, "c", "d")...))
	all, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: alice, WithoutSnapshot: true, Lookup: []sharding.CommandID{"a"}})
	if err != nil {
		e.Fatal(err)
	}
	e.equal("no snapshot", all.Snapshot, journal.Snapshot{})
	e.equal("all records", all.Records, withoutReplies(records(1, "a", "b", "c", "d")...))
	e.equal("found with them", len(all.Stored), 1)
	e.equal("last sequence number", l.LastSeq, uint64(4))
	e.one(bySeq, snapshot(epoch, alice, 1, "older"))
	e.one(durable, snapshot(epoch, alice, 2, "at 2")) // a repeat, as after a lost reply
	e.one(durable, snapshot(epoch, alice, 4, ""))
	l = e.load(alice)
	e.equal("an empty snapshot", l.Snapshot, journal.Snapshot{Seq: 4, Encoding: sharding.Protobuf, Form: form})
	e.equal("records after the last one", len(l.Records), 0)
	e.equal("last sequence number", l.LastSeq, uint64(4))
	// In one batch with a record that the snapshot contains.
	e.want(verdicts{durable, durable}, add(alice, record(5, "e")), snapshot(epoch, alice, 5, "at 5"))
	e.equal("snapshot", e.load(alice).Snapshot.Seq, uint64(5))
	e.one(bySeq, add(alice, record(5, "f")))
	e.one(byID, add(alice, record(6, "a")))
	e.one(durable, add(alice, record(6, "f")))
}

func testSnapshotsFenced(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "a")))
	for _, other := range []sharding.Epoch{0, epoch - 1, epoch + 1} {
		r := e.one(byEpoch, snapshot(other, alice, 1, "s"))
		e.equal("fence of the refusal", r.Fence, sharding.Fence{Epoch: epoch, Owner: 1})
	}
	e.one(durable, claim(shard, epoch+1, 2))
	e.one(byEpoch, snapshot(epoch, alice, 1, "s"))
	e.equal("snapshot", e.load(alice).Snapshot, journal.Snapshot{})
	e.one(durable, snapshot(epoch+1, alice, 1, "s"))
}

// testDropSnapshots: dropping a snapshot needs no claim. The records stay, and the owner of
// the shard can go on.
func testDropSnapshots(e *env) {
	e.one(bySeq, drop(alice, 9)) // the shard was never claimed, and nothing is stored
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, records(1, "a", "b", "c")...))
	e.one(bySeq, drop(alice, 3)) // there is no snapshot
	e.one(durable, snapshot(epoch, alice, 2, "s"))
	e.one(bySeq, drop(alice, 1)) // the snapshot is of record 2, and the caller has read only record 1
	e.equal("snapshot", e.load(alice).Snapshot.Seq, uint64(2))
	e.one(durable, drop(alice, 3))
	for range 2 {
		l := e.load(alice, "a")
		e.equal("no snapshot", l.Snapshot, journal.Snapshot{})
		e.equal("all records", l.Records, withoutReplies(records(1, "a", "b", "c")...))
		e.equal("commands", len(l.Stored), 1)
		e.one(bySeq, drop(alice, 3)) // a repeat, as after a lost reply
	}
	e.one(byID, add(alice, record(4, "a")))
	e.one(durable, snapshot(epoch, alice, 1, "older than the dropped one"))
	e.equal("snapshot", e.load(alice).Snapshot.Seq, uint64(1))
	// In one batch with the write of the snapshot, and with the write of the next one.
	e.want(verdicts{durable, durable, durable}, add(alice, record(4, "d")), snapshot(epoch, alice, 4, "s"), drop(alice, 4))
	e.equal("no snapshot", e.load(alice).Snapshot, journal.Snapshot{})
	e.want(verdicts{durable, durable, durable, bySeq}, snapshot(epoch, alice, 2, "s"), drop(alice, 4), snapshot(epoch, alice, 3, "next"), drop(alice, 2))
	e.equal("the next one", string(e.load(alice).Snapshot.Payload), "next")
	e.want(verdicts{durable, bySeq}, drop(alice, 4), drop(bob, 4))
	e.equal("no snapshot", e.load(alice).Snapshot, journal.Snapshot{})
	e.one(durable, add(alice, record(5, "e")))
}
