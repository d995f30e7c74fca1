package sqlite

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
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
			made := c.script == "rm case/j.db case/j.db-wal"
			for range 2 { // what the first one does when it is closed hides nothing
				if _, err := inspect(t.Context(), at, cfg); err != nil { // as a restore does, also if it is a dry run
					t.Fatal(err)
				}
				_, pages := CheckPages(t.Context(), at, cfg, func(int64, int64) {})
				s, snapshot := Snapshot(t.Context(), at, cfg)
				if snapshot == nil {
					must(s.Close())
				}
				if !made { // there is a journal
					r, err := OpenReader(t.Context(), at, cfg)
					if err == nil {
						must(r.Close())
					}
					for _, err := range []error{pages, snapshot, err} {
						if c.older != errors.Is(err, journal.ErrReplaced) || !c.older && err != nil {
							t.Errorf("it is read: %v", err)
						}
					}
				}
				if _, err := Upgrade(t.Context(), at, cfg, true); c.older != errors.Is(err, journal.ErrReplaced) {
					t.Errorf("an upgrade: %v", err)
				}
				d, err := Open(t.Context(), at, cfg)
				if err == nil {
					err = d.Close()
				}
				if !c.older && err != nil {
					t.Fatal(err)
				}
				made = false
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

// TestInterruptedRestore: when a restore has removed the log of the old journal, and the new file does not come into
// place, the old file is refused, because it lacks what was in its log.
func TestInterruptedRestore(t *testing.T) {
	d := openBackend(t, filepath.Join(t.TempDir(), "j.db"))
	for epoch := range sharding.Epoch(2) {
		must(t, d.checkpoints.finish())
		d.marks.raise = time.Time{} // markEvery has passed
		if _, err := d.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: epoch + 1, Owner: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	killed := filepath.Join(t.TempDir(), "j.db")
	for _, suffix := range []string{"", logSuffix, markSuffix} {
		text, err := os.ReadFile(d.path + suffix)
		must(t, err)
		must(t, os.WriteFile(killed+suffix, text, 0o600))
	}
	if err := put(t.Context(), killed+".missing", killed, journal.DefaultConfig(), backup.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a file that does not exist is put into place: %v", err)
	}
	if _, err := os.Stat(killed + logSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the log of the old file is still there: %v", err)
	}
	if old, err := Open(t.Context(), killed, journal.DefaultConfig()); !errors.Is(err, journal.ErrReplaced) {
		t.Errorf("the old file is opened without its log: %v", err)
		if err == nil {
			must(t, old.Close())
		}
	}
}

// TestOlderMainAfterCleanClose: SQLite brings the main file up to date when the last process closes it. An older copy that
// is put back over that file later is refused below a newer log: by the processes that have it open, and at the next start.
func TestOlderMainAfterCleanClose(t *testing.T) {
	dir := t.TempDir()
	path, cfg := filepath.Join(dir, "j.db"), journal.DefaultConfig()
	shard, alice := sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"}
	shell := func(script string) { // a process that closes a file loses its locks on it
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
	}
	seq := uint64(0)
	commit := func(d *Backend) error {
		seq++
		d.marks.look, d.marks.raise = time.Time{}, time.Time{} // markEvery has passed
		_, err := d.Commit(t.Context(), []journal.Op{{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: alice,
			Records: []sharding.Record{{Seq: seq, Events: []sharding.Event{{Name: "x"}}}}}}})
		return err
	}
	run := func() *Backend {
		t.Helper()
		d, err := Open(t.Context(), path, cfg)
		must(t, err)
		if seq == 0 {
			_, err = d.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}})
			must(t, err)
		}
		must(t, commit(d))
		return d
	}
	must(t, run().Close())
	shell("cp j.db old") // no process has it open: the copy is complete
	must(t, run().Close())
	d := run()
	defer d.Close()
	shell("for s in '' -wal -mark; do cp j.db$s k.db$s; done") // what a kill leaves
	shell("cat old > k.db")
	k, err := Open(t.Context(), filepath.Join(dir, "k.db"), cfg)
	if !errors.Is(err, journal.ErrIdentity) || !errors.Is(err, journal.ErrReplaced) {
		t.Errorf("an older main file below a newer log is opened: %v", err)
	}
	if err == nil {
		_ = k.Close()
	}
	must(t, commit(d))
	shell("cat old > j.db")
	if err := commit(d); !errors.Is(err, journal.ErrBroken) || !errors.Is(err, journal.ErrReplaced) {
		t.Errorf("a commit to an older main file below a newer log: %v", err)
	}
}

