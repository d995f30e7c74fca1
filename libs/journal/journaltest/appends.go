package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

func is(err, target error) bool { return errors.Is(err, target) }

func testAppendByEpoch(e *env) {
	e.one(byEpoch, add(alice, record(1, "a"))) // not claimed yet
	e.one(byEpoch, appendAt(0, alice, record(1, "a")))
	e.one(durable, claim(shard, epoch, 1))
	for _, other := range []sharding.Epoch{0, epoch - 1, epoch + 1} {
		r := e.one(byEpoch, appendAt(other, alice, record(1, "a")))
		e.equal("fence of the refusal", r.Fence, sharding.Fence{Epoch: epoch, Owner: 1})
	}
	e.equal("journal after refusals", e.load(alice, "a"), journal.Loaded{})
	e.one(durable, add(alice, record(1, "a")))
}

func testAppendBySequence(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(bySeq, add(alice, record(0, "a")))
	e.one(bySeq, add(alice, record(2, "a")))
	e.one(durable, add(alice, record(1, "a")))
	e.one(bySeq, add(alice, record(1, "b")))
	e.one(bySeq, add(alice, record(3, "b")))
	e.one(bySeq, add(alice, record(1, "a"))) // a repeat: the sequence says so first
	e.one(bySeq, add(alice, record(2, "b"), record(4, "c")))
	e.one(bySeq, add(alice, record(2, "b"), record(2, "c")))
	e.one(durable, add(alice, record(2, "b"), record(3, "c")))
	e.one(bySeq, add(alice, record(3, "d")))
	e.one(durable, add(alice, blank(4)))
	e.one(bySeq, add(alice, blank(4)))
	e.equal("last sequence number", e.load(alice).LastSeq, uint64(4))
}

func testAppendByCommand(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "a"), record(2, "b")))
	e.one(byID, add(alice, record(3, "a")))
	e.one(byID, add(alice, record(3, "b")))
	e.one(byID, add(alice, record(3, "c"), record(4, "a")))
	e.one(byID, add(alice, record(3, "c"), record(4, "d"), record(5, "c"))) // twice in one unit
	e.one(durable, add(alice, record(3, "c")))
	e.one(durable, add(bob, record(1, "a")))              // ids are the entity's own
	e.one(durable, add(alice, blank(4), blank(5)))        // two empty ids are not a repeat
	e.one(durable, add(alice, blank(6), record(7, "A")))  // case matters
	e.one(durable, add(alice, record(8, "a "), blank(9))) // and so do spaces
	// A new owner finds them as well.
	e.one(durable, claim(shard, epoch+1, 2))
	e.one(byID, appendAt(epoch+1, alice, record(10, "a")))
}

func testUnitIsAtomic(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "a")))
	before := e.load(alice, "a", "b", "c")
	e.one(byID, add(alice, record(2, "b"), record(3, "c"), record(4, "a")))
	e.one(bySeq, add(alice, record(2, "b"), record(3, "c"), record(5, "d")))
	e.one(byEpoch, appendAt(epoch+1, alice, record(2, "b"), record(3, "c")))
	e.equal("after refused units", e.load(alice, "a", "b", "c"), before)
	e.one(durable, add(alice, record(2, "b"), record(3, "c")))
	e.equal("after the unit", e.load(alice).LastSeq, uint64(3))
}

func testNeighbours(e *env) {
	other := sharding.ShardID{Type: "Account", Index: 4}
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "a")))
	e.want(verdicts{bySeq, durable, byEpoch, durable, byID, durable, byEpoch, bySeq, durable},
		add(alice, record(3, "x")),
		add(bob, record(1, "a")),
		appendAt(epoch-1, carol, record(1, "a")),
		add(carol, record(1, "a")),
		add(alice, record(2, "a")),
		snapshot(epoch, bob, 1, "of bob"),
		fence(other, epoch),
		snapshot(epoch, carol, 2, "too new"),
		claim(other, 1, 1))
	e.equal("alice", e.load(alice).LastSeq, uint64(1))
	e.equal("bob", e.load(bob).Snapshot.Seq, uint64(1))
	e.equal("carol", e.load(carol).LastSeq, uint64(1))
	// One entity comes once in a batch.
	e.want(verdicts{durable, bySeq, durable}, add(alice, record(2, "b")), add(alice, record(3, "c")), add(bob, record(2, "b")))
	e.equal("alice", e.load(alice, "b", "c").Stored, map[sharding.CommandID]sharding.Stored{
		"b": {Hash: record(2, "b").Hash, Reply: record(2, "b").Reply}})
	e.equal("an empty batch", len(e.commit()), 0)
}

