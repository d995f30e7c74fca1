package journaltest

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

func testLookup(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	failed := record(2, "failed")
	failed.Events = nil
	failed.Reply = sharding.Reply{Outcome: sharding.OK, Code: sharding.NotFound, Message: "no such thing"}
	e.one(durable, add(alice, record(1, "ok"), failed, blank(3)))
	e.one(durable, add(bob, record(1, "bob's")))
	want := map[sharding.CommandID]sharding.Stored{
		"ok":     {Hash: record(1, "ok").Hash, Reply: record(1, "ok").Reply},
		"failed": {Hash: failed.Hash, Reply: failed.Reply},
	}
	e.equal("stored commands", e.load(alice, "bob's", "ok", "none", "failed", key7(e.now, 1)).Stored, want)
	e.equal("stored commands of an unknown entity", len(e.load(carol, "ok").Stored), 0)
	e.equal("no lookup", len(e.load(alice).Stored), 0)
	// A snapshot hides records from the replay, not from the lookup.
	e.one(durable, snapshot(epoch, alice, 3, "s"))
	e.equal("stored commands after a snapshot", e.load(alice, "ok", "failed").Stored, want)
	// A lookup alone brings nothing else.
	only, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: alice, Lookup: []sharding.CommandID{"ok", "none", "failed"}, LookupOnly: true})
	if err != nil {
		e.Fatal(err)
	}
	e.equal("lookup only", only, journal.Loaded{LastSeq: 3, Stored: want})
}

// trim gives the store occasions to drop what it may drop, with blank records,
// and says whether the command is gone.
func (e *env) trim(id sharding.CommandID) (gone bool) {
	e.Helper()
	for range 50 {
		last := e.load(alice).LastSeq
		e.one(durable, add(alice, blank(last+1)))
		e.one(durable, snapshot(epoch, alice, last+1, "s"))
		s, ok := e.load(alice, id).Stored[id]
		if !ok || s.Expired {
			return true
		}
	}
	return false
}

func testDedupeKeeps(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	// Many more than the count, all young.
	for seq := uint64(1); seq <= 20; seq++ {
		e.one(durable, add(alice, record(seq, sharding.CommandID(fmt.Sprint("c", seq)))))
	}
	e.pass(e.cfg.DedupeAge - time.Second)
	if e.trim("c1") {
		e.Fatal("an entry that is not older than the age was dropped")
	}
	// Old, and only those that are not among the newest may go.
	e.pass(time.Minute)
	if !e.trim("c1") {
		e.Fatal("an old entry is kept for ever")
	}
	for seq := uint64(16); seq <= 20; seq++ {
		id := sharding.CommandID(fmt.Sprint("c", seq))
		if e.trim(id) {
			e.Fatalf("%s was dropped, it is among the newest %d", id, e.cfg.DedupeCount)
		}
		e.one(byID, add(alice, record(e.load(alice).LastSeq+1, id)))
	}
	// A command without a time that was forgotten may come again, and is known from
	// then on by its new record.
	again := record(e.load(alice).LastSeq+1, "c1")
	again.Reply.Payload = []byte(`"again"`)
	e.one(durable, add(alice, again))
	e.equal("the forgotten command", e.load(alice, "c1").Stored["c1"], sharding.Stored{Hash: again.Hash, Reply: again.Reply})
	e.one(byID, add(alice, record(again.Seq+1, "c1")))
	e.equal("its first record", e.load(alice).LastSeq, again.Seq)
}

func testDedupeExpires(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	keys := make([]sharding.CommandID, 12)
	for i := range keys {
		e.pass(time.Second)
		keys[i] = key7(e.now, byte(i))
		e.one(durable, add(alice, record(uint64(i)+1, keys[i])))
	}
	unused := key7(e.now.Add(-10*time.Second), 99) // made early, never sent
	e.pass(2 * e.cfg.DedupeAge)
	for _, k := range keys[:7] {
		if !e.trim(k) {
			e.Fatalf("key %s is kept for ever", k)
		}
	}
	for i, k := range append(keys[:7:7], unused) {
		s, ok := e.load(alice, k).Stored[k]
		if !ok || !s.Expired || s.Reply.Outcome != 0 {
			e.Fatalf("dropped key %d is %+v (%v), want expired", i, s, ok)
		}
		e.one(byID, add(alice, record(e.load(alice).LastSeq+1, k)))
	}
	for i, k := range keys[7:] {
		s := e.load(alice, k).Stored[k]
		e.equal("kept key", s, sharding.Stored{Hash: record(0, k).Hash, Reply: record(uint64(i)+8, k).Reply})
	}
	// A key that is made now passes, and so do keys without a time. Another
	// entity has forgotten nothing.
	last := e.load(alice).LastSeq
	e.one(durable, add(alice, record(last+1, key7(e.now, 50)), record(last+2, "plain")))
	e.one(durable, add(bob, record(1, unused)))
}

