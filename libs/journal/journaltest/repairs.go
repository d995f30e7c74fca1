package journaltest

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// nextOwner is the epoch at which a region claims the shard after a repair.
const nextOwner = epoch + 2

// repairing is a repair as an operator asks for it.
func repairing(of sharding.Entity, do journal.RepairKind, seq uint64) *journal.Repair {
	return &journal.Repair{Entity: of, Shard: shard, Do: do, Seq: seq, By: "ann", Reason: "ticket 4711", File: "aside.jsonl", SHA256: "abc"}
}

// repair plans a repair from what a reader sees, and performs it.
func (e *env) repair(r *journal.Repair) (journal.RepairPlan, error) {
	e.Helper()
	raw, err := e.openReader().(journal.RawReader).Raw(e.Context(), r.Entity)
	if err != nil {
		e.Fatal(err)
	}
	p, err := journal.PlanRepair(&raw, r, e.now)
	if err != nil {
		return p, err
	}
	r.Expect = p.Digest
	return e.b.(journal.Repairer).Repair(e.Context(), r)
}

func (e *env) repaired(r *journal.Repair) journal.RepairPlan {
	e.Helper()
	p, err := e.repair(r)
	if err != nil {
		e.Fatalf("%s: %v", r.Do, err)
	}
	e.examine(r.Entity, p.After...)
	return p
}

// examine compares what is found wrong with an entity, but for the texts.
func (e *env) examine(of sharding.Entity, want ...journal.Finding) {
	e.Helper()
	raw, err := e.b.(journal.Repairer).Raw(e.Context(), of)
	if err != nil {
		e.Fatal(err)
	}
	plain := func(found []journal.Finding) (out []string) {
		for _, f := range found {
			out = append(out, fmt.Sprint(f.Kind, " ", f.Seq, " ", f.To, " ", f.Name, " ", f.Blocks))
		}
		return out
	}
	e.equal("what is damaged", plain(raw.Examine()), plain(want))
}