func testMalformed(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(bySeq, add(alice))
	e.one(bySeq, journal.Op{})
	e.want(verdicts{bySeq, durable, bySeq}, journal.Op{}, add(alice, record(1, "a")), add(bob))
	e.equal("alice", e.load(alice).LastSeq, uint64(1))
}

func testReplay(e *env) {
	e.equal("an unknown entity", e.load(alice, "a"), journal.Loaded{})
	e.one(durable, claim(shard, epoch, 1))
	var all []sharding.Record
	for seq := uint64(1); seq <= 40; {
		var unit []sharding.Record
		for n := range seq%4 + 1 {
			r := record(seq+n, sharding.CommandID(fmt.Sprint("c", seq+n)))
			switch (seq + n) % 5 {
			case 0:
				r = blank(seq + n)
			case 1:
				r.Events = nil // a keyed command that changed nothing
				r.Reply = sharding.Reply{Outcome: sharding.Executed, Code: sharding.FailedPrecondition, Message: "no – not now", Payload: []byte{0, 1, 2, 255}}
			case 2:
				r.Events = append(r.Events, sharding.Event{Name: "Also", Version: 65535, ReadableBy: 300, Encoding: sharding.Protobuf, Payload: []byte{0, 255}}, sharding.Event{Name: "Bare"})
				r.Reply.Encoding = sharding.Protobuf
			case 3:
				r.Command, r.Hash, r.Reply = "", sharding.Hash{}, sharding.Reply{} // a timer's turn
			}
			unit = append(unit, r)
		}
		e.one(durable, add(alice, unit...))
		e.one(durable, add(bob, blank(e.load(bob).LastSeq+1)))
		all = append(all, unit...)
		seq += uint64(len(unit))
	}
	l := e.load(alice)
	e.equal("records", l.Records, withoutReplies(all...))
	e.equal("last sequence number", l.LastSeq, uint64(len(all)))
	// The time a command took is not stored.
	timed := record(l.LastSeq+1, "timed")
	timed.Reply.Timing.Handler = 5
	e.one(durable, add(alice, timed))
	timed.Reply.Timing = sharding.Timing{}
	e.equal("reply", e.load(alice, "timed").Stored["timed"].Reply, timed.Reply)
}

func testNames(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	cart := sharding.ShardID{Type: "Cart"}
	e.one(durable, claim(cart, epoch, 1))
	entities := []sharding.Entity{
		{Type: "Account", ID: "x"}, {Type: "Account", ID: "X"}, {Type: "Account", ID: "x "}, {Type: "Account", ID: "Ünïcode/✓?&'\"%"},
		{Type: "Cart", ID: "x"},
	}
	for i, id := range entities {
		op := add(id, record(1, sharding.CommandID(fmt.Sprint("c", i))))
		if id.Type == "Cart" {
			op.Append.Shard = cart
		}
		e.one(durable, op)
	}
	for i, id := range entities {
		want := record(1, sharding.CommandID(fmt.Sprint("c", i)))
		e.equal(id.String(), e.load(id).Records, withoutReplies(want))
	}
}

func testBigValues(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	big := record(1, "big")
	big.Events[0].Payload = bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	big.Reply.Payload = bytes.Repeat([]byte{0}, 1<<20)
	e.one(durable, add(alice, big))
	if l := e.load(alice, "big"); !bytes.Equal(l.Records[0].Events[0].Payload, big.Events[0].Payload) || !bytes.Equal(l.Stored["big"].Reply.Payload, big.Reply.Payload) {
		e.Fatal("a big record came back changed")
	}
	state := string(bytes.Repeat([]byte("state"), 1<<20))
	e.one(durable, snapshot(epoch, alice, 1, state))
	if string(e.load(alice).Snapshot.Payload) != state {
		e.Fatal("a big snapshot came back changed")
	}
	var unit []sharding.Record
	for seq := range uint64(3000) {
		unit = append(unit, record(seq+1, sharding.CommandID(fmt.Sprint("c", seq))))
	}
	e.one(durable, add(bob, unit...))
	e.equal("records of a large unit", e.load(bob).Records, withoutReplies(unit...))
	e.one(byID, add(bob, record(3001, "c2999")))
}

