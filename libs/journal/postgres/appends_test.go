//go:build linux

package postgres

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// keyAt is a key with a time inside.
func keyAt(at time.Time) sharding.CommandID {
	ms := at.UnixMilli()
	return sharding.CommandID(fmt.Sprintf("%08x-%04x-7000-8000-%012x", ms>>16, ms&0xffff, 1))
}

// withKey is an append of one record.
func withKey(seq uint64, key sharding.CommandID) journal.Op {
	op := add(1, alice, seq)
	op.Append.Records[0].Command = key
	return op
}

// TestWhatAppendTakes lists the operations of a batch that append_records takes: it must not get operations
// that it would treat otherwise than commit_batch.
func TestWhatAppendTakes(t *testing.T) {
	t.Parallel()
	bob := sharding.Entity{Type: "Account", ID: "bob"}
	change := func(seq uint64, f func(*sharding.Append)) journal.Op {
		op := add(1, alice, seq)
		f(op.Append)
		return op
	}
	ops := func(ops ...journal.Op) []journal.Op { return ops }
	purge := journal.Op{Purge: &journal.Purge{Shard: shard, Epoch: 1, Entity: bob, Life: 1}}
	snapshot := func(e sharding.Epoch, of sharding.Entity) journal.Op {
		return journal.Op{Snapshot: &journal.WriteSnapshot{Shard: shard, Epoch: e, Entity: of, Snapshot: journal.Snapshot{Seq: 1}}}
	}
	drop := journal.Op{Drop: &journal.DropSnapshot{Shard: shard, Entity: alice, Seq: 1}}
	cfg := journal.DefaultConfig()
	for name, c := range map[string]struct {
		ops  []journal.Op
		want []int
	}{
		"one":                         {ops(add(1, alice, 2)), []int{0}},
		"two entities":                {ops(add(1, bob, 2), add(1, alice, 2)), []int{1, 0}},
		"two of an entity":            {ops(add(1, alice, 2), add(1, alice, 3), add(1, bob, 2)), []int{2}},
		"its snapshot":                {ops(add(1, alice, 2), snapshot(1, alice), add(1, bob, 2)), []int{2}},
		"its snapshot is dropped":     {ops(drop, add(1, alice, 2), add(1, bob, 2)), []int{2}},
		"the snapshot of another":     {ops(add(1, alice, 2), snapshot(1, bob)), []int{0}},
		"a fence is read":             {ops(fence(1), add(1, alice, 2)), []int{1}},
		"a claim":                     {ops(claim(1), add(1, alice, 2)), nil},
		"a purge":                     {ops(purge, add(1, alice, 2)), nil},
		"two epochs of a shard":       {ops(add(1, alice, 2), add(2, bob, 2)), nil},
		"a snapshot at another epoch": {ops(add(1, alice, 2), snapshot(2, bob)), nil},
		"the first record":            {ops(add(1, alice, 1)), []int{0}},
		"first records come last":     {ops(add(1, alice, 1), add(1, bob, 2)), []int{1, 0}},
		"two first records":           {ops(change(1, func(a *sharding.Append) { a.Records = append(a.Records, sharding.Record{Seq: 2}) })), nil},
		"another type's shard":        {ops(change(1, func(a *sharding.Append) { a.Shard.Type = "Cart" })), nil},
		"a record before the first":   {ops(add(1, alice, 0)), nil},
		"no records":                  {ops(change(2, func(a *sharding.Append) { a.Records = nil })), nil},
		"a record is left out":        {ops(change(2, func(a *sharding.Append) { a.Records = append(a.Records, sharding.Record{Seq: 4}) })), nil},
		"a delete":                    {ops(change(2, func(a *sharding.Append) { a.Records[0].Delete = true })), nil},
		"a wake-up":                   {ops(change(2, func(a *sharding.Append) { a.Records[0].Wakes = make([]sharding.Wake, 1) })), nil},
		"a send":                      {ops(change(2, func(a *sharding.Append) { a.Records[0].Sends = make([]sharding.Send, 1) })), nil},
		"a wake-up has fired":         {ops(change(2, func(a *sharding.Append) { a.Fired = make([]sharding.Fired, 1) })), nil},
		"a send has ended":            {ops(change(2, func(a *sharding.Append) { a.Delivered = make([]sharding.Delivered, 1) })), nil},
		"before keys are expired":     {ops(add(1, alice, expireEvery-1)), []int{0}},
		"keys are expired":            {ops(add(1, alice, expireEvery)), nil},
		"after keys were expired":     {ops(add(1, alice, expireEvery+1)), []int{0}},
		"the last number of a bigint": {ops(add(1, alice, math.MaxInt64)), []int{0}},
		"no number of a bigint":       {ops(add(1, alice, math.MaxInt64+2)), nil},
		"numbers that start over again": {ops(change(math.MaxUint64, func(a *sharding.Append) {
			a.Records = append(a.Records, sharding.Record{Seq: 0}, sharding.Record{Seq: 1})
		})), nil},
	} {
		var got []int
		if x := newAppends(c.ops, time.Now(), &cfg); x != nil {
			got = x.ops // in the order of the entities, in which they are locked
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: takes %v, want %v", name, got, c.want)
		}
	}
}

