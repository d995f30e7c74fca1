package journaltest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Backups is a store that can be backed up and restored.
type Backups struct {
	Open    func() (journal.Backend, error)
	Backup  func(out io.Writer, progress func(done, total int64)) (backup.Header, error)
	Restore func(r *backup.Reader, o backup.Options) (backup.Restored, error)
	// Lose removes the journal altogether. It is called while the journal is not open.
	Lose func() error
}

// later is an epoch that the cluster assigns after the backup.
const later = sharding.Epoch(9<<32 | 4)

// restoredTerm is the term of the fences after the restore of a journal that was at epoch
// later.
const restoredTerm = 9 + journal.RestoreTerms

// RunBackups tests the backups of a store.
func RunBackups(t *testing.T, make func(*testing.T) Backups) {
	t.Run("RestoreOverLiveProcesses", func(t *testing.T) { restoresOverLive(t, make(t)) })
	t.Run("RestoreOfALostJournal", func(t *testing.T) { restoresLost(t, make(t)) })
	t.Run("Damaged", func(t *testing.T) { restoresDamaged(t, make(t)) })
	t.Run("Live", func(t *testing.T) { backsUpLive(t, make(t)) })
}

// stored makes a journal with something of everything, and takes a backup of it.
func stored(t *testing.T, s Backups) (*env, backup.Header, []byte) {
	t.Helper()
	d, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	e := &env{T: t, b: d}
	if _, err := d.Declare(e.Context(), journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Account", Shards: 8}}}); err != nil {
		t.Fatal(err)
	}
	e.one(durable, claim(shard, epoch, 1))
	e.want(verdicts{durable, durable}, add(alice, records(1, "a", "b")...), add(bob, records(1, "c")...))
	e.one(durable, snapshot(epoch, bob, 1, "state"))
	var out bytes.Buffer
	before := time.Now()
	h, err := s.Backup(&out, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	if h.Taken.Before(before.Add(-time.Second)) || h.Taken.After(time.Now().Add(time.Second)) {
		t.Errorf("the backup was taken at %v, want about %v", h.Taken, before)
	}
	all, size, err := backup.Check(bytes.NewReader(out.Bytes()))
	if err != nil || len(all) != 1 {
		t.Fatalf("the file has %+v: %v", all, err)
	}
	again := all[0]
	if size == 0 || again.Facts.Generation != h.Facts.Generation || again.Facts.MaxEpoch != epoch || again.Facts.Cluster != "blue" || !again.Taken.Equal(h.Taken) {
		t.Fatalf("the file says %+v (%d bytes), want %+v: %v", again, size, h, err)
	}
	return e, h, out.Bytes()
}

// restore restores a backup file.
func restore(s Backups, file []byte, o backup.Options) (backup.Restored, error) {
	r, err := backup.NewReader(bytes.NewReader(file))
	if err != nil {
		return backup.Restored{}, err
	}
	return s.Restore(r, o)
}

// restoresOverLive replaces a journal that a process has open, which is then shut out.
func restoresOverLive(t *testing.T, s Backups) {
	e, h, file := stored(t, s)
	old := e.b
	e.one(durable, claim(shard, later, 2)) // what is lost
	e.want(verdicts{durable, durable}, appendAt(later, alice, record(3, "d")), appendAt(later, carol, record(1, "e")))
	for _, refused := range []struct {
		o    backup.Options
		says string
	}{
		{backup.Options{}, "--in-use"}, {backup.Options{Replace: true}, "--in-use"}, {backup.Options{InUse: true}, "--replace"}, {backup.Options{InUse: true, DryRun: true}, "--replace"},
	} {
		if _, err := restore(s, file, refused.o); !errors.Is(err, backup.ErrRefused) || !strings.Contains(err.Error(), refused.says) {
			t.Errorf("restored with %+v: %v, want an error that says %q", refused.o, err, refused.says)
		}
	}
	told := backup.Options{Replace: true, InUse: true, DryRun: true}
	if r, err := restore(s, file, told); err != nil || r.Facts.MaxEpoch.Term() != restoredTerm || r.Replaced.Facts.MaxEpoch != later || !r.Replaced.Stored {
		t.Fatalf("a dry run: %+v, %v", r, err)
	}
	e.one(durable, appendAt(later, alice, record(4, "f"))) // it has changed nothing
	told.DryRun = false
	r, err := restore(s, file, told)
	if err != nil || r.Facts.Generation == h.Facts.Generation || r.NextTerm() != restoredTerm+1 {
		t.Fatalf("restored: %+v, %v", r, err)
	}
	for until := time.Now().Add(time.Minute); ; {
		if _, err = old.Commit(e.Context(), []journal.Op{appendAt(later, alice, record(5, "g"))}); errors.Is(err, journal.ErrReplaced) && errors.Is(err, journal.ErrBroken) {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("the process that had it open may still write: %v", err)
		}
	}
	if _, err := old.Load(e.Context(), journal.LoadRequest{Entity: alice}); !errors.Is(err, journal.ErrReplaced) {
		t.Errorf("the process that had it open may still read: %v", err)
	}
	_ = old.Close()
	checkRestored(e, s, r)
}

// restoresLost restores a journal where there is none, which needs no permission.
func restoresLost(t *testing.T, s Backups) {
	e, _, file := stored(t, s)
	if err := errors.Join(e.b.Close(), s.Lose()); err != nil {
		t.Fatal(err)
	}
	if r, err := restore(s, file, backup.Options{DryRun: true}); err != nil || r.Replaced.Stored {
		t.Fatalf("a dry run: %+v, %v", r, err)
	}
	r, err := restore(s, file, backup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e.equal("the term of the fences", r.Facts.MaxEpoch.Term(), sharding.Term(7+journal.RestoreTerms))
	checkRestored(e, s, r)
	// Once more: the terms go on, and something is there.
	if _, err := restore(s, file, backup.Options{}); !errors.Is(err, backup.ErrRefused) {
		t.Errorf("restored over a journal: %v", err)
	}
	_ = e.b.Close()
	if again, err := restore(s, file, backup.Options{Replace: true}); err != nil || again.NextTerm() <= r.NextTerm() || again.Facts.Generation == r.Facts.Generation {
		t.Errorf("restored again: %+v, %v; the first one was %+v", again, err, r)
	}
}

// checkRestored checks that the backup of stored is there, and that nothing at an epoch of before
// the restore has an effect.
func checkRestored(e *env, s Backups, r backup.Restored) {
	e.Helper()
	var err error
	if e.b, err = s.Open(); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = e.b.Close() })
	f, err := e.b.Declare(e.Context(), journal.Declaration{})
	if err != nil || f.Generation != r.Facts.Generation || f.MaxEpoch != r.Facts.MaxEpoch || f.Cluster != "blue" || len(f.Types) != 1 || f.Format != journal.Format {
		e.Fatalf("the restored journal is %+v, want %+v: %v", f, r.Facts, err)
	}
	e.equal("alice", e.load(alice, "a", "b", "d").LastSeq, uint64(2))
	e.equal("the keys of alice", len(e.load(alice, "a", "b", "d").Stored), 2)
	e.equal("bob", string(e.load(bob).Snapshot.Payload), "state")
	e.equal("carol", e.load(carol).LastSeq, uint64(0))
	for _, old := range []journal.Op{claim(shard, epoch, 1), claim(shard, later, 2), claim(shard, later+1, 3), add(alice, record(3, "x")), appendAt(later, alice, record(3, "x")), fence(shard, epoch), fence(shard, later)} {
		e.equal("the fence", e.one(byEpoch, old).Fence, sharding.Fence{Epoch: r.Facts.MaxEpoch})
	}
	next := sharding.MakeEpoch(r.NextTerm(), 1)
	e.one(durable, claim(shard, next, 4))
	e.want(verdicts{byID, durable, durable}, appendAt(next, bob, record(2, "c")), appendAt(next, alice, record(3, "d")), appendAt(next, carol, record(1, "e")))
	e.equal("carol", e.load(carol).LastSeq, uint64(1))
	e.equal("alice", e.load(alice).LastSeq, uint64(3))
}

