package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	flipEntities = 240
	flipShards   = 256
)

// flipWorld is a journal file, what is stored in it, and what its pages are for.
type flipWorld struct {
	file  []byte
	last  map[sharding.EntityID]uint64
	pages map[string][]flipPage // by kind
}

type flipPage struct{ number, cells int }

func flipEntity(i int) sharding.Entity {
	return sharding.Entity{Type: "Account", ID: sharding.EntityID(fmt.Sprintf("e%03d", i))}
}

func flipShard(e sharding.Entity) sharding.ShardID {
	return sharding.ShardID{Type: e.Type, Index: sharding.ShardOf(e.ID, flipShards)}
}

func flipRecord(e sharding.Entity, seq uint64) sharding.Record {
	return sharding.Record{Seq: seq, Command: sharding.CommandID(fmt.Sprint(e.ID, "-", seq)),
		Events: []sharding.Event{{Name: "E", Payload: []byte(strings.Repeat(string(e.ID), 60))}}}
}

func flipAppend(e sharding.Entity, seq uint64) journal.Op {
	return journal.Op{Append: &sharding.Append{Shard: flipShard(e), Epoch: 1, Entity: e, Records: []sharding.Record{flipRecord(e, seq)}}}
}

// newFlipWorld makes a file with pages of every kind.
func newFlipWorld(t *testing.T) *flipWorld {
	t.Helper()
	path := filepath.Join(t.TempDir(), "j.db")
	b, err := Open(path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	w := &flipWorld{last: map[sharding.EntityID]uint64{}, pages: map[string][]flipPage{}}
	commit := func(ops ...journal.Op) {
		t.Helper()
		results, err := b.Commit(t.Context(), ops)
		for i, r := range results {
			if r.Verdict != sharding.Durable {
				t.Fatalf("%s is %v", ops[i].Kind(), r.Verdict)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Account", Shards: flipShards}}}); err != nil {
		t.Fatal(err)
	}
	var claims []journal.Op
	for i := range uint32(flipShards) {
		claims = append(claims, journal.Op{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "Account", Index: i}, Epoch: 1, Owner: 1}})
	}
	commit(claims...)
	for seq := uint64(1); seq <= 6; seq++ {
		var ops []journal.Op
		for i := range flipEntities {
			e := flipEntity(i)
			ops = append(ops, flipAppend(e, seq))
			// A snapshot that shrinks leaves free pages behind.
			size := map[uint64]int{2: 30_000, 4: 300}[seq]
			if i%20 == 0 && size > 0 {
				ops = append(ops, journal.Op{Snapshot: &journal.WriteSnapshot{Shard: flipShard(e), Epoch: 1, Entity: e,
					Snapshot: journal.Snapshot{Seq: seq, Payload: make([]byte, size+9000*(i%40/20))}}})
			}
			w.last[e.ID] = seq
		}
		commit(ops...)
	}
	w.classify(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if w.file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	list := int(binary.BigEndian.Uint32(w.file[32:])) // the first page of the list of free pages
	w.pages["free list"] = []flipPage{{number: list}}
	w.pages["free"] = slices.DeleteFunc(w.pages["free"], func(p flipPage) bool { return p.number == list })
	return w
}

// classify asks SQLite what the pages are for. Those that no table or index has
// are free.
func (w *flipWorld) classify(t *testing.T, b *Backend) {
	t.Helper()
	rows, err := b.conn.QueryContext(t.Context(), "SELECT name, pagetype, pageno, ncell FROM dbstat")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	used := map[int]bool{1: true}
	w.pages["header"] = []flipPage{{1, 0}}
	for rows.Next() {
		var name, kind string
		var p flipPage
		if err := rows.Scan(&name, &kind, &p.number, &p.cells); err != nil {
			t.Fatal(err)
		}
		if !used[p.number] {
			used[p.number] = true
			w.pages[name+" "+kind] = append(w.pages[name+" "+kind], p)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	var count int
	if err := b.conn.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&count); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= count; n++ {
		if !used[n] {
			w.pages["free"] = append(w.pages["free"], flipPage{number: n})
		}
	}
	for _, kind := range []string{"record leaf", "record internal", "command leaf", "command internal", "fence leaf", "fence internal", "entity leaf",
		"entity internal", "sqlite_autoindex_entity_1 leaf", "sqlite_autoindex_entity_1 internal", "snapshot leaf", "snapshot overflow", "meta leaf", "type leaf", "free"} {
		if len(w.pages[kind]) == 0 {
			t.Fatalf("the file has no page of kind %q, but %v", kind, slices.Sorted(maps.Keys(w.pages)))
		}
	}
}

// flipCase is a file in use in which one bit is wrong.
type flipCase struct {
	*testing.T
	j     *journal.Journal // of the first handle
	other *Backend
	last  map[sharding.EntityID]uint64
}

// flip inverts a bit. The file stays open to the end: closing it would drop the
// locks that SQLite has on it.
func flip(t *testing.T, path string, bit int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, int64(bit/8)); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << (bit % 8)
	if _, err := f.WriteAt(b, int64(bit/8)); err != nil {
		t.Fatal(err)
	}
}

// load compares everybody with what was durable. It counts who is refused.
func (c *flipCase) load(load func(context.Context, journal.LoadRequest) (journal.Loaded, error)) (refused int) {
	c.Helper()
	for i := range flipEntities {
		e := flipEntity(i)
		l, err := load(c.Context(), journal.LoadRequest{Entity: e, Lookup: []sharding.CommandID{flipRecord(e, 3).Command}})
		switch {
		case errors.Is(err, journal.ErrCorrupt):
			refused++
		case err != nil:
			c.Errorf("%s: %v", e, err)
		case l.LastSeq != c.last[e.ID] || uint64(len(l.Records))+l.Snapshot.Seq != l.LastSeq || len(l.Stored) != 1:
			c.Errorf("%s: record %d is the last one, %d are loaded after the snapshot at %d, %d of 1 commands are found; want record %d",
				e, l.LastSeq, len(l.Records), l.Snapshot.Seq, len(l.Stored), c.last[e.ID])
		}
	}
	return refused
}

// write appends to everybody at once, and reads all fences. It counts who is
// refused.
func (c *flipCase) write() (refused int) {
	c.Helper()
	var ops []journal.Op
	for i := range flipEntities {
		ops = append(ops, flipAppend(flipEntity(i), c.last[flipEntity(i).ID]+1))
	}
	for i := range uint32(flipShards) {
		ops = append(ops, journal.Op{Fence: &sharding.ReadFence{Shard: sharding.ShardID{Type: "Account", Index: i}, Epoch: 1}})
	}
	results := make([]journal.Result, len(ops))
	var all sync.WaitGroup
	all.Add(len(ops))
	for i := range ops {
		c.j.Submit(ops[i], func(r journal.Result) {
			results[i] = r
			all.Done()
		})
	}
	all.Wait()
	for i, r := range results {
		switch {
		case r.Verdict == sharding.Durable && ops[i].Append != nil:
			c.last[ops[i].Append.Entity.ID]++
		case r.Verdict == sharding.Durable:
		case r.Verdict == sharding.RefusedDamaged && ops[i].Append != nil:
			refused++
		case r.Verdict == sharding.RefusedDamaged:
		default:
			c.Errorf("%s is %v: %v", ops[i].Kind(), r.Verdict, r.Err)
		}
	}
	return refused
}

// TestFlippedBits inverts one bit of a file that two processes use, in a page of
// each kind. Whoever needs the page is told that it is damaged, nobody gets a
// wrong answer, everybody else goes on, and so does the process, unless it is
// the first page, without which no transaction begins. When the bit is right
// again, so is everything.
func TestFlippedBits(t *testing.T) {
	w := newFlipWorld(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, kind := range slices.Sorted(maps.Keys(w.pages)) {
		p := w.pages[kind][rng.IntN(len(w.pages[kind]))]
		bit := (p.number-1)*pageSize*8 + rng.IntN(pageSize*8)
		t.Run(strings.ReplaceAll(kind, " ", "-"), func(t *testing.T) { w.flipped(t, kind, p, bit) })
	}
}

func (w *flipWorld) flipped(t *testing.T, kind string, p flipPage, bit int) {
	path := filepath.Join(t.TempDir(), "j.db")
	if err := os.WriteFile(path, w.file, 0o600); err != nil {
		t.Fatal(err)
	}
	handles := make([]*Backend, 2)
	for i := range handles {
		var err error
		if handles[i], err = Open(path, journal.DefaultConfig()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = handles[i].Close() })
	}
	j, err := journal.Open(t.Context(), handles[0], journal.Declaration{Cluster: "blue"}, journal.DefaultConfig(), journal.Observer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	c := &flipCase{T: t, j: j, other: handles[1], last: maps.Clone(w.last)}
	flip(t, path, bit)
	// What another process commits empties the caches. It may meet the page too.
	shard := sharding.ShardID{Type: "Other"}
	if _, err := c.other.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 2}}}); err != nil && !errors.Is(err, journal.ErrCorrupt) && kind != "header" {
		t.Fatal(err)
	}
	if kind == "header" {
		j.Submit(flipAppend(flipEntity(0), c.last["e000"]+1), func(journal.Result) {})
		select {
		case <-j.Broken():
		case <-time.After(10 * time.Second):
			t.Error("the first page is damaged, and the journal goes on")
		}
		return
	}
	loads, first, second := c.load(j.Load), c.write(), c.write()
	loads2 := c.load(c.other.Load)
	t.Logf("page %d of %s, bit %d: of %d entities %d and %d were refused by loads, %d and %d by appends", p.number, kind, bit, flipEntities, loads, loads2, first, second)
	if err := j.Err(); err != nil {
		t.Fatalf("the journal is broken: %v", err)
	}
	if leaf := strings.HasSuffix(kind, " leaf"); leaf && max(loads, loads2, first, second) > 3*p.cells {
		t.Errorf("the page holds %d rows", p.cells)
	}
	flip(t, path, bit)
	if n := c.write() + c.load(c.other.Load) + c.load(j.Load); n > 0 {
		t.Errorf("the bit is right again, and %d are refused", n)
	}
}
