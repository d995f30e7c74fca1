package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/journaltest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// flipWorld is a journal file, its stored data, and the use of its pages.
type flipWorld struct {
	file  []byte
	crowd *journaltest.Crowd
	pages map[string][]flipPage // by kind
}

type flipPage struct{ number, cells int }

// newFlipWorld makes a file with pages of every kind.
func newFlipWorld(t *testing.T) *flipWorld {
	t.Helper()
	path := filepath.Join(t.TempDir(), "j.db")
	b, err := Open(context.Background(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	w := &flipWorld{crowd: journaltest.NewCrowd(t, b), pages: map[string][]flipPage{}}
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

// TestFlippedBits inverts one bit of a file that two processes use, in a page of
// each kind. Operations that need the page are refused as damaged, none gets a
// wrong answer, all others succeed, and the process continues, unless it is
// the first page, without which no transaction begins. When the bit is right
// again, so is everything.
func TestFlippedBits(t *testing.T) {
	w := newFlipWorld(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	kinds := slices.Sorted(maps.Keys(w.pages))
	if testing.Short() {
		kinds = []string{"record leaf", "header"}
	}
	for _, kind := range kinds {
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
		if handles[i], err = Open(context.Background(), path, journal.DefaultConfig()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = handles[i].Close() })
	}
	j, err := commit.Open(t.Context(), handles[0], journal.Declaration{Cluster: "blue"}, journal.DefaultConfig(), commit.Observer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	crowd, other := w.crowd.Clone(), handles[1]
	other.marks.raise = time.Now().Add(time.Hour) // raising the mark would write the first page anew
	flip(t, path, bit)
	// What another process commits empties the caches. It may meet the page too.
	shard := sharding.ShardID{Type: "Other"}
	if _, err := other.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 2}}}); err != nil && !errors.Is(err, journal.ErrCorrupt) && kind != "header" {
		t.Fatal(err)
	}
	if kind == "header" {
		j.Submit(journal.Op{Fence: &sharding.ReadFence{Shard: shard, Epoch: 1}}, func(journal.Result) {})
		select {
		case <-j.Broken():
		case <-time.After(10 * time.Second):
			t.Error("the first page is damaged, and the journal continues")
		}
		return
	}
	loads, first, second := crowd.Load(t, j.Load), crowd.Write(t, j), crowd.Write(t, j)
	loads2 := crowd.Load(t, other.Load)
	t.Logf("page %d of %s, bit %d: of %d entities %d and %d were refused by loads, %d and %d by appends", p.number, kind, bit, journaltest.CrowdSize, loads, loads2, first, second)
	if err := j.Err(); err != nil {
		t.Fatalf("the journal is broken: %v", err)
	}
	// Without the generation, which is in meta, nothing is done.
	if leaf := strings.HasSuffix(kind, " leaf") && kind != "meta leaf"; leaf && max(loads, loads2, first, second) > 3*p.cells {
		t.Errorf("the page holds %d rows", p.cells)
	}
	flip(t, path, bit)
	if n := crowd.Write(t, j) + crowd.Load(t, other.Load) + crowd.Load(t, j.Load); n > 0 {
		t.Errorf("the bit is right again, and %d are refused", n)
	}
}
