package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/roost-cluster/roost/libs/journal"
)

const (
	// checkpointPages is the size of the write-ahead log from which it is
	// copied into the main file: 2 MiB. A larger log writes less in total, since
	// pages that change often are copied once per checkpoint, but commits wait
	// while the disk syncs what was copied: 32 MiB gave 10 % more commands and a
	// 99th percentile twice as long.
	checkpointPages = 512
	// checkpointEvery is about how many pages lie between two looks at the log.
	checkpointEvery = 128
	// opPages is how many pages of the log a small operation writes: one with its
	// record, one with its command.
	opPages = 2
	// checkpointPasses is how often at most what came meanwhile is copied while
	// others write. Each pass leaves a fraction of the one before, unless the
	// disk has no room for both.
	checkpointPasses = 4
	// checkpointRest is how many pages may be left for the last part, which
	// holds writers up: about a millisecond of copying and syncing.
	checkpointRest = 64
	// checkpointStall is how long writers may be held up by loads that still
	// read from the log. If one is longer, a checkpoint tries again when the log
	// is twice as long.
	checkpointStall = 10 * time.Millisecond
)

// checkpointer copies the write-ahead log into the main file, beside the
// writers. SQLite's own checkpoint inside a commit never comes to an end while
// several processes write: there is always a new page, the log can never start
// again from its beginning, and grows for ever. So nearly all is copied while the
// others write, in passes that become shorter, and the little that is left with
// the turn in hand, when nobody begins.
type checkpointer struct {
	db     *sql.DB
	conn   *sql.Conn
	turn   *turn
	nudges chan struct{}
	done   chan struct{}
	fail   func(error) error
	from   int // pages of the log from which on it is copied

	look, copyMost, finish *sql.Stmt
	begin, rollback        *sql.Stmt
}

// start makes the checkpointer of b and lets it run until stop.
func (c *checkpointer) start(ctx context.Context, b *Backend) (err error) {
	c.fail, c.from = b.breakDown, checkpointPages
	// A turn of its own: two holders in one process must exclude each other too.
	if c.turn, err = openTurn(b.path + turnSuffix); err != nil {
		return err
	}
	if c.db, err = sql.Open("sqlite", b.dsn(copyVFS, "busy_timeout(5000)", "synchronous(full)")); err != nil {
		return err
	}
	if c.conn, err = c.db.Conn(ctx); err != nil {
		return err
	}
	err = prepareAll(ctx, c.conn, []statement{
		{&c.look, "PRAGMA wal_checkpoint(NOOP)"},
		{&c.copyMost, "PRAGMA wal_checkpoint(PASSIVE)"},
		{&c.finish, "PRAGMA wal_checkpoint(RESTART)"},
		{&c.begin, "BEGIN IMMEDIATE"},
		{&c.rollback, "ROLLBACK"},
	})
	if err != nil {
		return err
	}
	// From here on waiting is our own affair: SQLite does it in steps of
	// milliseconds.
	if _, err := c.conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	c.nudges, c.done = make(chan struct{}, 1), make(chan struct{})
	go c.run()
	return nil
}

// wrote counts what was committed, and asks for a look at the log from time to
// time.
func (b *Backend) wrote(ops []journal.Op) {
	for i := range ops {
		b.unseen += opPages + ops[i].Size()/pageSize
	}
	if b.unseen < checkpointEvery {
		return
	}
	b.unseen = 0
	select {
	case b.checkpoints.nudges <- struct{}{}:
	default:
	}
}

func (c *checkpointer) run() {
	defer close(c.done)
	for range c.nudges {
		if err := c.checkpoint(); err != nil && !harmless(err) {
			_ = c.fail(fmt.Errorf("checkpoint: %w", err))
		}
	}
}

func (c *checkpointer) checkpoint() error {
	l, err := c.do(c.look)
	if err != nil {
		return err
	}
	if l.pages < checkpointPages {
		c.from = checkpointPages // the log has started again
	}
	if l.pages < c.from || l.rest() == 0 {
		return nil
	}
	for pass := 0; l.rest() > checkpointRest && pass < checkpointPasses; pass++ {
		if l, err = c.do(c.copyMost); err != nil || l.busy {
			return err // busy: another process does it
		}
		if l, err = c.do(c.look); err != nil {
			return err
		}
	}
	if l.rest() > checkpointPages/2 {
		c.from = 2 * l.pages // a long load is in the way
		return nil
	}
	return c.last()
}

// last copies what is left and lets the log start again from its beginning,
// while nobody writes.
func (c *checkpointer) last() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.turn.take(ctx); err != nil {
		return err
	}
	defer c.turn.give()
	// Whoever has SQLite's lock once the turn is taken was the last to begin.
	if err := begin(ctx, c.begin); err != nil {
		return err
	}
	if _, err := c.rollback.Exec(); err != nil {
		return c.fail(fmt.Errorf("rollback: %w", err)) // the lock may still be ours
	}
	for until := time.Now().Add(checkpointStall); ; {
		l, err := c.do(c.finish)
		if err != nil || !l.busy {
			return err
		}
		if time.Now().After(until) {
			c.from = 2 * l.pages
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// logState is what a checkpoint tells.
type logState struct {
	busy          bool // something was in the way
	pages, copied int  // of the log, when the checkpoint began
}

func (l logState) rest() int { return l.pages - l.copied }

func (c *checkpointer) do(s *sql.Stmt) (l logState, err error) {
	err = s.QueryRow().Scan(&l.busy, &l.pages, &l.copied)
	return l, err
}

// harmless says whether a checkpoint that failed may simply be tried later. A
// failed fsync is not: what the kernel dropped may be a part of the main file.
func harmless(err error) bool {
	switch code(err) {
	case lib.SQLITE_OK, lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_FULL, lib.SQLITE_NOMEM, lib.SQLITE_INTERRUPT:
		return true
	}
	return false
}

func (c *checkpointer) stop() []error {
	var errs []error
	if c.nudges != nil {
		close(c.nudges)
		<-c.done
	}
	if c.conn != nil {
		errs = append(errs, c.conn.Close())
	}
	if c.db != nil {
		errs = append(errs, c.db.Close())
	}
	if c.turn != nil {
		errs = append(errs, c.turn.close())
	}
	return errs
}

// breakDown makes all further commits fail with the first reason.
func (b *Backend) breakDown(err error) error {
	err = fmt.Errorf("%w: %w", journal.ErrBroken, err)
	b.lost.CompareAndSwap(nil, &err)
	return *b.lost.Load()
}
