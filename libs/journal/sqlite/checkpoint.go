package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/roost-cluster/roost/libs/journal"
)

const (
	// checkpointPages is the size at which the write-ahead log is copied into the main file: 2
	// MiB. A larger log writes less in total, since pages that change often are copied once per
	// checkpoint, but commits wait while the disk syncs the copied pages: 32 MiB gave 10 % more
	// commands and a 99th percentile twice as long.
	checkpointPages = 512
	// checkpointEvery is after about how many pages the size of the log is checked.
	checkpointEvery = 128
	// opPages is the number of pages of the log that a small operation writes: one with its
	// record, one with its command.
	opPages = 2
	// checkpointPasses bounds the passes that copy the log while others write. Each pass leaves
	// a fraction of the pages that the one before left, unless the disk cannot keep up.
	checkpointPasses = 4
	// checkpointRemaining is the largest number of pages that may remain for the last pass,
	// which blocks writers: about a millisecond of copying and syncing.
	checkpointRemaining = 64
	// checkpointStall bounds the time that the last pass may block writers while loads still
	// read from the log. If a load takes longer, the checkpoint is retried when the log is
	// twice as long.
	checkpointStall = 10 * time.Millisecond
	// checkpointRetry is the delay after a first failed checkpoint. It doubles with each
	// further one, up to checkpointRetryMost: each begins at the end of the part that is
	// copied.
	checkpointRetry     = time.Second
	checkpointRetryMost = time.Minute
)

// checkpointer copies the write-ahead log into the main file in the background. SQLite's own
// checkpoint inside a commit never ends while several processes write: there is always a new
// page, the log can never start again from its beginning, and grows forever. So nearly all
// pages are copied while others write, in ever shorter passes, and the last few while holding
// the writers' lock.
type checkpointer struct {
	db         *sql.DB
	conn       *sql.Conn
	handle     handle // of conn
	checkMark  func(context.Context) (mark, error)
	marks      *marks
	place      *place
	rescued    bool // the removed log was copied
	lock       writeLock
	checks     chan struct{}
	damage     chan struct{} // some was met: the mark is to be checked
	done       chan struct{}
	markBroken func(error) error
	threshold  int                         // size of the log, in pages, at which it is copied
	notify     atomic.Pointer[func(error)] // see journal.Upkeep

	state, passive, restart *sql.Stmt
	begin, rollback         *sql.Stmt
}

// start initialises the checkpointer of d and runs it until stop.
func (c *checkpointer) start(ctx context.Context, d *Backend) (err error) {
	c.markBroken, c.threshold = d.markBroken, checkpointPages
	// Handles of its own: two holders in one process must exclude each other too.
	queue, err := openLock(d.path + queueSuffix)
	if err != nil {
		return err
	}
	if c.lock, err = openWriteLock(d.path, queue); err != nil {
		return err
	}
	if c.db, err = sql.Open("sqlite", dsn(d.path, copyVFS, "rw", "busy_timeout(5000)", "synchronous(full)")); err != nil {
		return err
	}
	if c.conn, err = c.db.Conn(ctx); err != nil {
		return err
	}
	if err := prepareAll(ctx, c.conn, c.statements()); err != nil {
		return err
	}
	if c.handle, err = handleOf(c.conn); err != nil {
		return err
	}
	c.marks, c.place = d.marks, d.place
	c.checkMark = func(ctx context.Context) (mark, error) {
		seen, err := d.marks.check(func() (mark, error) { return readMark(ctx, c.conn, &c.handle, d.generation) })
		if errors.Is(err, journal.ErrReplaced) {
			err = d.markBroken(err)
		}
		return seen, err
	}
	// SQLite has brought the main file up to date when the last process closed it, and noted nothing. Without this, an
	// older main file below a newer log would not be recognized until the next checkpoint.
	//mutant:skip main-mark-at-open
	if err := c.noteMain(ctx, true); err != nil {
		return err
	}
	// From here on pause does the waiting: SQLite would wait in steps of
	// milliseconds.
	if _, err := c.conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	c.checks, c.damage, c.done = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	go c.run()
	return nil
}

func (c *checkpointer) statements() []statement {
	return []statement{
		{&c.state, "PRAGMA wal_checkpoint(NOOP)"},
		{&c.passive, "PRAGMA wal_checkpoint(PASSIVE)"},
		{&c.restart, "PRAGMA wal_checkpoint(RESTART)"},
		{&c.begin, "BEGIN IMMEDIATE"},
		{&c.rollback, "ROLLBACK"},
	}
}

