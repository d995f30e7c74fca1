package sqlite

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestReplacedFile: a process whose file is replaced or moved away stops, whatever it does
// next, and leaves the file alone that is there now.
func TestReplacedFile(t *testing.T) {
	ctx, cfg := context.Background(), journal.DefaultConfig()
	e, shard := sharding.Entity{Type: "T", ID: "a"}, sharding.ShardID{Type: "T"}
	replaced := func(t *testing.T, path string) {
		copied, err := Open(ctx, path+".copy", cfg)
		if err != nil {
			t.Fatal(err)
		}
		write(t, copied, shard, e)
		if err := errors.Join(copied.Close(), os.Rename(path+".copy", path), remove(path+markSuffix)); err != nil {
			t.Fatal(err)
		}
	}
	moved := func(t *testing.T, path string) {
		if err := os.Rename(path, path+".old"); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		change func(*testing.T, string)
		call   func(*Backend, *Reader) error
	}{
		"a commit": {replaced, func(d *Backend, _ *Reader) error {
			_, err := d.Commit(ctx, []journal.Op{{Fence: &sharding.ReadFence{Shard: shard, Epoch: 1}}})
			return err
		}},
		"a declaration": {replaced, func(d *Backend, _ *Reader) error {
			_, err := d.Declare(ctx, journal.Declaration{})
			return err
		}},
		"a load": {replaced, func(d *Backend, _ *Reader) error {
			_, err := d.Load(ctx, journal.LoadRequest{Entity: e})
			return err
		}},
		"a load by a reader": {replaced, func(_ *Backend, r *Reader) error {
			_, err := r.Load(ctx, journal.LoadRequest{Entity: e})
			return err
		}},
		"a commit to a file that was moved away": {moved, func(d *Backend, _ *Reader) error {
			_, err := d.Commit(ctx, []journal.Op{{Fence: &sharding.ReadFence{Shard: shard, Epoch: 1}}})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "j.db")
			d, err := Open(ctx, path, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			write(t, d, shard, e)
			r, err := OpenReader(ctx, path, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			look := func() error { // now, and not when it is due
				d.place.due.Store(0)
				r.place.due.Store(0)
				return test.call(d, r)
			}
			if err := look(); err != nil {
				t.Fatalf("with its own file: %v", err)
			}
			test.change(t, path)
			for range 2 { // and it stays so
				if err := test.call(d, r); err != nil {
					t.Errorf("before a look is due: %v", err)
				}
			}
			for _, again := range []func() error{look, func() error { return test.call(d, r) }} {
				if err := again(); !errors.Is(err, journal.ErrBroken) || !errors.Is(err, journal.ErrReplaced) || !strings.Contains(err.Error(), "remove "+path+"-wal") {
					t.Errorf("with another file: %v", err)
				}
			}
			if err := errors.Join(r.Close(), d.Close()); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
				return
			}
			for _, suffix := range []string{"-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			if d, err = Open(ctx, path, cfg); err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if l, err := d.Load(ctx, journal.LoadRequest{Entity: e}); err != nil || l.LastSeq != 3 {
				t.Errorf("of the file that is there now: %+v, %v", l, err)
			}
		})
	}
}

// TestRemovedLog: if the log or its index is removed while processes use it, they copy what is in it into the main file
// within about a second, and write nothing more. No process uses the file without it meanwhile, or takes it for an older
// copy. Afterwards everything is there.
func TestRemovedLog(t *testing.T) {
	cfg := journal.DefaultConfig()
	e, shard := sharding.Entity{Type: "T", ID: "a"}, sharding.ShardID{Type: "T"}
	for name, removed := range map[string][]string{"both": {logSuffix, sharedSuffix}, "the log": {logSuffix}, "its index": {sharedSuffix}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "j.db")
			d := openBackend(t, path)
			write(t, d, shard, e)
			rest := openBackend(t, path) // it does nothing
			for _, suffix := range removed {
				must(t, os.Remove(path+suffix))
			}
			_, read := OpenReader(t.Context(), path, cfg)
			_, opened := Open(t.Context(), path, cfg)
			for _, err := range []error{read, opened} {
				if !errors.Is(err, journal.ErrUnreachable) || !strings.Contains(err.Error(), "A removed log") {
					t.Errorf("it is opened meanwhile: %v", err)
				}
			}
			for until := time.Now().Add(20 * time.Second); rest.broken.Load() == nil && time.Now().Before(until); {
				time.Sleep(10 * time.Millisecond)
			}
			// What a kill leaves at this moment.
			if out, err := exec.CommandContext(t.Context(), "sh", "-e", "-c", `cp "$0" "$0.killed"; cp "$0-mark" "$0.killed-mark"`, path).CombinedOutput(); err != nil {
				t.Fatal(string(out), err)
			}
			d.place.due.Store(0)
			if _, err := d.Commit(t.Context(), []journal.Op{{Fence: &sharding.ReadFence{Shard: shard, Epoch: 1}}}); !errors.Is(err, journal.ErrBroken) || !strings.Contains(err.Error(), "A removed log") {
				t.Errorf("a commit: %v", err)
			}
			for _, d := range []*Backend{rest, d} {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
			for _, path := range []string{path + ".killed", path} {
				if l, err := openBackend(t, path).Load(t.Context(), journal.LoadRequest{Entity: e}); err != nil || l.LastSeq != 3 {
					t.Errorf("%s: %+v, %v", path, l, err)
				}
			}
		})
	}
}

// TestRemovedLogAfterAnother: a process whose log was removed does not copy it if another log is in its place, and leaves
// that alone when it ends.
func TestRemovedLogAfterAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	d := openBackend(t, path)
	write(t, d, sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"})
	before, err := d.checkpoints.exec(d.checkpoints.state)
	must(t, err)
	must(t, os.Rename(path+logSuffix, path+".removed"))
	must(t, os.WriteFile(path+logSuffix, []byte("of another process"), 0o600))
	d.checkpoints.watchLog()
	if after, err := d.checkpoints.exec(d.checkpoints.state); err != nil || after != before || before.remaining() == 0 {
		t.Errorf("the log was %+v, and is %+v, %v", before, after, err)
	}
	must(t, d.Close())
	if text, err := os.ReadFile(path + logSuffix); err != nil || string(text) != "of another process" {
		t.Errorf("the other log is %q, %v", text, err)
	}
}

// TestJoinMakesNoLog: connections for reads open when they are needed. None makes a new log in the place of a removed one.
func TestJoinMakesNoLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	d := openBackend(t, path)
	write(t, d, sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"})
	must(t, os.Remove(path+logSuffix))
	for range 2 { // one may be open
		conn, err := d.reads.db.Conn(t.Context())
		if err == nil {
			defer conn.Close()
			_, _ = readFacts(t.Context(), conn, false)
		}
	}
	if _, err := os.Stat(path + logSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a log again: %v", err)
	}
}