// restoresDamaged: a file that is cut off or changed restores nothing.
func restoresDamaged(t *testing.T, s Backups) {
	e, _, file := stored(t, s)
	flipped := bytes.Clone(file)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{"cut off": file[:len(file)-1], "cut off after a part": file[:len(file)*2/3], "changed": flipped} {
		if _, err := restore(s, bad, backup.Options{Replace: true, InUse: true}); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("a file that is %s was restored: %v", name, err)
		}
		if _, err := restore(s, bad, backup.Options{Replace: true, InUse: true, DryRun: true}); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("a dry run with a file that is %s: %v", name, err)
		}
	}
	e.one(durable, add(alice, record(3, "d"))) // nothing has changed
	h, err := backup.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	cluster, store := h.Header(), h.Header()
	cluster.Facts.Cluster, store.Store = "green", "tape"
	for _, refused := range []struct {
		h    backup.Header
		is   error
		says string
	}{{cluster, journal.ErrIdentity, `"green"`}, {store, backup.ErrRefused, "tape"}} {
		var out bytes.Buffer
		if w, err := backup.NewWriter(&out, refused.h); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		_, err := restore(s, out.Bytes(), backup.Options{Replace: true, InUse: true})
		if !errors.Is(err, refused.is) || !strings.HasPrefix(err.Error(), "restore journal ") || !strings.Contains(err.Error(), refused.says) {
			t.Errorf("the backup of %s is restored: %v", refused.says, err)
		}
	}
}

// backsUpLive takes backups while entities are written: each has all that was stored before it
// began, and of the rest a part as of one moment.
func backsUpLive(t *testing.T, s Backups) {
	e, _, _ := stored(t, s)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan uint64) // the number of alice's last stored record
	begin := make(chan struct{})
	go func() {
		seq := uint64(2)
		for ; ctx.Err() == nil; seq++ {
			// Both in one transaction: a backup has both, or neither.
			if r, err := e.b.Commit(t.Context(), []journal.Op{add(alice, blank(seq+1)), add(carol, blank(seq-1))}); err != nil || r[0].Verdict != durable || r[1].Verdict != durable {
				t.Errorf("commit: %v, %v", r, err)
				break
			}
			if seq == 20 {
				close(begin)
			}
		}
		done <- seq
	}()
	<-begin
	var files [][]byte
	for range 3 {
		var out bytes.Buffer
		if _, err := s.Backup(&out, func(int64, int64) {}); err != nil {
			t.Error(err)
		}
		files = append(files, out.Bytes())
	}
	stop()
	last := <-done
	_ = e.b.Close()
	for _, file := range files {
		if _, err := restore(s, file, backup.Options{Replace: true}); err != nil {
			t.Fatal(err)
		}
		d, err := s.Open()
		if err != nil {
			t.Fatal(err)
		}
		e.b = d
		a, c := e.load(alice).LastSeq, e.load(carol).LastSeq
		if a < 20 || a > last || a != c+2 {
			t.Errorf("the backup has %d records of alice and %d of carol, of %d that were stored", a, c, last)
		}
		_ = d.Close()
	}
}
