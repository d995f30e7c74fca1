package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/roost-cluster/roost/libs/journal"
)

// Commit implements [journal.Backend].
func (d *Backend) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	t := newTx(d)
	var results []journal.Result
	err := d.transact(ctx, func() (err error) {
		if err := d.checkCache(); err != nil {
			return err
		}
		if results, err = journal.Decide(ops, t); err == nil && t.free > 0 {
			err = d.freePages(t.free)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d.confirmCache()
	t.cacheIDs()
	d.countPages(ops)
	journal.StoredAt(results, ops, t.now.Wall)
	return results, nil
}

// Declare implements [journal.Backend].
func (d *Backend) Declare(ctx context.Context, decl journal.Declaration) (journal.Facts, error) {
	var facts journal.Facts
	var refused error
	err := d.transact(ctx, func() error {
		stored, err := readFacts(ctx, d.conn, decl.Cluster == "")
		if err != nil {
			return err
		}
		if refused = stored.CheckOpened(d.generation); refused != nil {
			return nil
		}
		if facts, refused = stored.Merge(decl); refused != nil {
			return nil
		}
		return writeFacts(ctx, d.conn, stored, facts)
	})
	if err = errors.Join(err, refused); err != nil {
		return journal.Facts{}, err
	}
	return facts, nil
}

// transact runs f in a transaction and commits it. The context ends the wait for the
// lock, never the transaction itself: interrupting that would gain nothing.
func (d *Backend) transact(ctx context.Context, f func() error) error {
	defer d.lock.unlock()
	if lost := d.broken.Load(); lost != nil {
		return *lost
	}
	if err := d.stillThere(); err != nil {
		return err
	}
	if err := d.beginWrite(ctx); err != nil {
		return d.classify(err)
	}
	before := d.handle.changes()
	err := f()
	if damaged(err) {
		err = d.corrupt(err)
		// Old and new pages contradict each other, too. Who takes that for damage repairs it, and loses what can be put back.
		//mutant:false older-damage
		if _, older := d.checkMark(context.Background()); errors.Is(older, journal.ErrReplaced) {
			err = d.classify(fmt.Errorf("%w: %w", journal.ErrBroken, older))
		}
	} else {
		var raised mark
		if err == nil {
			raised, err = d.raiseMark(d.handle.changes() != before)
		}
		if err == nil {
			err = d.write.commit.Exec()
		}
		if err == nil {
			d.noteMark(raised)
			return d.stillThere()
		}
		err = d.classify(err)
	}
	// After some errors SQLite has rolled back already; it then refuses this
	// rollback, which is fine.
	rollback := d.write.rollback.Exec()
	if code(rollback) != lib.SQLITE_OK && code(rollback) != lib.SQLITE_ERROR {
		return d.markBroken(fmt.Errorf("rollback: %w", rollback))
	}
	return err
}

// stillThere looks at the path before and after a transaction, if a look is due. After it, because
// the process may have been paused in it: if the journal was restored meanwhile, the process must
// not report anything as stored.
func (d *Backend) stillThere() error {
	if err := d.place.check(); err != nil {
		return d.classify(err)
	}
	return nil
}

// LockWrites implements [journal.WriteLocker].
func (d *Backend) LockWrites(ctx context.Context) error { return d.lock.lock(ctx) }

// UnlockWrites implements [journal.WriteLocker].
func (d *Backend) UnlockWrites() { d.lock.unlock() }

// beginWrite begins a write transaction. It waits for the writers before it, and then for SQLite's
// lock. The queue is held until SQLite's lock is, so that one process at a time polls for that.
func (d *Backend) beginWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.lock.lock(ctx); err != nil {
		return err
	}
	defer d.lock.begun()
	return begin(ctx, d.write.begin.Exec)
}

// begin waits for SQLite's lock. The caller holds the writers' locks, so there is something to
// wait for only if a program has SQLite's lock that does not take those.
func begin(ctx context.Context, try func(...any) error) error {
	for {
		err := try()
		if !busy(err) {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits for lockPoll.
func pause(ctx context.Context) error {
	timer := time.NewTimer(lockPoll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// classify wraps the error of a transaction in what it means for the batch.
//
// A full disk is certain: the last thing that a commit writes is the frame that makes it one,
// and that frame was not written completely. A failed fsync comes after that frame: in this
// process the transaction did not happen, after a crash it may have, and what the kernel
// dropped is unknown. So every I/O error ends the process, and so does damage that keeps a
// transaction from beginning or from being committed, which is damage of the first page. Damage
// that its operations meet concerns them alone: see corrupt.
func (d *Backend) classify(err error) error {
	if errors.Is(err, journal.ErrBroken) {
		d.broken.CompareAndSwap(nil, &err)
		return err
	}
	switch code(err) {
	case lib.SQLITE_OK: // not an error of SQLite: the context ended
		return fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_NOMEM, lib.SQLITE_INTERRUPT:
		return fmt.Errorf("%w: %w", journal.ErrNotCommitted, err)
	case lib.SQLITE_FULL:
		return fmt.Errorf("%w: %w", journal.ErrFull, err)
	}
	return d.markBroken(err)
}

// damaged reports whether an error means that a page has wrong content, or cannot be read.
func damaged(err error) bool {
	c := code(err)
	return c == lib.SQLITE_CORRUPT || c == lib.SQLITE_NOTADB
}

// corrupt returns an error about damage that names the pages and the remedy.
func (d *Backend) corrupt(err error) error { return corrupt(d.path, d.file, err) }

func corrupt(path, file string, err error) error {
	pages := damagedPages(file)
	if pages == "" {
		pages = "no page fails its checksum: what is in them contradicts itself"
	}
	return fmt.Errorf("%w: %w; %s; restore %s from a copy", journal.ErrCorrupt, err, pages, path)
}

// code returns the primary SQLite result code of an error, SQLITE_OK if it has none.
func code(err error) int {
	var e interface{ Code() int }
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return lib.SQLITE_OK
}

func busy(err error) bool {
	c := code(err)
	return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED
}
