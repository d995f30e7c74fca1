package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/clock"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// lockPoll is the delay between two attempts to take a lock of SQLite's that another
	// process holds: short compared with an fsync, long compared with a system call.
	lockPoll = 300 * time.Microsecond
	// readBusy bounds the time that a reader waits for a lock. Readers wait only while another
	// process opens, closes or recovers the file.
	readBusy = 5 * time.Second
	// cacheKiB is the page cache of a connection. Another process's commit
	// empties it, so more would not help much.
	cacheKiB = 8192
	pageSize = 4096
	// idCache is the number of entity numbers that a writer remembers.
	idCache = 1 << 17
	// logPatience bounds the time that a process which opens the file waits for others that have it open without a log:
	// longer than opening and closing the file takes, and short, because it has the queue meanwhile.
	logPatience = 200 * time.Millisecond
)

// Backend is one process's handle on a journal file.
type Backend struct {
	path    string
	file    string // path without symbolic links
	place   *place
	marks   *marks
	cfg     journal.Config
	lock    writeLock
	writeDB *sql.DB
	conn    *sql.Conn // the only one that writes
	handle  handle    // of conn
	write   writeStmts
	reads   *Reader
	// generation is the generation of the file when it was opened.
	generation sharding.Generation
	cache      cache
	// ids caches the numbers of entities, which never change.
	ids   map[sharding.Entity]int64
	clock clock.Timekeeper
	// broken is set once the store can no longer be trusted.
	broken          atomic.Pointer[error]
	checkpoints     checkpointer
	pagesSinceCheck int // approximate pages written since the log was last checked
	closing         sync.Once
}

// Open opens or makes the journal file at path, its folder included. The files
// are readable by their owner only. Of cfg, the dedupe limits and Loads matter.
func Open(ctx context.Context, path string, cfg journal.Config) (*Backend, error) {
	d, err := openTo(ctx, path, cfg, (*Backend).connect)
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", path, err)
	}
	return d, nil
}

// openTo opens the file for what connect does, while no other process writes.
func openTo(ctx context.Context, path string, cfg journal.Config, connect func(*Backend, context.Context) error) (*Backend, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	d := &Backend{path: path, cfg: cfg, ids: map[sharding.Entity]int64{}, clock: clock.NewTimekeeper(clock.System())}
	if d.lock.queue, err = openLock(path + queueSuffix); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.CommitTimeout)
	defer cancel()
	if err := d.lock.queue.lock(ctx); err != nil {
		return nil, errors.Join(err, d.lock.close())
	}
	defer d.lock.queue.unlock()
	if err := connect(d, ctx); err != nil {
		return nil, errors.Join(err, d.closeAll())
	}
	return d, nil
}

// connect opens the connections. The caller holds the queue, so that no other
// process creates the file at the same time.
func (d *Backend) connect(ctx context.Context) error {
	if err := d.connectWriter(ctx); err != nil {
		return err
	}
	if err := d.makeSchema(ctx); err != nil {
		return err
	}
	if err := d.refuseOlder(ctx); err != nil {
		return err
	}
	if err := d.place.openLog(d.file); err != nil {
		return err
	}
	// From here on beginWrite waits for the lock, not SQLite.
	if _, err := d.conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	if err := d.handle.prepareAll(d.write.statements()); err != nil {
		return err
	}
	d.reads = &Reader{path: d.path, file: d.file, place: d.place, generation: d.generation, pageBytes: d.cfg.PageBytes}
	if err := d.reads.connect(ctx, d.cfg.Loads); err != nil {
		return err
	}
	if err := d.checkpoints.start(ctx, d); err != nil {
		return err
	}
	d.reads.met = d.checkpoints.metDamage
	return d.place.check()
}

// connectWriter opens the connection that writes, and makes an empty file where there is none.
func (d *Backend) connectWriter(ctx context.Context) error {
	if err := RegisterVFS(); err != nil {
		return err
	}
	if err := create(d.path); err != nil {
		return err
	}
	var err error
	if d.place, err = openPlace(d.path); err != nil {
		return err
	}
	if d.lock, err = openWriteLock(d.path, d.lock.queue); err != nil {
		return err
	}
	if d.file, err = filepath.EvalSymlinks(d.path); err != nil { // as SQLite names it
		return err
	}
	if err := refuseWithoutLog(ctx, d.path, d.file); err != nil {
		return err
	}
	if err := makeShared(d.file); err != nil {
		return err
	}
	if d.marks, err = openMarks(d.file); err != nil {
		return err
	}
	if d.writeDB, err = sql.Open("sqlite", dsn(d.path, VFS, "rw", "busy_timeout(5000)", fmt.Sprintf("page_size(%d)", pageSize), "journal_mode(wal)", "synchronous(full)", "wal_autocheckpoint(0)", "cache_spill(0)")); err != nil {
		return err
	}
	d.writeDB.SetMaxOpenConns(1)
	if d.conn, err = d.writeDB.Conn(ctx); err != nil {
		return err
	}
	d.handle, err = handleOf(d.conn)
	return err
}

