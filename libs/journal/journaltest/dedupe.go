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
	failed.Reply = sharding.Reply{Outcome: sharding.Executed, Code: sharding.NotFound, Message: "no such thing"}
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

// expires writes blank records and snapshots for alice, at which a store may drop entries of old
// commands. It reports whether the entry of this command was dropped.
func (e *env) expires(id sharding.CommandID) (dropped bool) {
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

// testDedupeKeeps: an entry is dropped only if it is older than DedupeAge and not among the
// newest DedupeCount of its entity.
func testDedupeKeeps(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	// Many more than DedupeCount, all young.
	for seq := uint64(1); seq <= 20; seq++ {
		e.one(durable, add(alice, record(seq, sharding.CommandID(fmt.Sprint("c", seq)))))
	}
	e.pass(e.cfg.DedupeAge - time.Second)
	if e.expires("c1") {
		e.Fatal("an entry that is not older than the age was dropped")
	}
	// All are old now. Those that are not among the newest may be dropped, and only those.
	e.pass(time.Minute)
	if !e.expires("c1") {
		e.Fatal("an old entry is kept forever")
	}
	for seq := uint64(16); seq <= 20; seq++ {
		id := sharding.CommandID(fmt.Sprint("c", seq))
		if e.expires(id) {
			e.Fatalf("%s was dropped, it is among the newest %d", id, e.cfg.DedupeCount)
		}
		e.one(byID, add(alice, record(e.load(alice).LastSeq+1, id)))
	}
	// An expired command whose id has no time in it may come again. From then on it is known
	// by its new record.
	again := record(e.load(alice).LastSeq+1, "c1")
	again.Reply.Payload = []byte(`"again"`)
	e.one(durable, add(alice, again))
	e.equal("the expired command", e.load(alice, "c1").Stored["c1"], sharding.Stored{Hash: again.Hash, Reply: again.Reply})
	e.one(byID, add(alice, record(again.Seq+1, "c1")))
	e.equal("its first record", e.load(alice).LastSeq, again.Seq)
}

// testDedupeExpires: a key with a time in it is refused as expired when its entry may have
// been dropped.
func testDedupeExpires(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	keys := make([]sharding.CommandID, 12)
	for i := range keys {
		e.pass(time.Second)
		keys[i] = key7(e.now, byte(i))
		e.one(durable, add(alice, record(uint64(i)+1, keys[i])))
	}
	unused := key7(e.now.Add(-10*time.Second), 99) // as old as the first keys, and never sent
	e.pass(2 * e.cfg.DedupeAge)
	for _, k := range keys[:7] {
		if !e.expires(k) {
			e.Fatalf("key %s is kept forever", k)
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
	// A key that is made now is accepted, and so is one without a time. bob, who has dropped
	// nothing, accepts the unused key.
	last := e.load(alice).LastSeq
	e.one(durable, add(alice, record(last+1, key7(e.now, 50)), record(last+2, "plain")))
	e.one(durable, add(bob, record(1, unused)))
}

// testFutureKeys: the time in a key may be later than the clock of the process that stores it.
// Up to DedupeAge later, its entry is dropped when that time is old. Beyond that, the entry is
// never dropped.
func testFutureKeys(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	ahead := key7(e.now.Add(e.cfg.DedupeAge/2), 1)       // from a clock that is ahead
	nonsense := key7(e.now.Add(1000*e.cfg.DedupeAge), 2) // from no clock
	e.one(durable, add(alice, record(1, nonsense), record(2, ahead)))
	for seq := uint64(3); seq <= 10; seq++ {
		e.one(durable, add(alice, record(seq, sharding.CommandID(fmt.Sprint("c", seq)))))
	}
	e.pass(e.cfg.DedupeAge + time.Minute)
	if e.expires(ahead) {
		e.Fatal("a key was dropped before its own time is old")
	}
	e.pass(e.cfg.DedupeAge)
	if !e.expires(ahead) {
		e.Fatal("a key of a clock that was ahead is kept forever")
	}
	last := e.load(alice).LastSeq
	e.one(byID, add(alice, record(last+1, ahead)))
	// The nonsense must not make today's keys look expired, and its own entry stays.
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

// testClockSteps sets the wall clock forward and back. No id may expire because of
// that.
func testClockSteps(e *env) {
	day := 24 * e.cfg.DedupeAge
	e.one(durable, claim(shard, epoch, 1))
	timed := key7(e.now, 1)
	e.one(durable, add(alice, record(1, "plain"), record(2, timed)))
	e.now = e.now.Add(day) // forward, for some appends
	e.fill("a")
	if e.expires("plain") || e.expires(timed) {
		e.Fatal("a step of the clock makes ids old")
	}
	e.now = e.now.Add(-2 * day) // back, beyond where it was
	// The process that stores this key has a clock that is a day behind. The key has the true
	// time.
	trueTime := key7(e.now.Add(day), 2)
	e.one(durable, add(alice, record(e.load(alice).LastSeq+1, trueTime)))
	e.fill("b")
	for _, id := range []sharding.CommandID{"plain", timed, trueTime} {
		e.one(byID, add(alice, record(e.load(alice).LastSeq+1, id)))
	}
	e.now = e.now.Add(day)
	e.pass(2 * e.cfg.DedupeAge)
	e.fill("c")
	if !e.expires("plain") || !e.expires(timed) {
		e.Fatal("ids are kept forever")
	}
	// The clock that stored this key was behind the key's time by more than DedupeAge. Such a
	// key is never dropped (Config.Ahead).
	if e.expires(trueTime) {
		e.Fatal("a key that was ahead by more than DedupeAge was dropped")
	}
	// The clock is set back after a key was dropped. That key is refused; a new one is not.
	e.now = e.now.Add(-day)
	e.one(byID, add(alice, record(e.load(alice).LastSeq+1, timed)))
	if s := e.load(alice, timed).Stored[timed]; !s.Expired {
		e.Fatalf("the dropped key is %+v", s)
	}
	e.one(durable, add(alice, record(e.load(alice).LastSeq+1, key7(e.now.Add(day), 3))))
}

// testSeenTime: only time that passes between two records of the same process makes ids
// older. The time between records of two processes does not count, because one of the
// processes may have been paused, and their clocks may differ.
func testSeenTime(e *env) {
	other := e.open()
	e.one(durable, claim(shard, epoch, 1))
	first := e.b
	e.one(durable, add(alice, record(1, "first")))
	e.fill("a")
	e.pass(2 * e.cfg.DedupeAge)
	e.b = other
	if e.fill("b"); e.expires("first") {
		e.Fatal("the time between two processes counts")
	}
	e.b = first
	e.pass(2 * e.cfg.DedupeAge)
	if e.fill("c"); e.expires("first") {
		e.Fatal("the time since a process's own last record counts, though another process wrote meanwhile")
	}
	e.pass(2 * e.cfg.DedupeAge)
	if e.fill("d"); !e.expires("first") {
		e.Fatal("an old id is kept forever")
	}
}

// testTimeCountsOnce: the age of an id grows by the time that passes between two records of
// one process. A backend may count a snapshot like a record. If the same process takes a
// snapshot between two records, the time between them counts exactly once. If another process
// takes it, the time counts at most once.
func testTimeCountsOnce(e *env) {
	first, other := e.b, e.open()
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "first")))
	e.fill("a")
	part := e.cfg.DedupeAge * 3 / 10
	for i, b := range []journal.Backend{first, other, first} { // the backend that takes the snapshot
		e.pass(part / 2)
		e.b = b
		e.one(durable, snapshot(epoch, alice, e.load(alice).LastSeq, "s"))
		e.pass(part / 2)
		e.b = first
		if e.fill(fmt.Sprint("b", i)); e.expires("first") {
			e.Fatalf("after %v an id is dropped that must be kept for %v", time.Duration(i+1)*part, e.cfg.DedupeAge)
		}
	}
	for i := range 2 { // the time that the other process's snapshot may have cost, and more
		e.pass(part / 2)
		e.one(durable, snapshot(epoch, alice, e.load(alice).LastSeq, "s"))
		e.pass(part / 2)
		e.fill(fmt.Sprint("c", i))
	}
	if !e.expires("first") {
		e.Fatal("an old id is kept forever")
	}
}