func testFutureKeys(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	ahead := key7(e.now.Add(e.cfg.DedupeAge/2), 1)       // a clock that is ahead
	nonsense := key7(e.now.Add(1000*e.cfg.DedupeAge), 2) // no clock at all
	e.one(durable, add(alice, record(1, nonsense), record(2, ahead)))
	for seq := uint64(3); seq <= 10; seq++ {
		e.one(durable, add(alice, record(seq, sharding.CommandID(fmt.Sprint("c", seq)))))
	}
	e.pass(e.cfg.DedupeAge + time.Minute)
	if e.trim(ahead) {
		e.Fatal("a key was dropped before its own time is old")
	}
	e.pass(e.cfg.DedupeAge)
	if !e.trim(ahead) {
		e.Fatal("a key of a clock that was ahead is kept for ever")
	}
	last := e.load(alice).LastSeq
	e.one(byID, add(alice, record(last+1, ahead)))
	// The nonsense must not make today's keys look expired, and is not forgotten
	// either.
	e.one(durable, add(alice, record(last+1, key7(e.now, 3))))
	e.one(byID, add(alice, record(last+2, nonsense)))
	e.equal("nonsense", e.load(alice, nonsense).Stored[nonsense].Reply, record(1, nonsense).Reply)
}

// fill gives alice many young commands, so that old ones are not among the newest.
func (e *env) fill(name string) {
	e.Helper()
	last := e.load(alice).LastSeq
	for n := range uint64(10) {
		e.one(durable, add(alice, record(last+1+n, sharding.CommandID(fmt.Sprint(name, n)))))
	}
}

// testClockSteps sets the wall clock forward and back; no id is forgotten because of that.
func testClockSteps(e *env) {
	day := 24 * e.cfg.DedupeAge
	e.one(durable, claim(shard, epoch, 1))
	timed := key7(e.now, 1)
	e.one(durable, add(alice, record(1, "plain"), record(2, timed)))
	e.now = e.now.Add(day) // forward, for some appends
	e.fill("a")
	if e.trim("plain") || e.trim(timed) {
		e.Fatal("a step of the clock makes ids old")
	}
	e.now = e.now.Add(-2 * day) // back, beyond where it was
	// The clock that stores is a day behind the true time, which is in the key.
	trueTime := key7(e.now.Add(day), 2)
	e.one(durable, add(alice, record(e.load(alice).LastSeq+1, trueTime)))
	e.fill("b")
	for _, id := range []sharding.CommandID{"plain", timed, trueTime} {
		e.one(byID, add(alice, record(e.load(alice).LastSeq+1, id)))
	}
	e.now = e.now.Add(day)
	e.pass(2 * e.cfg.DedupeAge)
	e.fill("c")
	if !e.trim("plain") || !e.trim(timed) {
		e.Fatal("ids are kept for ever")
	}
	// The clock that stored this key was behind the key's time by more than DedupeAge. Such a
	// key is never dropped (Config.Ahead).
	if e.trim(trueTime) {
		e.Fatal("a key that was ahead by more than DedupeAge was dropped")
	}
	// The clock is set back after a key was dropped: that key is refused, a new one is not.
	e.now = e.now.Add(-day)
	e.one(byID, add(alice, record(e.load(alice).LastSeq+1, timed)))
	if s := e.load(alice, timed).Stored[timed]; !s.Expired {
		e.Fatalf("the dropped key is %+v", s)
	}
	e.one(durable, add(alice, record(e.load(alice).LastSeq+1, key7(e.now.Add(day), 3))))
}

// testSeenTime: the time between records of two processes does not make ids older,
// because one of the processes may have been paused, and their clocks may differ.
func testSeenTime(e *env) {
	other := e.open()
	e.one(durable, claim(shard, epoch, 1))
	first := e.b
	e.one(durable, add(alice, record(1, "first")))
	e.fill("a")
	e.pass(2 * e.cfg.DedupeAge)
	e.b = other
	if e.fill("b"); e.trim("first") {
		e.Fatal("the time between two processes counts")
	}
	e.b = first
	e.pass(2 * e.cfg.DedupeAge)
	if e.fill("c"); e.trim("first") {
		e.Fatal("the time since its own last record counts, though another process wrote meanwhile")
	}
	e.pass(2 * e.cfg.DedupeAge)
	if e.fill("d"); !e.trim("first") {
		e.Fatal("an old id is kept for ever")
	}
}