// countPages counts the pages written by a commit, and requests a check of the log
// after every checkpointEvery pages.
func (d *Backend) countPages(ops []journal.Op) {
	for i := range ops {
		d.pagesSinceCheck += opPages + ops[i].Size()/pageSize
	}
	if d.pagesSinceCheck < checkpointEvery {
		return
	}
	d.pagesSinceCheck = 0
	select {
	case d.checkpoints.checks <- struct{}{}:
	default:
	}
}

// metDamage has the mark checked, because pages of an older copy between newer ones look like damage.
func (c *checkpointer) metDamage() {
	select {
	case c.damage <- struct{}{}:
	default:
	}
}

// errOthers is returned by a checkpoint while another process makes one.
var errOthers = errors.New("another process copies the log")

// run makes the checkpoints that are due. After one that failed it waits for a while,
// and tries again without being asked: the reason may go away, and if it does not, the
// log grows, but nothing else suffers. It says so, and when a checkpoint succeeds again.
func (c *checkpointer) run() {
	defer close(c.done)
	look := time.NewTicker(placeEvery)
	defer look.Stop()
	var delay time.Duration // before the next one, 0 if the last one did not fail
	var retry <-chan time.Time
	for {
		select {
		case _, open := <-c.checks:
			if !open {
				c.watchLog() // a process that noticed first while it committed may end before the next look
				return
			}
			if delay > 0 {
				continue
			}
		case <-c.damage:
			_, _ = c.checkMark(context.Background()) // an older copy breaks the store; another error is met again
			continue
		case <-look.C:
			c.watchLog()
			continue
		case <-retry:
		}
		err := c.checkpoint()
		switch {
		case err == nil && delay > 0:
			delay, retry = 0, nil
			c.report(nil)
			continue
		case err != nil && !contended(err) && !retryable(err):
			_ = c.markBroken(fmt.Errorf("checkpoint: %w", err))
		case err != nil && !contended(err):
			delay = min(max(2*delay, checkpointRetry), checkpointRetryMost)
			c.report(fmt.Errorf("the log cannot be copied into the main file, and grows until it can; check the disk: %w", err))
		}
		if delay > 0 {
			retry = time.After(delay)
		}
	}
}

func (c *checkpointer) report(err error) {
	if f := c.notify.Load(); f != nil {
		(*f)(err)
	}
}

func (c *checkpointer) checkpoint() error {
	l, err := c.exec(c.state)
	if err != nil {
		return err
	}
	if l.pages < checkpointPages {
		c.threshold = checkpointPages // the log has started again
	}
	if l.pages < c.threshold || l.remaining() == 0 {
		return nil
	}
	ctx := context.Background()
	// Pages copied into an older main file would hide that it is older.
	if _, err := c.checkMark(ctx); err != nil {
		return err
	}
	for pass := 0; l.remaining() > checkpointRemaining && pass < checkpointPasses; pass++ {
		if l, err = c.exec(c.passive); err != nil {
			return err
		}
		if err := c.noteMain(ctx, true); err != nil {
			return err
		}
		if l.busy {
			return errOthers
		}
		if l, err = c.exec(c.state); err != nil {
			return err
		}
	}
	if l.remaining() > checkpointPages/2 {
		c.threshold = 2 * l.pages // a long load prevents progress
		return nil
	}
	return c.finish()
}

// watchLog copies the log into the main file if it was removed, and has this process end.
func (c *checkpointer) watchLog() {
	_, lost := c.place.lostLog()
	// The log of a file that was restored is not needed.
	if lost == nil || c.rescued || c.place.mainReplaced() != nil { //mutant:true log-watch
		return
	}
	err := c.rescue()
	if c.rescued = err == nil; err != nil {
		c.report(fmt.Errorf("%w; it could not be copied yet: %w", lost, err))
	}
	_ = c.markBroken(lost)
}

