package sqlite

import (
	"context"
	"errors"
	"time"
)

const (
	// queueSuffix is appended to the path for the file that is locked by the writer which waits for the active one.
	// The other writers wait for this lock.
	queueSuffix = "-turn"
	// writerSuffix is appended to the path for the file that is locked by the active writer.
	writerSuffix = "-write"
	// turnPatience bounds the time that a writer waits for its turn before it continues without: long compared
	// with the time that the writers before it need on a slow disk, short compared with
	// [journal.Config.CommitTimeout].
	turnPatience = time.Second
)

// writeLock is held by a connection while it writes: see "Writers" in the package comment. It
// is used by one caller at a time.
type writeLock struct {
	queue, writer           *fileLock
	holdsQueue, holdsWriter bool
	patience                time.Duration
	// late: the turn did not come within patience. The kernel also gives it to a paused process, and
	// then no writer gets a turn until that process continues or dies.
	late bool
}

// openWriteLock opens the lock of the journal at path, which exists, for one connection.
func openWriteLock(path string, queue *fileLock) (w writeLock, err error) {
	w.queue, w.patience = queue, turnPatience
	if w.writer, err = openLock(path + writerSuffix); err != nil {
		return w, err
	}
	return w, ownLike(path+writerSuffix, path)
}

// lock waits until the writers before this one have ended. It does nothing if this one holds the lock already.
//
// If the turn does not come in time, the caller continues without it: SQLite's own lock keeps two from writing
// at once. Until the turn has come, later calls do not wait for it again. They pause, so that a process that
// has just written does not always get SQLite's lock again before the others.
func (w *writeLock) lock(ctx context.Context) error {
	if w.holdsWriter {
		return nil
	}
	if w.late = w.late && (w.queue.waits() || w.writer.waits()); w.late {
		return pause(ctx)
	}
	turn, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	err := w.await(turn)
	if err != nil && turn.Err() != nil && ctx.Err() == nil {
		w.late = true
		return nil
	}
	return err
}

// await waits for the turn.
func (w *writeLock) await(ctx context.Context) error {
	if err := w.queue.lock(ctx); err != nil {
		return err
	}
	w.holdsQueue = true
	if err := w.writer.lock(ctx); err != nil {
		w.unlock()
		return err
	}
	w.holdsWriter = true
	return nil
}

// begun is called when SQLite's lock is held, or will not be: the next writer in the queue then waits for this one.
func (w *writeLock) begun() {
	if w.holdsQueue {
		w.holdsQueue = false
		w.queue.unlock()
	}
}

// unlock lets the next one write.
func (w *writeLock) unlock() {
	w.begun()
	if w.holdsWriter {
		w.holdsWriter = false
		w.writer.unlock()
	}
}

func (w *writeLock) close() error {
	var errs []error
	for _, l := range []*fileLock{w.queue, w.writer} {
		if l != nil {
			errs = append(errs, l.close())
		}
	}
	return errors.Join(errs...)
}