// testTimeCountsOnce: when ages are computed, a driver may count a snapshot like a record.
// Either way, the time between two records of one process counts once if the snapshot between
// them is its own, and at most once if another process took it.
func testTimeCountsOnce(e *env) {
	first, other := e.b, e.open()
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "first")))
	e.fill("a")
	part := e.cfg.DedupeAge * 3 / 10
	for i, b := range []journal.Driver{first, other, first} { // the driver that takes the snapshot
		e.pass(part / 2)
		e.b = b
		e.one(durable, snapshot(epoch, alice, e.load(alice).LastSeq, "s"))
		e.pass(part / 2)
		e.b = first
		if e.fill(fmt.Sprint("b", i)); e.trim("first") {
			e.Fatalf("after %v an id is dropped that is to be kept for %v", time.Duration(i+1)*part, e.cfg.DedupeAge)
		}
	}
	for i := range 2 { // what the other one's snapshot may have cost, and more
		e.pass(part / 2)
		e.one(durable, snapshot(epoch, alice, e.load(alice).LastSeq, "s"))
		e.pass(part / 2)
		e.fill(fmt.Sprint("c", i))
	}
	if !e.trim("first") {
		e.Fatal("an old id is kept for ever")
	}
}

func testSnapshots(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(bySeq, snapshot(epoch, alice, 0, "nothing"))
	e.one(bySeq, snapshot(epoch, alice, 1, "too early"))
	e.one(durable, add(alice, records(1, "a", "b", "c", "d")...))
	e.one(bySeq, snapshot(epoch, alice, 5, "too early"))
	e.one(durable, snapshot(epoch, alice, 2, "at 2"))
	l := e.load(alice, "a")
	e.equal("snapshot", l.Snapshot, journal.Snapshot{Seq: 2, Encoding: sharding.Protobuf, Form: form, Payload: []byte("at 2")})
	e.equal("records after it", l.Records, bare(records(3, "c", "d")...))
	all, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: alice, WithoutSnapshot: true, Lookup: []sharding.CommandID{"a"}})
	if err != nil {
		e.Fatal(err)
	}
	e.equal("no snapshot", all.Snapshot, journal.Snapshot{})
	e.equal("all records", all.Records, bare(records(1, "a", "b", "c", "d")...))
	e.equal("found beside them", len(all.Stored), 1)
	e.equal("last sequence number", l.LastSeq, uint64(4))
	e.one(bySeq, snapshot(epoch, alice, 1, "older"))
	e.one(durable, snapshot(epoch, alice, 2, "at 2")) // its reply was lost
	e.one(durable, snapshot(epoch, alice, 4, ""))
	l = e.load(alice)
	e.equal("an empty snapshot", l.Snapshot, journal.Snapshot{Seq: 4, Encoding: sharding.Protobuf, Form: form})
	e.equal("records after the last one", len(l.Records), 0)
	e.equal("last sequence number", l.LastSeq, uint64(4))
	// In one batch with what it contains.
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

// testDropSnapshots: the records stay, whoever owns the shard, and the owner goes on.
func testDropSnapshots(e *env) {
	e.one(bySeq, drop(alice, 9)) // never claimed, not stored
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, records(1, "a", "b", "c")...))
	e.one(bySeq, drop(alice, 3)) // there is none
	e.one(durable, snapshot(epoch, alice, 2, "s"))
	e.one(bySeq, drop(alice, 1)) // the snapshot is of record 2, and the caller has read only record 1
	e.equal("snapshot", e.load(alice).Snapshot.Seq, uint64(2))
	e.one(durable, drop(alice, 3))
	for range 2 {
		l := e.load(alice, "a")
		e.equal("no snapshot", l.Snapshot, journal.Snapshot{})
		e.equal("all records", l.Records, bare(records(1, "a", "b", "c")...))
		e.equal("commands", len(l.Stored), 1)
		e.one(bySeq, drop(alice, 3)) // its reply was lost
	}
	e.one(byID, add(alice, record(4, "a")))
	e.one(durable, snapshot(epoch, alice, 1, "older than the dropped one"))
	e.equal("snapshot", e.load(alice).Snapshot.Seq, uint64(1))
	// In one batch with what makes it, and with what makes the next one.
	e.want(verdicts{durable, durable, durable}, add(alice, record(4, "d")), snapshot(epoch, alice, 4, "s"), drop(alice, 4))
	e.equal("no snapshot", e.load(alice).Snapshot, journal.Snapshot{})
	e.want(verdicts{durable, durable, durable, bySeq}, snapshot(epoch, alice, 2, "s"), drop(alice, 4), snapshot(epoch, alice, 3, "next"), drop(alice, 2))
	e.equal("the next one", string(e.load(alice).Snapshot.Payload), "next")
	e.want(verdicts{durable, bySeq}, drop(alice, 4), drop(bob, 4))
	e.equal("no snapshot", e.load(alice).Snapshot, journal.Snapshot{})
	e.one(durable, add(alice, record(5, "e")))
}

