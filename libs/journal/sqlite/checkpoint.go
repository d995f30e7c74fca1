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
	// copied into the main file: 32 MiB. Pages that change often are copied
	// once per checkpoint, so a larger log writes less in total.
	checkpointPages = 8192
	// checkpointEvery is how many commits lie between two looks at the log.
	checkpointEvery = 8
	// checkpointStall is how long writers may be held up by the last part of a
	// checkpoint. If a long load is in the way, the next one tries again.
	checkpointStall = 50 * time.Millisecond
)

// checkpointer copies the write-ahead log into the main file, beside the
// writers. SQLite's own checkpoint inside a commit never comes to an end while
// several processes write: there is always a new page, the log can never start
// again from its beginning, and grows for ever. So most is copied while the
// others write, and the little that came meanwhile with the turn in hand, when
// nobody begins.
type checkpointer struct {
	db     *sql.DB
	turn   *turn
	nudges chan struct{}
	done   chan struct{}
	fail   func(error) error

	look, copyMost, finish *sql.Stmt
}

// start makes the checkpointer of b and lets it run until stop.
func (c *checkpointer) start(ctx context.Context, b *Backend) (err error) {
	c.fail = b.breakDown
	// A turn of its own: two holders in one process must exclude each other too.
	if c.turn, err = openTurn(b.path + turnSuffix); err != nil {
		return err
	}
	if c.db, err = sql.Open("sqlite", b.dsn(fmt.Sprintf("busy_timeout(%d)", checkpointStall.Milliseconds()), "synchronous(full)")); err != nil {
		return err
	}
	c.db.SetMaxOpenConns(1)
	err = prepareAll(ctx, c.db, []statement{
		{&c.look, "PRAGMA wal_checkpoint(NOOP)"},
		{&c.copyMost, "PRAGMA wal_checkpoint(PASSIVE)"},
		{&c.finish, "PRAGMA wal_checkpoint(RESTART)"},
	})
	if err != nil {
		return err
	}
	c.nudges, c.done = make(chan struct{}, 1), make(chan struct{})
	go c.run()
	return nil
}

// nudge asks for a look at the log.
func (c *checkpointer) nudge() {
	select {
	case c.nudges <- struct{}{}:
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
	if pages, _, err := c.do(c.look); err != nil || pages < checkpointPages {
		return err
	}
	if _, busy, err := c.do(c.copyMost); err != nil || busy {
		return err // busy: another process does it
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := c.turn.take(ctx); err != nil {
		return err
	}
	defer c.turn.give()
	_, _, err := c.do(c.finish)
	return err
}

// do runs a checkpoint and returns how many pages the log holds, and whether
// something was in the way.
func (c *checkpointer) do(s *sql.Stmt) (pages int, busy bool, err error) {
	var copied int
	err = s.QueryRow().Scan(&busy, &pages, &copied)
	return pages, busy, err
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