// testWakesAndSends: a backend keeps the wake-ups and sends of a record.
func testWakesAndSends(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	r := record(1, "a")
	in := sharding.Input{Command: "remind", Version: 2, ReadableBy: 1, Shape: 1 << 63, Encoding: sharding.Protobuf, Payload: []byte{0, 255}}
	r.Wakes = []sharding.Wake{{Kind: sharding.ReminderWake, Name: "weekly", Number: 1 << 63, Due: e.now.UnixMilli(), Period: 604_800_000, Input: in}, {Kind: sharding.RememberWake}}
	r.Sends = []sharding.Send{{To: bob, Input: in, ReplyTo: "told", Options: sharding.SendOptions{Timeout: time.Second, RetryMin: time.Minute, RetryMax: time.Hour, MaxAge: 24 * time.Hour}}, {To: alice}}
	e.one(durable, add(alice, r, record(2, "b")))
	e.equal("records", e.load(alice).Records, withoutReplies(r, record(2, "b")))
}

// testReplies: a replay does not read the stored replies, which only repeats need, so an entity
// with many large replies costs nothing extra to load.
func testReplies(e *env) {
	const commands, size = 48, 1 << 20
	e.one(durable, claim(shard, epoch, 1))
	reply := func(seq uint64) sharding.Reply {
		return sharding.Reply{Outcome: sharding.Executed, Payload: bytes.Repeat([]byte{byte(seq)}, size)}
	}
	name := func(seq uint64) sharding.CommandID { return sharding.CommandID(fmt.Sprint("c", seq)) }
	hash := func(seq uint64) sharding.Hash { return sharding.CommandHash("", string(name(seq)), nil) }
	for seq := uint64(1); seq <= commands; seq++ {
		e.one(durable, add(alice, sharding.Record{Seq: seq, Command: name(seq), Hash: hash(seq), Reply: reply(seq)}))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := e.load(alice)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > commands*size/8 {
		e.Errorf("a load takes %d bytes, the replies have %d: it reads them", took, commands*size)
	}
	if len(l.Records) != commands || l.LastSeq != commands {
		e.Fatalf("%d records, the last one is %d", len(l.Records), l.LastSeq)
	}
	for i, r := range l.Records {
		if r.Command != name(uint64(i)+1) || r.Hash != hash(uint64(i)+1) || r.Reply.Outcome != 0 || len(r.Reply.Payload) > 0 {
			e.Fatalf("record %d is %s of hash %x with a reply of %d bytes", i+1, r.Command, r.Hash, len(r.Reply.Payload))
		}
	}
	got := e.load(alice, name(7), name(commands)).Stored
	for _, seq := range []uint64{7, commands} {
		if s := got[name(seq)]; s.Hash != hash(seq) || !bytes.Equal(s.Reply.Payload, reply(seq).Payload) {
			e.Fatalf("the reply of %s is not what was stored", name(seq))
		}
	}
}

func testCancelled(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := e.b.Commit(ctx, []journal.Op{add(alice, record(1, "a"))})
	e.wantErr(err, journal.ErrNotCommitted)
	if _, err := e.b.Load(ctx, journal.LoadRequest{Entity: alice}); err == nil {
		e.Fatal("a load with a cancelled context succeeds")
	}
	e.equal("alice", e.load(alice), journal.Loaded{})
	e.one(durable, add(alice, record(1, "a"))) // and all continues
}

func testFull(e *env) {
	if e.store.Fill == nil {
		e.Skip("this store is never full")
	}
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "a")))
	if err := e.store.Fill(true); err != nil {
		e.Fatal(err)
	}
	big := record(2, "b")
	big.Events[0].Payload = make([]byte, 1<<20)
	for range 3 {
		_, err := e.b.Commit(e.Context(), []journal.Op{add(alice, big)})
		e.wantErr(err, journal.ErrFull)
	}
	e.one(durable, fence(shard, epoch))
	e.equal("alice", e.load(alice).LastSeq, uint64(1))
	if err := e.store.Fill(false); err != nil {
		e.Fatal(err)
	}
	e.one(durable, add(alice, big))
	e.equal("alice", e.load(alice).LastSeq, uint64(2))
}
