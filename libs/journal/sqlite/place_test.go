package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		call   func(*Driver, *Reader) error
	}{
		"a commit": {replaced, func(d *Driver, _ *Reader) error {
			_, err := d.Commit(ctx, []journal.Op{{Fence: &sharding.ReadFence{Shard: shard, Epoch: 1}}})
			return err
		}},
		"a declaration": {replaced, func(d *Driver, _ *Reader) error {
			_, err := d.Declare(ctx, journal.Declaration{})
			return err
		}},
		"a load": {replaced, func(d *Driver, _ *Reader) error {
			_, err := d.Load(ctx, journal.LoadRequest{Entity: e})
			return err
		}},
		"a load by a reader": {replaced, func(_ *Driver, r *Reader) error {
			_, err := r.Load(ctx, journal.LoadRequest{Entity: e})
			return err
		}},
		"a commit to a file that was moved away": {moved, func(d *Driver, _ *Reader) error {
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