// TestOlderCopyDuringABackup: a backup is refused at its end if an older copy was put over the file meanwhile, but not
// because of processes that write meanwhile. Then nothing reads the copy any more.
func TestOlderCopyDuringABackup(t *testing.T) {
	cfg := journal.DefaultConfig()
	path := filepath.Join(t.TempDir(), "j.db")
	d := openBackend(t, path)
	epoch := sharding.Epoch(0)
	commit := func() {
		t.Helper()
		epoch++
		d.marks.look, d.marks.raise = time.Time{}, time.Time{} // markEvery has passed
		_, err := d.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: epoch, Owner: 1}}})
		must(t, err)
	}
	shell := func(script string) { // a process that closes a file loses its locks on it
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "sh", "-e", "-c", script, path).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
	}
	backUp := func(meanwhile func()) error {
		t.Helper()
		s, err := Snapshot(t.Context(), path, cfg)
		must(t, err)
		meanwhile()
		_, err = backup.WriteOne(t.Context(), io.Discard, s, func(int64, int64) {})
		return err
	}
	commit()
	must(t, d.checkpoints.finish())
	shell(`cat "$0" > "$0.old"`)
	commit()
	must(t, d.checkpoints.finish())
	must(t, backUp(commit))
	if err := backUp(func() { shell(`cat "$0.old" > "$0"`) }); !errors.Is(err, journal.ErrReplaced) {
		t.Errorf("an older copy is put over the file during a backup: %v", err)
	}
	if _, err := CheckPages(t.Context(), path, cfg, func(int64, int64) {}); !errors.Is(err, journal.ErrReplaced) {
		t.Errorf("its pages are checked: %v", err)
	}
	if _, err := OpenReader(t.Context(), path, cfg); !errors.Is(err, journal.ErrReplaced) {
		t.Errorf("it is read: %v", err)
	}
}

// TestOlderCopyLooksDamaged: pages of an older copy between newer ones contradict each other. Transactions and reads that
// meet that find the older copy, and do not tell operators to repair what can be put back. Other damage stays damage.
func TestOlderCopyLooksDamaged(t *testing.T) {
	malformed := &sqliteError{code: lib.SQLITE_CORRUPT, text: "database disk image is malformed"}
	meets := map[string]func(*Backend) error{
		"a transaction": func(d *Backend) error {
			return d.transact(t.Context(), func() error { return malformed })
		},
		"a read": func(d *Backend) error {
			err := d.reads.corrupt(malformed)
			for until := time.Now().Add(10 * time.Second); d.broken.Load() == nil && time.Now().Before(until); {
				time.Sleep(time.Millisecond)
			}
			if lost := d.broken.Load(); lost != nil {
				return *lost
			}
			return err
		},
	}
	for name, meet := range meets {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "j.db")
			d, err := Open(t.Context(), path, journal.DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			commit := func(epoch sharding.Epoch) {
				t.Helper()
				d.marks.look, d.marks.raise = time.Time{}, time.Time{} // markEvery has passed
				if _, err := d.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: epoch, Owner: 1}}}); err != nil {
					t.Fatal(err)
				}
				if err := d.checkpoints.finish(); err != nil {
					t.Fatal(err)
				}
			}
			shell := func(script string) { // a process that closes a file loses its locks on it
				t.Helper()
				if out, err := exec.CommandContext(t.Context(), "sh", "-e", "-c", script, path).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", script, err, out)
				}
			}
			commit(1)
			shell(`cat "$0" > "$0.old"`)
			commit(2)
			if name == "a transaction" {
				if err := meet(d); !errors.Is(err, journal.ErrCorrupt) || errors.Is(err, journal.ErrBroken) {
					t.Errorf("damage: %v", err)
				}
			}
			shell(`cat "$0.old" > "$0"`)
			if err := meet(d); !errors.Is(err, journal.ErrBroken) || !errors.Is(err, journal.ErrReplaced) {
				t.Errorf("damage in an older file: %v", err)
			}
		})
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