// TestAppendRefuses: append_records leaves refusals to commit_batch.
func TestAppendRefuses(t *testing.T) {
	t.Parallel()
	_, url := newDatabase(t, postgrestest.Start(t))
	b := openAt(t, url, journal.DefaultConfig())
	conn := connect(t, url)
	expired := time.Now().Truncate(time.Millisecond)
	two := func(seq uint64, key sharding.CommandID) journal.Op {
		op := withKey(seq, key)
		op.Append.Records = append(op.Append.Records, sharding.Record{Seq: seq + 1})
		return op
	}
	mustCommit(t, b, claim(1))
	mustCommit(t, b, add(1, alice, 1))
	mustExec(t, conn, "UPDATE roost.entity SET dropped = $1", expired.UnixMilli())
	for name, c := range map[string]struct {
		op   journal.Op
		want sharding.Verdict
	}{
		"a key as old as one that was expired": {withKey(2, keyAt(expired)), sharding.RefusedCommand},
		"an older key":                         {withKey(2, keyAt(expired.Add(-time.Millisecond))), sharding.RefusedCommand},
		"a key that is stored":                 {withKey(2, "c1"), sharding.RefusedCommand},
		"a record too late":                    {add(1, alice, 3), sharding.RefusedSeq},
		"two records too late":                 {two(3, "new"), sharding.RefusedSeq},
		"two records, one with an old key":     {two(2, keyAt(expired)), sharding.RefusedCommand},
		"another epoch":                        {add(2, alice, 2), sharding.RefusedEpoch},
	} {
		if r, err := b.Commit(t.Context(), []journal.Op{c.op}); err != nil || r[0].Verdict != c.want {
			t.Errorf("%s: %v, %v, want %v", name, r, err, c.want)
		}
	}
	mustCommit(t, b, withKey(2, keyAt(expired.Add(time.Millisecond))))
	mustCommit(t, b, withKey(3, "without a time"))

	// The same for first records: only data of removed entities was expired.
	mustExec(t, conn, "UPDATE roost.fence SET forgotten = $1", expired.UnixMilli())
	first := func(name sharding.EntityID, e sharding.Epoch, key sharding.CommandID) journal.Op {
		op := withKey(1, key)
		op.Append.Entity.ID, op.Append.Epoch = name, e
		return op
	}
	for name, c := range map[string]struct {
		op   journal.Op
		want sharding.Verdict
	}{
		"first record: a key as old as one that was expired": {first("bob", 1, keyAt(expired)), sharding.RefusedCommand},
		"first record: an entity that exists":                {first(alice.ID, 1, "new"), sharding.RefusedSeq},
		"first record: another epoch":                        {first("bob", 2, ""), sharding.RefusedEpoch},
	} {
		// The batch also has one that must be stored, but not by append_records.
		beside := first(sharding.EntityID("with "+name), c.op.Append.Epoch, "")
		beside.Append.Epoch = 1
		if r, err := b.Commit(t.Context(), []journal.Op{c.op}); err != nil || r[0].Verdict != c.want {
			t.Errorf("%s: %v, %v, want %v", name, r, err, c.want)
		}
		if r, err := b.Commit(t.Context(), []journal.Op{c.op, beside}); err != nil || r[0].Verdict != c.want || r[1].Verdict != sharding.Durable {
			t.Errorf("%s, with another one: %v, %v, want %v", name, r, err, c.want)
		}
	}
	mustCommit(t, b, first("bob", 1, keyAt(expired.Add(time.Millisecond))))
	mustCommit(t, b, first("carol", 1, "without a time"))
}