// lines are the audit lines, the newest first.
func (e *env) lines() (lines []journal.RepairLine) {
	e.Helper()
	h, err := e.b.History(e.Context(), journal.HistoryRequest{Entity: journal.RepairsEntity, Limit: 100, Bytes: 1 << 20})
	if err != nil {
		e.Fatal(err)
	}
	for i := range h.Records {
		l, err := journal.DecodeRepairLine(&h.Records[i].Record)
		if err != nil {
			e.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

func (e *env) damage(of sharding.Entity, seqs ...uint64) {
	e.Helper()
	if e.store.Damage == nil {
		e.Skip("this store cannot be damaged")
	}
	for _, seq := range seqs {
		if err := e.store.Damage(of, seq); err != nil {
			e.Fatal(err)
		}
	}
}

// setAside are records after a repair that has set them aside: they keep their keys.
func setAside(rs ...sharding.Record) []sharding.Record {
	for i := range rs {
		rs[i].Events, rs[i].Wakes, rs[i].Sends, rs[i].Reply = nil, nil, nil, sharding.Reply{}
	}
	return rs
}

// testRepairSkip: a damaged record is set aside, and the others stay. The former owner of the shard loses
// it.
func testRepairSkip(e *env) {
	keys := []sharding.CommandID{key7(e.now, 1), key7(e.now, 2), key7(e.now, 3)}
	e.one(durable, claim(shard, epoch, 1))
	before := mailing(2, 1)
	before.Command, before.Wakes = keys[1], []sharding.Wake{setting("lost", 500, 0)}
	e.one(durable, add(alice, record(1, keys[0]), before, record(3, keys[2]), waking(4, setting("kept", 600, 0))))
	e.one(durable, add(bob, records(1, "b")...))
	e.damage(alice, 2)
	e.examine(alice, journal.Finding{Kind: journal.DamagedRecord, Seq: 2, Blocks: true},
		journal.Finding{Kind: journal.DamagedReminder, Seq: 2, Name: "lost"}, journal.Finding{Kind: journal.DamagedSends, Seq: 2})
	e.examine(bob)
	p := e.repaired(repairing(alice, journal.SkipRecord, 2))
	if len(p.After) > 0 || len(p.SetAside) != 1 || p.SetAside[0].Seq != 2 || len(p.SetAside[0].Body) == 0 {
		e.Fatalf("%+v", p)
	}
	l := e.load(alice, keys...)
	e.equal("records", l.Records, withoutReplies(record(1, keys[0]), blank(2), record(3, keys[2]), waking(4, setting("kept", 600, 0))))
	e.equal("replies", l.Stored, map[sharding.CommandID]sharding.Stored{
		keys[0]: {Hash: record(1, keys[0]).Hash, Reply: record(1, keys[0]).Reply}, keys[2]: {Hash: record(3, keys[2]).Hash, Reply: record(3, keys[2]).Reply},
		keys[1]: {Expired: true}, // its key could not be read
	})
	if w := e.wakes(e.b, 1000, 10, journal.ShardPosition{Shard: shard}); len(w) != 1 || w[0].Name != "kept" {
		e.Errorf("reminders: %+v", w)
	}
	if s := e.sends(e.b, 10, journal.SendPosition{Shard: shard}); len(s) > 0 || l.Pending > 0 {
		e.Errorf("sends: %+v", s)
	}
	// The owner of before is fenced, for all entities of the shard.
	for _, op := range []journal.Op{add(alice, record(5, "d")), add(bob, record(2, "d"))} {
		if r := e.one(byEpoch, op); r.Fence.Epoch != 0 && r.Fence.Owner != journal.RepairOwner {
			e.Errorf("the fence is %+v", r.Fence)
		}
	}
	e.one(byEpoch, fence(shard, epoch))
	e.one(byEpoch, claim(shard, epoch+1, 1))
	lines := e.lines()
	if len(lines) != 1 || lines[0].Entity != alice.String() || lines[0].Reason != "ticket 4711" || lines[0].By != "ann" || lines[0].File != "aside.jsonl" || lines[0].First != 2 || lines[0].Wakes != 1 || lines[0].Sends != 1 {
		e.Errorf("audit lines: %+v", lines)
	}
	e.one(durable, claim(shard, nextOwner, 2))
	e.one(byID, appendAt(nextOwner, alice, record(5, keys[1])))
	e.pass(time.Second)
	e.one(durable, appendAt(nextOwner, alice, record(5, key7(e.now, 1))))
	e.examine(alice)
}

// testRepairGoBack: a repair takes the state of an entity back to an earlier record.
func testRepairGoBack(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	sent := mailing(2, 2)
	sent.Wakes = []sharding.Wake{setting("early", 500, 0)}
	late := mailing(4, 1)
	late.Wakes = []sharding.Wake{setting("late", 600, 0), setting("early", 0, 0)}
	e.one(durable, add(alice, record(1, "a"), sent, record(3, "c")))
	e.one(durable, snapshot(epoch, alice, 3, "state 3"))
	e.one(durable, add(alice, late, record(5, "e")))
	e.damage(alice, 5)
	e.refusedRepair(repairing(alice, journal.GoBack, 5), "nothing is behind record 5")
	e.repaired(repairing(alice, journal.GoBack, 4))
	e.examine(alice)
	l := e.load(alice)
	e.equal("snapshot", l.Snapshot.Seq, uint64(3))
	e.equal("records", l.Records, append(withoutReplies(late), blank(5)))
	// Further back, behind the snapshot.
	p := e.repaired(repairing(alice, journal.GoBack, 2))
	if p.SnapshotSeq != 3 || len(p.Snapshot) == 0 || len(p.SetAside) != 3 || len(p.Wakes) != 1 || len(p.Sends) != 1 {
		e.Fatalf("%+v", p)
	}
	l = e.load(alice, "a", "mail2", "c", "mail4")
	e.equal("snapshot", l.Snapshot.Seq, uint64(0))
	e.equal("records", l.Records, append(withoutReplies(record(1, "a"), sent), append(setAside(record(3, "c"), late), blank(5))...))
	e.equal("reply", l.Stored["a"].Reply, record(1, "a").Reply)
	for _, key := range []sharding.CommandID{"c", "mail4"} {
		if s := l.Stored[key]; s.Reply.Outcome != sharding.NotApplied || s.Reply.Code != sharding.Aborted || s.Hash == (sharding.Hash{}) {
			e.Errorf("a repeat of %s gets %+v", key, s)
		}
	}
	// Nothing is undone that had ended: the reminder that record 4 has cancelled does not come back.
	if w := e.wakes(e.b, 1000, 10, journal.ShardPosition{Shard: shard}); len(w) > 0 {
		e.Errorf("reminders: %+v", w)
	}
	if s := e.sends(e.b, 10, journal.SendPosition{Shard: shard}); len(s) != 1 || s[0].Seq != 2 || len(s[0].Sends) != 2 || l.Pending != 2 {
		e.Errorf("sends: %+v", s)
	}
	e.equal("lines", len(e.lines()), 2)
	e.one(durable, claim(shard, nextOwner, 2)) // both repairs were at one epoch
	e.one(bySeq, appendAt(nextOwner, alice, record(3, "f")))
	e.one(byID, appendAt(nextOwner, alice, record(6, "c")))
	e.one(durable, appendAt(nextOwner, alice, record(6, "f")))
}

// refusedRepair checks that a repair is refused, with a text, and that nothing was changed.
func (e *env) refusedRepair(r *journal.Repair, names ...string) {
	e.Helper()
	before := e.lines()
	_, err := e.repair(r)
	e.wantErr(err, journal.ErrRepair, names...)
	e.one(durable, fence(shard, epoch))
	e.equal("audit lines", e.lines(), before)
}

func testRepairRefused(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, records(1, "a", "b", "c", "d")...))
	e.one(durable, add(bob, deletion(1, "gone"), record(2, "new"), record(3, "newer")))
	e.damage(alice, 2)
	r := func(do journal.RepairKind, seq uint64) *journal.Repair { return repairing(alice, do, seq) }
	e.refusedRepair(r(journal.SkipRecord, 3), "--intact")
	e.refusedRepair(r(journal.SkipRecord, 5), "the last one is 4")
	e.refusedRepair(r(journal.GoBack, 3), "record 2", "--back-to 1")
	e.refusedRepair(r(journal.RebuildState, 0), "no snapshot")
	e.refusedRepair(r(journal.LoseReply, 1), "is intact")
	e.refusedRepair(r(journal.DropReminder, 0), "no reminder")
	e.refusedRepair(r(journal.DropRows, 0))
	e.refusedRepair(repairing(bob, journal.GoBack, 0), "another life")
	e.refusedRepair(repairing(carol, journal.GoBack, 0), "nothing is stored")
	silent := r(journal.SkipRecord, 2)
	silent.Reason = " "
	e.refusedRepair(silent, "reason")
	elsewhere := r(journal.SkipRecord, 2)
	elsewhere.Shard.Index++
	e.refusedRepair(elsewhere, "--shard")
	e.refusedRepair(&journal.Repair{Entity: journal.HeartbeatEntity, Shard: sharding.ShardID{Type: journal.HeartbeatEntity.Type}, Reason: "x", Do: journal.GoBack})

	// What the operator has seen is not there any more.
	e.one(durable, add(bob, record(4, "meanwhile")))
	raw, err := e.b.(journal.Repairer).Raw(e.Context(), bob)
	if err != nil {
		e.Fatal(err)
	}
	plans := map[journal.RepairKind]*journal.Repair{}
	for _, do := range []journal.RepairKind{journal.GoBack, journal.DeleteEntity} {
		plans[do] = repairing(bob, do, 3)
		p, err := journal.PlanRepair(&raw, plans[do], e.now)
		if err != nil {
			e.Fatal(err)
		}
		plans[do].Expect = p.Digest
	}
	e.one(durable, add(bob, record(5, "acknowledged")))
	for _, old := range plans {
		_, err = e.b.(journal.Repairer).Repair(e.Context(), old)
		e.wantErr(err, journal.ErrRepair, "look again")
	}
	e.one(durable, fence(shard, epoch))
	e.equal("records", e.load(bob).LastSeq, uint64(5))
}

// testRepairSnapshot: a snapshot is dropped if the events before it are there, and not if they are not.
func testRepairSnapshot(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	for _, id := range []sharding.Entity{alice, bob, carol} {
		e.one(durable, add(id, records(1, "a", "b", "c")...))
	}
	e.one(durable, snapshot(epoch, alice, 2, "wrong"))
	e.one(durable, snapshot(epoch, bob, 2, "all that is left"))
	e.one(durable, cutting(carol, 3, 2))
	e.damage(bob, 1)
	e.examine(bob, journal.Finding{Kind: journal.DamagedRecord, Seq: 1}) // it can be loaded
	e.refusedRepair(repairing(bob, journal.RebuildState, 0), "record 1")
	e.refusedRepair(repairing(carol, journal.RebuildState, 0), "backup", "--delete")
	e.refusedRepair(repairing(carol, journal.GoBack, 1), "backup")
	e.repaired(repairing(alice, journal.RebuildState, 0))
	l := e.load(alice)
	e.equal("snapshot", l.Snapshot.Seq, uint64(0))
	e.equal("records", l.Records, withoutReplies(records(1, "a", "b", "c")...))
	e.equal("dropped", e.lines()[0].Snapshot, uint64(2))
	// A damaged record whose effect is in the snapshot: the effect stays.
	e.repaired(repairing(bob, journal.SkipRecord, 1))
	e.examine(bob)
	e.equal("snapshot", e.load(bob).Snapshot.Seq, uint64(2))
	// One that is intact goes with its effect.
	intact := repairing(bob, journal.SkipRecord, 2)
	intact.Intact = true
	e.repaired(intact)
	l = e.load(bob)
	e.equal("snapshot", l.Snapshot.Seq, uint64(0))
	e.equal("records", l.Records, append(append(withoutReplies(blank(1)), setAside(record(2, "b"))...), withoutReplies(record(3, "c"))...))
}

// testRepairDelete: an entity is deleted although its stored data is damaged, and is purged in time.
func testRepairDelete(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, record(1, "a"), mailing(2, 1), mailing(3, 1), waking(4, setting("t", 500, 0)), record(5, "e")))
	e.damage(alice, 1, 3, 5)
	e.repaired(repairing(alice, journal.DeleteEntity, 0))
	l := e.load(alice)
	if l.Life != 6 || l.LastSeq != 6 || len(l.Records) > 0 {
		e.Fatalf("it is not deleted: %+v", l)
	}
	if w := e.wakes(e.b, 1000, 10, journal.ShardPosition{Shard: shard}); len(w) > 0 {
		e.Errorf("reminders: %+v", w)
	}
	// What can be read of its sends is delivered.
	if s := e.sends(e.b, 10, journal.SendPosition{Shard: shard}); len(s) != 1 || s[0].Seq != 2 {
		e.Errorf("sends: %+v", s)
	}
	e.refusedAfter(repairing(alice, journal.DeleteEntity, 0), "deleted before")
	e.one(durable, claim(shard, nextOwner, 2))
	e.one(durable, delivering(nextOwner, alice, 2, 0))
	e.pass(e.cfg.DedupeAge + time.Second)
	e.one(durable, purge(nextOwner, alice, 6))
	for range 3 * 8 {
		if len(e.left()) == 0 {
			break
		}
		e.pass(e.cfg.DedupeAge / 8)
		e.one(durable, purge(nextOwner, alice, 6))
	}
	if e.exists(alice) {
		e.Error("it is not purged")
	}
}