// TestMainMarkIsSynced: the mark of the main file is not noted while it may be in memory alone: after a power cut, the
// main file would look older than it was.
func TestMainMarkIsSynced(t *testing.T) {
	d := openBackend(t, filepath.Join(t.TempDir(), "j.db"))
	epoch := sharding.Epoch(0)
	commit := func(raise time.Time) {
		t.Helper()
		epoch++
		d.marks.look, d.marks.raise = time.Time{}, raise
		r, err := d.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: epoch, Owner: 1}}})
		if err != nil || r[0].Verdict != sharding.Durable {
			t.Fatal(r, err)
		}
	}
	now, later := time.Time{}, time.Now().Add(time.Hour)
	commit(now)
	must(t, d.checkpoints.finish())
	before := d.marks.read().Main
	commit(now)
	reader, err := d.reads.db.BeginTx(t.Context(), nil) // SQLite syncs only when it has copied all of the log
	must(t, err)
	defer func() { _ = reader.Rollback() }()
	var version uint32
	must(t, reader.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version))
	commit(later)
	if _, err := d.checkpoints.exec(d.checkpoints.passive); err != nil {
		t.Fatal(err)
	}
	commit(later)
	if main, err := d.handle.mainMark(); err != nil || main != version || version <= before {
		t.Fatalf("the main file has the mark %d, want %d: %v", main, version, err)
	}
	if got := d.marks.read().Main; got != before {
		t.Errorf("the mark of the main file was %d, and %d is noted before it is synced", before, got)
	}
	sync, synced := shim.main.sync, 0
	shim.main.sync = func(tls *libc.TLS, file uintptr, flags int32) int32 {
		if d.marks.read().Main == before {
			synced++
		}
		return sync(tls, file, flags)
	}
	defer func() { shim.main.sync = sync }()
	for range 2 {
		must(t, d.checkpoints.noteMain(t.Context(), true))
		if got := d.marks.read().Main; got != version || synced != 1 {
			t.Errorf("after %d syncs, the mark of the main file is noted as %d, want %d after one", synced, got, version)
		}
	}
}

// TestDamagedMark: a damaged first page of the main file does not look like one of an older file.
func TestDamagedMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	d := openBackend(t, path)
	epoch := sharding.Epoch(0)
	commit := func(d *Backend) error {
		epoch++
		d.marks.look, d.marks.raise = time.Time{}, time.Time{} // markEvery has passed
		_, err := d.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: epoch, Owner: 1}}})
		return err
	}
	for range 2 {
		must(t, commit(d))
		must(t, d.checkpoints.finish())
	}
	must(t, commit(d))                                                  // the log has a whole first page
	for _, bit := range []int{8*userVersion + 25, 8*userVersion + 30} { // 2 becomes 0, and 66
		flip(t, path, bit)
		for range 2 {
			if err := commit(d); err != nil {
				t.Fatalf("the mark of the main file is damaged: %v", err)
			}
			must(t, d.checkpoints.noteMain(t.Context(), true))
		}
		flip(t, path, bit)
		must(t, commit(d))
	}
}

