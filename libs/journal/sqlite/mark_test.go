package sqlite

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestOlderCopy: a copy of the main file, of its log or of both that is put back over newer ones is
// refused, while processes have the file open and when they are started again.
func TestOlderCopy(t *testing.T) {
	cfg := journal.DefaultConfig()
	shard, alice := sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"}
	dir := t.TempDir()
	path := filepath.Join(dir, "j.db")
	// As other programs do: a process that closes a file loses its locks on it.
	shell := func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
	}
	d, err := Open(t.Context(), path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	seq := uint64(0)
	one := []journal.Op{{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: alice}}}
	commit := func() error {
		seq++
		d.marks.look, d.marks.raise = time.Time{}, time.Time{} // markEvery has passed
		one[0].Append.Records = []sharding.Record{{Seq: seq, Events: []sharding.Event{{Name: "x"}}}}
		_, err := d.Commit(t.Context(), one)
		return err
	}
	if _, err := d.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}}); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(commit())
	must(d.checkpoints.finish())
	must(commit())
	shell("mkdir old && cp j.db j.db-wal j.db-mark old") // what a kill leaves at this moment
	must(commit())
	must(d.checkpoints.finish())
	must(commit())
	shell("mkdir new && cp j.db j.db-wal j.db-mark new")

	for name, c := range map[string]struct {
		script string
		older  bool
	}{
		"as it was left":               {"", false},
		"without the log's index":      {"cp old/j.db-mark case/", false},
		"an older main file":           {"cp old/j.db case/; rm case/j.db-wal", true},
		"an older main file and log":   {"cp old/j.db old/j.db-wal case/", true},
		"an older main file, new log":  {"cp old/j.db case/", true},
		"an older one, and its marks":  {"cp old/* case/", false}, // another folder, for all that can be known
		"an older one without marks":   {"cp old/j.db case/; rm case/j.db-mark case/j.db-wal", false},
		"an older one, damaged marks":  {"cp old/j.db case/; rm case/j.db-wal; : > case/j.db-mark", false},
		"a journal that is made again": {"rm case/j.db case/j.db-wal", false},
	} {
		t.Run(name, func(t *testing.T) {
			shell("rm -rf case && cp -r new case;" + c.script)
			at := filepath.Join(dir, "case", "j.db")
			for range 2 { // what the first one does when it is closed hides nothing
				d, err := Open(t.Context(), at, cfg)
				if err == nil {
					err = d.Close()
				}
				if !c.older && err != nil {
					t.Fatal(err)
				}
				if c.older && (!errors.Is(err, journal.ErrIdentity) || !errors.Is(err, journal.ErrReplaced)) {
					t.Fatalf("it is opened: %v", err)
				}
			}
		})
	}

	must(commit())
	shell("cat old/j.db > j.db")
	if err := commit(); !errors.Is(err, journal.ErrBroken) || !errors.Is(err, journal.ErrReplaced) {
		t.Errorf("a commit to an older file: %v", err)
	}
	_ = d.Close()
	if _, err := Open(t.Context(), path, cfg); !errors.Is(err, journal.ErrIdentity) {
		t.Errorf("the older file is opened after a process has closed it: %v", err)
	}
}

// TestMarkCostsNoSync: a transaction that changes nothing does not raise the mark, which would make it sync.
func TestMarkCostsNoSync(t *testing.T) {
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	mark := func() (version int) {
		if err := d.conn.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version); err != nil {
			t.Fatal(err)
		}
		return version
	}
	before := mark()
	for _, op := range []journal.Op{
		{Fence: &sharding.ReadFence{Shard: sharding.ShardID{Type: "T"}}},
		{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: 1, Owner: 1}},
		{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: 2, Owner: 1}}, // within markEvery
	} {
		if _, err := d.Commit(t.Context(), []journal.Op{op}); err != nil {
			t.Fatal(err)
		}
		if op.Fence != nil && mark() != before {
			t.Error("a transaction that only reads has raised the mark")
		}
	}
	if got := mark(); got != before+1 {
		t.Errorf("two writes within %v raise the mark from %d to %d", markEvery, before, got)
	}
}