// refusedAfter is refusedRepair behind a repair.
func (e *env) refusedAfter(r *journal.Repair, names ...string) {
	e.Helper()
	_, err := e.repair(r)
	e.wantErr(err, journal.ErrRepair, names...)
}

// testRepairRows: reminders and kept sends go without the records that they are of.
func testRepairRows(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	r := mailing(2, 1)
	r.Wakes = []sharding.Wake{setting("t", 500, 0)}
	e.one(durable, add(alice, waking(1, setting("u", 400, 0)), r, record(3, "c")))
	e.one(durable, snapshot(epoch, alice, 3, "s"))
	drop := repairing(alice, journal.DropReminder, 0)
	drop.Name = "u"
	e.repaired(drop)
	e.damage(alice, 2)
	p := e.repaired(repairing(alice, journal.DropRows, 0))
	e.equal("rows", fmt.Sprint(len(p.Wakes), len(p.Sends), len(p.SetAside)), "1 1 0")
	if w := e.wakes(e.b, 1000, 10, journal.ShardPosition{Shard: shard}); len(w) > 0 {
		e.Errorf("reminders: %+v", w)
	}
	e.equal("snapshot", e.load(alice).Snapshot.Seq, uint64(3))
	e.equal("sends", len(e.sends(e.b, 10, journal.SendPosition{Shard: shard})), 0)
}

// testRepairMissing: where a record is missing there is an empty one afterwards.
func testRepairMissing(e *env) {
	if e.store.Lose == nil {
		e.Skip("records of this store cannot be lost")
	}
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, records(1, "a", "b", "c", "d")...))
	for _, seq := range []uint64{1, 3} {
		if err := e.store.Lose(alice, seq); err != nil {
			e.Fatal(err)
		}
	}
	e.examine(alice, journal.Finding{Kind: journal.MissingRecords, Seq: 1, To: 1, Blocks: true}, journal.Finding{Kind: journal.MissingRecords, Seq: 3, To: 3, Blocks: true})
	e.repaired(repairing(alice, journal.SkipRecord, 3))
	e.repaired(repairing(alice, journal.SkipRecord, 1))
	e.equal("records", e.load(alice).Records, withoutReplies(blank(1), record(2, "b"), blank(3), record(4, "d")))
	e.one(durable, claim(shard, nextOwner, 2))
	for i := range uint64(20) { // keys are expired as ever
		e.one(durable, appendAt(nextOwner, alice, record(5+i, sharding.CommandID(fmt.Sprint("k", i)))))
	}
	e.one(durable, snapshot(nextOwner, alice, 24, "s"))
}