// TestMarksOfSeveral: what one handle has noted in the file of marks is not taken back by another one, which has
// read the file before.
func TestMarksOfSeveral(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	must(t, create(path))
	open := func() *marks {
		m, err := openMarks(path)
		must(t, err)
		t.Cleanup(func() { _ = m.close() })
		return m
	}
	a, b := open(), open()
	main := uint32(0)
	sees := func(log uint32) func() (mark, error) {
		return func() (mark, error) { return mark{Generation: 7, Log: log, Main: main}, nil }
	}
	look := func(m *marks, log uint32, meanwhile func()) error {
		_, err := m.check(func() (mark, error) { meanwhile(); return sees(log)() })
		return err
	}
	must(t, look(a, 1, func() {
		must(t, look(b, 3, func() {}))
	}))
	if got := a.read().Log; got != 3 {
		t.Errorf("a look that has begun before takes the mark from 3 to %d", got)
	}

	// A handle waits until another one has changed the file.
	changed := make(chan error, 1)
	a.change(func(highest mark) mark {
		go func() { changed <- look(b, 5, func() {}) }()
		for !b.lock.waits() {
			select {
			case err := <-changed:
				t.Fatal("a change does not wait for another one: ", err)
			case <-time.After(time.Millisecond):
			}
		}
		highest.Log = 4
		return highest
	})
	must(t, <-changed)
	if got := a.read().Log; got != 5 {
		t.Errorf("two changes at the same time leave the mark %d, want 5", got)
	}

	// It does not wait for one that is paused.
	a.change(func(highest mark) mark {
		must(t, look(b, 6, func() {}))
		return b.read()
	})
	for b.lock.waits() {
		time.Sleep(time.Millisecond)
	}

	if err := look(b, 2, func() {}); !errors.Is(err, journal.ErrReplaced) {
		t.Errorf("an older log: %v", err)
	}
	// Its mark stays lower for as long as it is there, also in the main file.
	must(t, look(b, 6, func() {}))
	a.change(func(highest mark) mark { highest.Main = 4; return highest })
	main = 4
	if err := look(a, 6, func() {
		main = 3
		if err := look(b, 6, func() {}); !errors.Is(err, journal.ErrReplaced) {
			t.Errorf("an older main file: %v", err)
		}
		main = 4
	}); err != nil {
		t.Error(err)
	}
	if err := look(b, 6, func() {}); !errors.Is(err, journal.ErrReplaced) {
		t.Errorf("a look that has begun before an older file was found lets it be used: %v", err)
	}
}

// TestMarksOfANewJournal: a process that has a journal open which was removed does not have the one refused that was
// made in its place.
func TestMarksOfANewJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	old, err := Open(t.Context(), path, journal.DefaultConfig())
	must(t, err)
	for _, suffix := range []string{"", logSuffix, sharedSuffix} {
		must(t, os.Remove(path+suffix))
	}
	made, err := Open(t.Context(), path, journal.DefaultConfig())
	must(t, err)
	defer made.Close()
	commit := func(epoch sharding.Epoch) error {
		made.marks.look, made.marks.raise = time.Time{}, time.Time{} // markEvery has passed
		_, err := made.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: epoch, Owner: 1}}})
		return err
	}
	must(t, commit(1))
	must(t, made.checkpoints.finish()) // the old main file has a lower mark
	if err := old.Close(); !errors.Is(err, journal.ErrReplaced) {
		t.Errorf("the file that was removed is closed with: %v", err)
	}
	if err := commit(2); err != nil {
		t.Errorf("the new one: %v", err)
	}
}

// TestMarkOfSeveral: each process raises the mark once in markEvery, also if another one has raised it.
func TestMarkOfSeveral(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	a, b := openBackend(t, path), openBackend(t, path)
	epoch := sharding.Epoch(0)
	for want, d := range []*Backend{a, b, a, b} {
		epoch++
		d.marks.look, d.marks.raise = time.Time{}, time.Time{} // markEvery has passed
		r, err := d.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T"}, Epoch: epoch, Owner: 1}}})
		if err != nil || r[0].Verdict != sharding.Durable {
			t.Fatal(r, err)
		}
		if got := d.marks.read().Log; got != uint32(want+1) {
			t.Errorf("after %d commits the mark is %d", want+1, got)
		}
	}
}