func testReopen(e *env) {
	d := journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Account", Shards: 8}}}
	if _, err := e.b.Declare(e.Context(), d); err != nil {
		e.Fatal(err)
	}
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, records(1, "a", "b", "c")...))
	e.one(durable, snapshot(epoch, alice, 2, "s"))
	before := e.load(alice, "a", "b", "c", "d")
	for range 3 {
		if err := e.b.Close(); err != nil {
			e.Fatal(err)
		}
		e.b = e.open()
		e.equal("after reopening", e.load(alice, "a", "b", "c", "d"), before)
		f, err := e.b.Declare(e.Context(), d)
		if err != nil {
			e.Fatal(err)
		}
		want := journal.NewFacts(f.Generation)
		want.Cluster, want.Types = "blue", []journal.TypeFact{{Type: "Account", Shards: 8}}
		e.equal("facts", f, want)
		if f, err = e.b.Declare(e.Context(), journal.Declaration{}); err != nil || f.MaxEpoch != epoch {
			e.Fatalf("highest epoch is %v, want %v; %v", f.MaxEpoch, epoch, err)
		}
		e.one(byEpoch, claim(shard, epoch, 2))
		e.one(byID, add(alice, record(4, "a")))
		e.one(bySeq, add(alice, record(3, "d")))
	}
	e.one(durable, add(alice, record(4, "d")))
}

func testDamage(e *env) {
	if e.store.Damage == nil {
		e.Skip("this store cannot be damaged")
	}
	e.one(durable, claim(shard, epoch, 1))
	for _, id := range []sharding.Entity{alice, bob, carol} {
		e.one(durable, add(id, records(1, "a", "b", "c")...))
	}
	e.one(durable, snapshot(epoch, carol, 2, "s"))
	for _, id := range []sharding.Entity{alice, carol} {
		if err := e.store.Damage(id, 2); err != nil {
			e.Fatal(err)
		}
	}
	for range 2 {
		_, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: alice})
		e.wantErr(err, journal.ErrCorrupt, alice.String(), "record 2")
	}
	// The others go on, and so does one whose snapshot makes the damaged record
	// superfluous.
	e.one(durable, add(bob, record(4, "d")))
	e.equal("bob", e.load(bob).Records, bare(records(1, "a", "b", "c", "d")...))
	e.equal("carol", e.load(carol).Records, bare(records(3, "c")...))
}

// testDamagedNumbers: rows that cannot be, though each is well-formed, are damage of their
// entity. None takes memory by what it says, and none is taken for a lost connection.
func testDamagedNumbers(e *env) {
	if e.store.Renumber == nil {
		e.Skip("the numbers of this store cannot be damaged")
	}
	const far = 1 << 62
	e.one(durable, claim(shard, epoch, 1))
	for _, c := range []struct {
		name   string
		change func(sharding.Entity) error
		replay bool // all records can be read without the snapshot
	}{
		{"far-behind", func(id sharding.Entity) error { return e.store.Renumber(id, 3, far) }, false},
		{"a-gap", func(id sharding.Entity) error { return e.store.Renumber(id, 3, 100_000_000) }, false},
		{"before-the-first", func(id sharding.Entity) error { return e.store.Renumber(id, 1, -far) }, false},
		{"zero", func(id sharding.Entity) error { return e.store.Renumber(id, 1, 0) }, false},
		{"no-snapshot", func(id sharding.Entity) error { return e.store.SetSnapshot(id, 1) }, true},
		{"no-snapshot-at-the-end", func(id sharding.Entity) error { return e.store.SetSnapshot(id, 3) }, true},
		{"snapshot-before-the-first", func(id sharding.Entity) error { return e.store.SetSnapshot(id, -far) }, true},
		{"snapshot-behind-the-last", func(id sharding.Entity) error { return e.store.SetSnapshot(id, far) }, true},
	} {
		id := sharding.Entity{Type: alice.Type, ID: sharding.EntityID(c.name)}
		e.one(durable, add(id, records(1, "a", "b", "c")...))
		if err := c.change(id); err != nil {
			e.Fatal(err)
		}
		_, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: id})
		e.wantErr(err, journal.ErrCorrupt, id.String())
		all, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: id, WithoutSnapshot: true})
		if c.replay {
			e.equal(c.name, all.Records, bare(records(1, "a", "b", "c")...))
		} else {
			e.wantErr(err, journal.ErrCorrupt, id.String())
		}
	}
	e.one(durable, add(bob, records(1, "a")...))
	e.equal("bob", e.load(bob).Records, bare(records(1, "a")...))
}