// TestAppendSeveral stores records of several entities, and several of one: each gets its own.
func TestAppendSeveral(t *testing.T) {
	t.Parallel()
	_, url := newDatabase(t, postgrestest.Start(t))
	b := openAt(t, url, journal.DefaultConfig())
	bob := sharding.Entity{Type: "Account", ID: "bob"}
	mustCommit(t, b, claim(1))
	for _, e := range []sharding.Entity{bob, alice} {
		mustCommit(t, b, add(1, e, 1))
	}
	ops := []journal.Op{add(1, bob, 2), add(1, alice, 2)}
	ops[0].Append.Records = append(ops[0].Append.Records, sharding.Record{Seq: 3})
	results, err := b.Commit(t.Context(), ops)
	if err != nil || byAppend(ops, results, &b.cfg) != "all by append_records" {
		t.Fatalf("%+v, %v", results, err)
	}
	for e, want := range map[sharding.Entity]uint64{alice: 2, bob: 3} {
		if l, err := b.Load(t.Context(), journal.LoadRequest{Entity: e}); err != nil || l.LastSeq != want || uint64(len(l.Records)) != want {
			t.Errorf("%s: %+v, %v, want %d records", e, l, err, want)
		}
	}
}

// TestAppendStoresTheSame compares the rows that append_records and commit_batch write.
func TestAppendStoresTheSame(t *testing.T) {
	t.Parallel()
	_, url := newDatabase(t, postgrestest.Start(t))
	b := openAt(t, url, journal.DefaultConfig())
	conn := connect(t, url)
	now, elapsed := time.Now(), time.Second
	b.SetClock(func() (time.Time, time.Duration) { return now, elapsed })
	bob := sharding.Entity{Type: "Account", ID: "bob"}
	mustCommit(t, b, claim(1))
	mustExec(t, conn, "UPDATE roost.fence SET forgotten = 7")
	mustCommit(t, b, add(1, alice, 1))
	elapsed += time.Minute // that the entity ages by
	for name, keys := range map[string][]sharding.CommandID{
		"no key": {""}, "a key": {"a"}, "a time": {keyAt(now)}, "kept forever": {keyAt(now.Add(365 * 24 * time.Hour))}, "several": {"a", "", keyAt(now)},
	} {
		op := add(1, alice, 2)
		op.Append.Records = nil
		for i, k := range keys {
			op.Append.Records = append(op.Append.Records, sharding.Record{Seq: uint64(i) + 2, Command: k, Events: []sharding.Event{{Name: "e"}}})
		}
		all := []journal.Op{op}
		if len(keys) == 1 { // a first record, too
			first := add(1, bob, 1)
			first.Append.Records[0].Command, first.Append.Records[0].Reply.Payload = keys[0], []byte("reply")
			all = append(all, first)
		}
		for _, op := range all {
			var rows [2]string
			for i, byAppend := range []bool{false, true} {
				sql, args := statement(b, op, byAppend)
				if byAppend != (sql == appendSQL) {
					t.Fatalf("%s: append_records does not take it", name)
				}
				mustExec(t, conn, "BEGIN")
				mustExec(t, conn, "SELECT setval('roost.entity_id', 100)") // sequences are not rolled back
				mustExec(t, conn, sql, args...)
				if err := conn.QueryRow(t.Context(), "SELECT concat((SELECT string_agg(e::text, ' ' ORDER BY e.id) FROM roost.entity e), ' ', (SELECT string_agg(r::text, ' ' ORDER BY r.entity, r.seq) FROM roost.record r))").Scan(&rows[i]); err != nil {
					t.Fatal(err)
				}
				mustExec(t, conn, "ROLLBACK")
			}
			if rows[0] != rows[1] {
				t.Errorf("%s of %s: commit_batch stores\n%s\nappend_records stores\n%s", name, op.Append.Entity, rows[0], rows[1])
			}
		}
	}
}

// TestLateCommit: a commit may take effect after later ones of its process, if its connection was lost. However it
// is stored, the age of the entity does not grow by the time between them when the next one comes.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	_, url := newDatabase(t, postgrestest.Start(t))
	b := openAt(t, url, journal.DefaultConfig())
	conn := connect(t, url)
	several := add(1, alice, 3)
	several.Append.Records = append(several.Append.Records, sharding.Record{Seq: 4})
	deleted := add(1, alice, 5)
	deleted.Append.Records[0].Delete = true // commit_batch stores this
	mustCommit(t, b, claim(1))
	mustCommit(t, b, add(1, alice, 1))
	const later = 1_000_000_000
	mustExec(t, conn, "UPDATE roost.entity SET elapsed = $1", later)
	for _, op := range []journal.Op{add(1, alice, 2), several, deleted} {
		mustCommit(t, b, op)
		var elapsed int64
		if err := conn.QueryRow(t.Context(), "SELECT elapsed FROM roost.entity").Scan(&elapsed); err != nil || elapsed != later {
			t.Errorf("record %d: its process had been running for %d ms, %v; want %d", op.Append.Records[0].Seq, elapsed, err, later)
		}
	}
}