// rescue copies a removed log into the main file, unless other processes may use that file with another log: the pages
// of two logs must not be mixed. No process opens the file meanwhile, because it needs the queue for that.
func (c *checkpointer) rescue() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.lock.lock(ctx); err != nil {
		return err
	}
	defer c.lock.unlock()
	if !c.lock.holdsWriter {
		return errOthers
	}
	if other, _ := c.place.lostLog(); other { //mutant:false other-log
		return errors.New("another log is in its place")
	}
	if err := c.place.mainReplaced(); err != nil {
		return err
	}
	if _, err := c.checkMark(ctx); err != nil {
		return err
	}
	if err := c.finish(); err != nil {
		return err
	}
	if l, err := c.exec(c.state); err != nil || l.remaining() > 0 {
		return errors.Join(errOthers, err)
	}
	return nil
}

// finish copies the remaining pages and makes the log start again from its
// beginning, while no other process can write.
func (c *checkpointer) finish() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.lock.lock(ctx); err != nil {
		return err
	}
	defer c.lock.unlock()
	if err := begin(ctx, func(...any) error { _, err := c.begin.Exec(); return err }); err != nil {
		return err
	}
	if _, err := c.rollback.Exec(); err != nil {
		return c.markBroken(fmt.Errorf("rollback: %w", err)) // this process may still hold the lock
	}
	for until := time.Now().Add(checkpointStall); ; {
		l, err := c.exec(c.restart)
		if err == nil && !l.busy {
			return c.noteMain(ctx, false) // before the log is written from its beginning; SQLite has synced the copied pages
		}
		if err != nil {
			return err
		}
		if time.Now().After(until) {
			c.threshold = 2 * l.pages
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// noteMain compares the journal with the highest marks, and raises the mark of the main file after a checkpoint. If
// sync is set, it syncs the file first: SQLite syncs only when it has copied all of the log, and a mark that was noted
// before a sync could cause the journal to be refused after a power cut. The mark rises once in markEvery for each
// process, which limits the cost.
func (c *checkpointer) noteMain(ctx context.Context, sync bool) error {
	seen, err := c.checkMark(ctx)
	if err != nil || seen.Main == unreadMark || seen.Main <= c.marks.read().Main {
		return err
	}
	if sync { //mutant:false marks-synced
		if err := c.handle.syncMain(); err != nil {
			return err
		}
	}
	c.marks.change(func(highest mark) mark { return highest.raised(seen) })
	return nil
}

// logState is the result of a checkpoint pragma.
type logState struct {
	busy          bool // a lock could not be taken
	pages, copied int  // of the log, when the checkpoint began
}

func (l logState) remaining() int { return l.pages - l.copied }

func (c *checkpointer) exec(s *sql.Stmt) (l logState, err error) {
	err = s.QueryRow().Scan(&l.busy, &l.pages, &l.copied)
	return l, err
}

// contended reports whether a checkpoint was not made because of other connections, or because
// it took too long. That is not an error: the next one is made when it is due.
func contended(err error) bool {
	switch code(err) {
	case lib.SQLITE_OK, lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_INTERRUPT:
		return true
	}
	return false
}

// retryable reports whether a failed checkpoint may be tried again. SQLite counts nothing
// as copied that was not written and synced, so a page that cannot be read or written is
// copied again. A failed fsync is different: the kernel may have dropped a part of the
// main file, and report success the next time.
func retryable(err error) bool {
	var e interface{ Code() int }
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() {
	case lib.SQLITE_FULL, lib.SQLITE_NOMEM, lib.SQLITE_IOERR_READ, lib.SQLITE_IOERR_SHORT_READ, lib.SQLITE_IOERR_WRITE:
		return true
	}
	return false
}

func (c *checkpointer) stop() []error {
	var errs []error
	if c.checks != nil {
		close(c.checks)
		<-c.done
	}
	errs = append(errs, closeStatements(c.statements())...)
	if c.handle.tls != nil {
		// Otherwise the last connection to close removes that log, too, with what its processes have acknowledged.
		if c.place.otherLogWritten() { //mutant:false other-log-closed
			errs = append(errs, c.handle.leaveLog())
		}
	}
	c.handle.close()
	if c.conn != nil {
		errs = append(errs, c.conn.Close())
	}
	if c.db != nil {
		errs = append(errs, c.db.Close())
	}
	return append(errs, c.lock.close())
}

// markBroken makes all further commits fail with the first reason.
func (d *Backend) markBroken(err error) error {
	if !errors.Is(err, journal.ErrBroken) {
		err = fmt.Errorf("%w: %w", journal.ErrBroken, err)
	}
	d.broken.CompareAndSwap(nil, &err)
	return *d.broken.Load()
}
