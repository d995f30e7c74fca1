package sqlite

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestSpaceComesBack: when nine of ten entities were deleted and their keys are old, the file
// has at most a quarter of the size that it had. SPACE_ENTITIES sets how many entities there
// are; the default is few.
func TestSpaceComesBack(t *testing.T) {
	entities := 2000
	if text := os.Getenv("SPACE_ENTITIES"); text != "" {
		var err error
		if entities, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	cfg := journal.DefaultConfig()
	cfg.DedupeAge = time.Minute
	began := time.Now()
	elapsed := time.Duration(0)
	var d *Backend
	open := func() {
		t.Helper()
		var err error
		if d, err = Open(t.Context(), path, cfg); err != nil {
			t.Fatal(err)
		}
		d.SetClock(func() (time.Time, time.Duration) { return began.Add(elapsed), elapsed })
	}
	open()
	shard := sharding.ShardID{Type: "T"}
	var batch []journal.Op
	flush := func() {
		t.Helper()
		results, err := d.Commit(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Verdict != sharding.Durable {
				t.Fatalf("%s is %v", batch[i].Kind(), r.Verdict)
			}
		}
		batch = batch[:0]
	}
	submit := func(op journal.Op) {
		if batch = append(batch, op); len(batch) == 100 {
			flush()
		}
	}
	name := func(i int) sharding.Entity {
		return sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprint("entity-", i))}
	}
	submit(journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}})
	flush()
	payload := bytes.Repeat([]byte("x"), 1024)
	const records = 4
	for seq := uint64(1); seq <= records; seq++ {
		for i := range entities {
			submit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: name(i), Records: []sharding.Record{{
				Seq: seq, Command: sharding.CommandID(fmt.Sprint("k", seq)), Events: []sharding.Event{{Name: "e", Payload: payload}},
			}}}})
		}
	}
	flush()
	// size copies the log into the file while no other process has it open.
	size := func() int64 {
		t.Helper()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite", dsn(path, copyVFS, "rw", "busy_timeout(0)"))
		if err != nil {
			t.Fatal(err)
		}
		var busy, pages, copied int
		if err := db.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &copied); err != nil || busy != 0 {
			t.Fatal(busy, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		defer open()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	peak := size()
	gone := rand.New(rand.NewPCG(1, 1)).Perm(entities)[:entities*9/10]
	for _, i := range gone {
		submit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: name(i), Records: []sharding.Record{{Seq: records + 1, Command: "gone", Delete: true}}}})
	}
	flush()
	elapsed += 2 * cfg.DedupeAge
	for _, i := range gone {
		submit(journal.Op{Purge: &journal.Purge{Shard: shard, Epoch: 1, Entity: name(i), Life: records + 1}})
	}
	flush()
	after := size()
	t.Logf("%d entities: %d KiB at the peak, %d KiB after nine of ten were deleted", entities, peak>>10, after>>10)
	if after > peak/4 {
		t.Errorf("the file has %d bytes, and had %d: it gives too little back", after, peak)
	}
	for i := range entities {
		l, err := d.Load(t.Context(), journal.LoadRequest{Entity: name(i)})
		if want := uint64(records); err != nil || l.LastSeq != want && l.LastSeq != 0 {
			t.Fatalf("entity %d has %d records; %v", i, l.LastSeq, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNumbersAreNeverReused: the number of an entity that was purged is not given to another
// one, though it was the highest.
func TestNumbersAreNeverReused(t *testing.T) {
	ctx, cfg := t.Context(), journal.DefaultConfig()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "journal.db"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	shard := sharding.ShardID{Type: "T"}
	last := int64(0)
	for i := range 3 {
		who := sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprint(i))}
		ops := []journal.Op{
			{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}},
			{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: who, Records: []sharding.Record{{Seq: 1, Delete: true}}}},
		}
		if _, err := d.Commit(ctx, ops); err != nil {
			t.Fatal(err)
		}
		var id int64
		if err := d.conn.QueryRowContext(ctx, "SELECT id FROM entity WHERE name = ?", string(who.ID)).Scan(&id); err != nil {
			t.Fatal(err)
		}
		if id <= last {
			t.Errorf("entity %d has number %d, the one before had %d", i, id, last)
		}
		last = id
		if r, err := d.Commit(ctx, []journal.Op{{Purge: &journal.Purge{Shard: shard, Epoch: 1, Entity: who, Life: 1}}}); err != nil || r[0].Verdict != sharding.Durable {
			t.Fatal(r, err)
		}
	}
	var left int
	if err := d.conn.QueryRowContext(ctx, "SELECT count(*) FROM entity").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d entities are left, %v", left, err)
	}
}
