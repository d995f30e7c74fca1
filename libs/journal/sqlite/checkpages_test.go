package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestCheckPages: each damaged page is found, whatever it is for, and the pages after it are read, too.
func TestCheckPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	d, err := Open(t.Context(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Declare(t.Context(), journal.Declaration{Cluster: "c", Types: []sharding.TypeDesc{{Type: "T", Shards: 2}}}); err != nil {
		t.Fatal(err)
	}
	shard := sharding.ShardID{Type: "T"}
	write(t, d, shard, sharding.Entity{Type: "T", ID: "a"})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	check := func() open.CheckedPages {
		t.Helper()
		c, err := CheckPages(t.Context(), path, journal.DefaultConfig(), func(int64, int64) {})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	found := 0
	whole := check()
	info, err := os.Stat(path)
	if err != nil || whole.Damaged != 0 || whole.Pages != info.Size()/pageSize {
		t.Fatalf("of %d bytes: %+v, %v", info.Size(), whole, err)
	}
	for number := int64(1); number <= whole.Pages; number++ {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		next := number%whole.Pages + 1
		at, and := number*pageSize-100, next*pageSize-100
		content[at], content[and] = content[at]^1, content[and]^1
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := CheckPages(t.Context(), path, journal.DefaultConfig(), func(int64, int64) {})
		want := []uint32{uint32(min(number, next)), uint32(max(number, next))}
		if err == nil && !slices.Equal(c.First, want) || err != nil && !errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("pages %v are damaged: %+v, %v", want, c, err)
		}
		if err == nil {
			found++
		}
		content[at], content[and] = content[at]^1, content[and]^1
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("the file could never be opened")
	}
}