// refuseWithoutLog refuses a journal that other processes have open without the log at its path: it was removed, and has
// what this process would not find. It waits for them, because a process that opens or closes the file has no log for a moment.
// file is the path without symbolic links, as SQLite names it.
func refuseWithoutLog(ctx context.Context, path, file string) error {
	for until := time.Now().Add(logPatience); ; {
		_, noLog := os.Stat(file + logSuffix)
		_, noIndex := os.Stat(file + sharedSuffix)
		if !errors.Is(noLog, fs.ErrNotExist) && !errors.Is(noIndex, fs.ErrNotExist) { //mutant:true log-users
			return nil
		}
		if used, err := hasUsers(ctx, path); err != nil || !used {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("%w: other processes have %s open, but its log was removed (%s%s or %s); they copy what is in it into the file, and end; end those that remain, without SIGKILL (docs/running/repair.md, \"A removed log\")",
				journal.ErrUnreachable, path, file, logSuffix, sharedSuffix)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
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

// dsn names the file for package sql; mode is rw, or ro to read it only.
func dsn(path, vfs, mode string, pragmas ...string) string {
	return fileURL(path, url.Values{"vfs": {vfs}, "mode": {mode}, "_pragma": append(pragmas, fmt.Sprintf("cache_size(-%d)", cacheKiB), "temp_store(memory)")})
}

func fileURL(path string, q url.Values) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

func (d *Backend) makeSchema(ctx context.Context) error {
	var mode string
	if err := d.conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the file cannot be put into WAL mode, it is in mode %q; is it on a network share?", mode)
	}
	facts, err := checkFile(ctx, d.conn)
	if err == nil {
		err = facts.Check()
	}
	if d.generation = facts.Generation; !errors.Is(err, errNoTables) {
		return err
	}
	d.generation = clock.NewGeneration()
	if _, err := d.conn.ExecContext(ctx, "BEGIN IMMEDIATE;"+schema); err != nil {
		return err
	}
	if err := createFacts(ctx, d.conn, journal.NewFacts(d.generation)); err != nil {
		return err
	}
	// The marks of the journal that was here before do not count. A process that ends between the two leaves the marks
	// of a journal that was never made, and the next one replaces them here; the other way round, the marks of the
	// journal before would have the new one refused.
	d.marks.change(func(mark) mark { return mark{Generation: d.generation} })
	_, err = d.conn.ExecContext(ctx, "COMMIT")
	return err
}

// errNoTables: the file is still empty.
var errNoTables = fmt.Errorf("%w: the file has no tables; no region has opened it yet", journal.ErrIdentity)

// checkFile refuses a file that is not a journal, so that it does not get the tables of one,
// and returns its facts.
func checkFile(ctx context.Context, q querier) (facts journal.Facts, err error) {
	one := func(query string, to any) error {
		return each(ctx, q, query, func(rows *sql.Rows) error { return rows.Scan(to) })
	}
	var bytes string
	if err := one("SELECT hex(substr(data, 21, 1)) FROM sqlite_dbpage WHERE pgno = 1", &bytes); err != nil {
		return facts, err
	}
	if bytes != fmt.Sprintf("%02X", reserved) {
		return facts, fmt.Errorf("%w: the pages of the file have no checksums; it is a database of something else, or of an earlier version", journal.ErrIdentity)
	}
	var app, tables, ours int
	for query, to := range map[string]*int{
		"PRAGMA application_id":                                   &app,
		"SELECT count(*) FROM sqlite_schema WHERE type = 'table'": &tables,
		"SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('meta', 'fence', 'record')": &ours,
	} {
		if err := one(query, to); err != nil {
			return facts, err
		}
	}
	switch {
	case app != applicationID && ours == 3:
		return facts, journal.ErrUnmarked
	case app == applicationID && tables == 0:
		return facts, errNoTables
	case app != applicationID || ours != 3:
		return facts, fmt.Errorf("%w: the file is a database of something else", journal.ErrIdentity)
	}
	return readFacts(ctx, q, false)
}

// SetClock replaces the clock that dates records, for tests.
func (d *Backend) SetClock(c journal.Clock) { d.clock.SetClock(c) }

// Close implements [journal.Backend]. Closing again does nothing.
func (d *Backend) Close() error {
	var err error
	d.closing.Do(func() { err = d.closeAll() })
	return err
}

func (d *Backend) closeAll() error {
	var errs []error
	if d.reads != nil && d.broken.Load() == nil {
		// The last connection to close copies the log, which would hide that the main file is older.
		if _, err := d.checkMark(context.Background()); errors.Is(err, journal.ErrReplaced) {
			errs = append(errs, err)
		}
	}
	if d.reads != nil {
		errs = append(errs, d.reads.Close())
	}
	closeWriteStatements(d.write.statements())
	d.handle.close()
	if d.conn != nil {
		errs = append(errs, d.conn.Close())
	}
	if d.writeDB != nil {
		errs = append(errs, d.writeDB.Close())
	}
	// The last connection to close copies the log.
	errs = append(errs, d.checkpoints.stop()...)
	if d.marks != nil {
		errs = append(errs, d.marks.close())
	}
	return errors.Join(append(errs, d.lock.close())...)
}

// NotifyUpkeep implements [journal.Upkeep].
func (d *Backend) NotifyUpkeep(f func(error)) { d.checkpoints.notify.Store(&f) }
