package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// queueSuffix is appended to the path for the file that queues the writers.
	queueSuffix = "-turn"
	// lockPoll is the delay between two attempts to take a lock that another process
	// holds: short compared with an fsync, long compared with a system call.
	lockPoll = 300 * time.Microsecond
	// readBusy is how long a reader waits for a lock. Readers wait only while
	// another process opens, closes or recovers the file.
	readBusy = 5 * time.Second
	// cacheKiB is the page cache of a connection. Another process's commit
	// empties it, so more would not help much.
	cacheKiB = 8192
	pageSize = 4096
	// idCache is how many entity numbers a writer remembers.
	idCache = 1 << 17
)

// Backend is one process's handle on a journal file.
type Backend struct {
	path    string
	file    string // path without symbolic links
	cfg     journal.Config
	queue   *writeQueue
	writeDB *sql.DB
	conn    *sql.Conn // the only one that writes
	write   writeStmts
	readDB  *sql.DB
	read    readStmts
	// ids caches the numbers of entities, which never change.
	ids   map[sharding.Entity]int64
	clock journal.Timekeeper
	// broken is set once the store can no longer be trusted.
	broken          atomic.Pointer[error]
	checkpoints     checkpointer
	pagesSinceCheck int // approximate pages written since the log was last checked
	closing         sync.Once
}

// Open opens or makes the journal file at path, its folder included. The files
// are readable by their owner only. Of cfg, the dedupe limits and Loads matter.
func Open(path string, cfg journal.Config) (*Backend, error) {
	b, err := open(path, cfg)
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	return b, nil
}

func open(path string, cfg journal.Config) (*Backend, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	b := &Backend{path: path, cfg: cfg, ids: map[sharding.Entity]int64{}, clock: journal.NewTimekeeper(journal.SystemClock())}
	if b.queue, err = openWriteQueue(path + queueSuffix); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), cfg.CommitTimeout)
	defer cancel()
	if err := b.queue.lock(ctx); err != nil {
		return nil, errors.Join(err, b.queue.close())
	}
	defer b.queue.unlock()
	if err := b.connect(ctx); err != nil {
		return nil, errors.Join(err, b.closeAll())
	}
	return b, nil
}

// connect opens the connections. The caller holds the queue, so that no other
// process creates the file at the same time.
func (b *Backend) connect(ctx context.Context) error {
	if err := RegisterVFS(); err != nil {
		return err
	}
	if err := create(b.path); err != nil {
		return err
	}
	var err error
	if b.file, err = filepath.EvalSymlinks(b.path); err != nil { // as SQLite names it
		return err
	}
	if b.writeDB, err = sql.Open("sqlite", b.dsn(VFS, "busy_timeout(5000)", fmt.Sprintf("page_size(%d)", pageSize), "journal_mode(wal)", "synchronous(full)", "wal_autocheckpoint(0)", "cache_spill(0)")); err != nil {
		return err
	}
	b.writeDB.SetMaxOpenConns(1)
	if b.conn, err = b.writeDB.Conn(ctx); err != nil {
		return err
	}
	if err := b.makeSchema(ctx); err != nil {
		return err
	}
	// From here on beginWrite waits for the lock, not SQLite.
	if _, err := b.conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	if err := b.write.prepare(ctx, b.conn); err != nil {
		return err
	}
	if b.readDB, err = sql.Open("sqlite", b.dsn(VFS, fmt.Sprintf("busy_timeout(%d)", readBusy.Milliseconds()), "query_only(1)")); err != nil {
		return err
	}
	b.readDB.SetMaxOpenConns(b.cfg.Loads)
	b.readDB.SetMaxIdleConns(b.cfg.Loads)
	if err := b.read.prepare(ctx, b.readDB); err != nil {
		return err
	}
	return b.checkpoints.start(ctx, b)
}

// create creates a database without tables that only its owner may read. It must
// not open an existing one: closing a file drops the locks that this process has on
// it. No process has locked an empty file, because the caller holds the queue.
func create(path string) error {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(firstPage(), 0)
	return errors.Join(err, f.Sync(), f.Close())
}

func (b *Backend) dsn(vfs string, pragmas ...string) string {
	q := url.Values{"vfs": {vfs}, "_pragma": append(pragmas, fmt.Sprintf("cache_size(-%d)", cacheKiB), "temp_store(memory)")}
	return (&url.URL{Scheme: "file", Path: b.path, RawQuery: q.Encode()}).String()
}

func (b *Backend) makeSchema(ctx context.Context) error {
	var mode string
	if err := b.conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the file cannot be put into WAL mode, it is in mode %q; is it on a network share?", mode)
	}
	var bytes string
	if err := b.conn.QueryRowContext(ctx, "SELECT hex(substr(data, 21, 1)) FROM sqlite_dbpage WHERE pgno = 1").Scan(&bytes); err != nil {
		return err
	}
	if bytes != fmt.Sprintf("%02X", reserved) {
		return fmt.Errorf("%w: the pages of the file have no checksums; it is a database of something else, or of an earlier version", journal.ErrIdentity)
	}
	// A file of another format must not get tables of this one.
	var tables int
	if err := b.conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table'").Scan(&tables); err != nil {
		return err
	}
	if tables > 0 {
		var ours int
		err := b.conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('meta', 'fence', 'record')").Scan(&ours)
		if err != nil {
			return err
		}
		if ours != 3 {
			return fmt.Errorf("%w: the file is a database of something else", journal.ErrIdentity)
		}
		facts, err := readFacts(ctx, b.conn, false)
		if err != nil {
			return err
		}
		_, err = facts.Merge(journal.Declaration{})
		return err
	}
	_, err := b.conn.ExecContext(ctx, "BEGIN IMMEDIATE;"+schema+"COMMIT")
	return err
}

// SetClock replaces the clock that dates records, for tests.
func (b *Backend) SetClock(c journal.Clock) { b.clock.SetClock(c) }

// Close implements [journal.Backend]. Closing again does nothing.
func (b *Backend) Close() error {
	var err error
	b.closing.Do(func() { err = b.closeAll() })
	return err
}

func (b *Backend) closeAll() error {
	var errs []error
	if b.readDB != nil {
		errs = append(errs, b.readDB.Close())
	}
	if b.conn != nil {
		errs = append(errs, b.conn.Close())
	}
	if b.writeDB != nil {
		errs = append(errs, b.writeDB.Close())
	}
	// The last connection to close copies the log.
	errs = append(errs, b.checkpoints.stop()...)
	return errors.Join(append(errs, b.queue.close())...)
}
