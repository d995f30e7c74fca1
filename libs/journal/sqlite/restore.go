package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/backup"
	"github.com/roost-cluster/roost/libs/journal/clock"
	"github.com/roost-cluster/roost/libs/sharding"
)

// SQLite appends logSuffix to the path for the log, and sharedSuffix for the index of the log, which
// all processes share.
const (
	logSuffix    = "-wal"
	sharedSuffix = "-shm"
)

// Restore puts the journal of a backup at path. It writes a file in the same directory, and puts
// that into place when it is complete and on the disk. Processes that still have the previous file
// open are shut out: they notice it within a second, and at each step after a pause. It returns the
// errors of [backup.Plan] and [backup.Reader].
func Restore(ctx context.Context, path string, r *backup.Reader, cfg journal.Config, o backup.Options) (backup.Restored, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return backup.Restored{}, err
	}
	restored, err := restore(ctx, path, r, cfg, o)
	if err != nil {
		err = fmt.Errorf("restore journal %s: %w", path, err)
	}
	return restored, err
}

func restore(ctx context.Context, path string, r *backup.Reader, cfg journal.Config, o backup.Options) (backup.Restored, error) {
	if r.Header().Store != backup.SQLite {
		return backup.Restored{}, fmt.Errorf("%w: the backup has a journal in %s, and can be restored to the same kind only", journal.ErrIdentity, r.Header().Store)
	}
	if err := RegisterVFS(); err != nil {
		return backup.Restored{}, err
	}
	if file, err := filepath.EvalSymlinks(path); err == nil {
		path = file // its name is not replaced by a file
	}
	target, err := inspect(ctx, path, cfg)
	if err != nil {
		return backup.Restored{}, err
	}
	restored, fence, err := backup.Plan(r.Header(), target, o, clock.NewGeneration())
	if err != nil {
		return restored, err
	}
	if o.DryRun {
		return restored, readPages(r, io.Discard)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return restored, err
	}
	made, err := writeFileBeside(path, r)
	if err != nil {
		return restored, err
	}
	defer os.Remove(made)
	if err := renew(ctx, made, restored.Facts, fence); err != nil {
		return restored, err
	}
	return restored, put(ctx, made, path, cfg, o)
}

// inspect looks at what is at path.
func inspect(ctx context.Context, path string, cfg journal.Config) (t backup.Target, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(path + logSuffix)
		if t.Stored = err == nil; t.Stored {
			t.Damage = fmt.Errorf("only its log is left, %s", path+logSuffix)
		}
		return t, nil
	}
	if err != nil || info.Size() == 0 {
		return t, err
	}
	if t, err = inspectFile(ctx, path, cfg); damaged(err) {
		t, err = backup.Target{Stored: true, Damage: err}, nil
	}
	if err != nil {
		return t, err
	}
	open, err := hasUsers(ctx, path)
	if open {
		t.Users = []string{"other processes have the file open"}
	}
	return t, err
}

func inspectFile(ctx context.Context, path string, cfg journal.Config) (t backup.Target, err error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.CommitTimeout)
	defer cancel()
	db, err := sql.Open("sqlite", dsn(path, VFS, "rw", fmt.Sprintf("busy_timeout(%d)", readBusy.Milliseconds()), "query_only(1)"))
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := connLeavingLog(ctx, db)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := checkFile(ctx, conn); errors.Is(err, errNoTables) {
		return t, nil
	} else if err != nil {
		return t, err
	}
	if t.Facts, err = readFacts(ctx, conn, true); err != nil {
		return t, err
	}
	err = conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM entity) OR EXISTS (SELECT 1 FROM fence)").Scan(&t.Stored)
	return t, err
}

// connLeavingLog returns a connection that does not copy the log into the main file when it is closed. Who only looks
// at a file must not change it: a copy would also hide that the main file is older than its log.
func connLeavingLog(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	h, err := handleOf(conn)
	if err == nil {
		defer h.close()
		err = h.leaveLog()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// hasUsers reports whether another connection has the file open: each of them holds a shared lock
// on it, so that no connection gets an exclusive one.
func hasUsers(ctx context.Context, path string) (has bool, err error) {
	// Without pragmas that read the file: to read it before the exclusive lock is held would make a log if there is none.
	db, err := sql.Open("sqlite", fileURL(path, url.Values{"vfs": {VFS}, "mode": {"rw"}}))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := connLeavingLog(ctx, db)
	if err == nil {
		_, err = conn.ExecContext(ctx, "PRAGMA locking_mode = exclusive; BEGIN EXCLUSIVE; ROLLBACK")
		err = errors.Join(err, conn.Close())
	}
	switch {
	case busy(err):
		return true, nil
	case damaged(err): // no process can use it
		return false, nil
	}
	return false, err
}

// writeFileBeside writes the pages of a backup to a new file in the directory of path, and returns
// its name.
func writeFileBeside(path string, r *backup.Reader) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".restore-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err := ownLike(f.Name(), path); err != nil {
		return "", err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	if err := readPages(r, out); err != nil {
		return "", err
	}
	return f.Name(), errors.Join(out.Flush(), f.Sync())
}

// readPages copies the pages of a backup, each with its checksum, and makes sure that the backup is
// complete.
func readPages(r *backup.Reader, out io.Writer) error {
	name, err := r.Next()
	if err != nil || name != pagesPart {
		return errors.Join(err, fmt.Errorf("%w: it has the part %q, want %q", backup.ErrDamaged, name, pagesPart))
	}
	page := make([]byte, pageSize)
	for n := 0; ; n++ {
		_, err := io.ReadFull(r, page)
		switch {
		case errors.Is(err, io.EOF) && n > 0:
			if _, err := r.Next(); !errors.Is(err, io.EOF) {
				return errors.Join(err, fmt.Errorf("%w: something follows its pages", backup.ErrDamaged))
			}
			return nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%w: it has a part of a page", backup.ErrDamaged)
		case err != nil:
			return err
		}
		sealPage(page)
		if _, err := out.Write(page); err != nil {
			return err
		}
	}
}

// renew makes a journal of the restored file, with a new generation and with fences that no region
// owns.
func renew(ctx context.Context, path string, facts journal.Facts, fence sharding.Fence) (err error) {
	db, err := sql.Open("sqlite", dsn(path, VFS, "rw", "locking_mode(exclusive)", "synchronous(full)"))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() {
		err = errors.Join(err, db.Close()) // which copies the log, and removes it
		for _, suffix := range []string{logSuffix, sharedSuffix} {
			_ = os.Remove(path + suffix)
		}
	}()
	var says string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&says); err != nil {
		return err
	}
	if says != "ok" {
		return fmt.Errorf("%w: the journal in the backup is damaged: %s", journal.ErrCorrupt, says)
	}
	t, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = t.Rollback() }()
	if _, err := t.ExecContext(ctx, "UPDATE meta SET value = ? WHERE key = 'generation'", facts.Generation.String()); err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx, "UPDATE fence SET epoch = ?, owner = ?", int64(fence.Epoch), int64(fence.Owner)); err != nil {
		return err
	}
	if err := t.Commit(); err != nil {
		return err
	}
	var busy, pages, copied int
	if err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &copied); err != nil || busy != 0 {
		return errors.Join(err, fmt.Errorf("the log of the new file was not copied into it (%d of %d pages)", copied, pages))
	}
	return nil
}

// put puts the new file into place. No process makes a journal there meanwhile. One that has the old
// file open keeps it, and notices.
func put(ctx context.Context, made, path string, cfg journal.Config, o backup.Options) error {
	ctx, cancel := context.WithTimeout(ctx, min(cfg.CommitTimeout, 2*time.Second))
	defer cancel()
	if o.InUse {
		// A process that is paused in the queue, or while it writes, must not hold up those that use the new file.
		if err := errors.Join(remove(path+queueSuffix), remove(path+writerSuffix)); err != nil {
			return err
		}
	}
	queue, err := openLock(path + queueSuffix)
	if err != nil {
		return err
	}
	defer func() { _ = queue.close() }()
	if err := queue.lock(ctx); err != nil {
		return fmt.Errorf("%w: it is in use: another process holds the lock on %s; stop all regions and coordinators, or give --in-use to shut out those that cannot be stopped", backup.ErrRefused, path+queueSuffix)
	}
	defer queue.unlock()
	if err := ownLike(path+queueSuffix, path); err != nil {
		return err
	}
	// The log and the marks of the old file must not be used with the new one. The marks go last: without its log, the
	// old file is refused because of them, if the new one does not come into place.
	if err := errors.Join(remove(path+logSuffix), remove(path+sharedSuffix)); err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return err
	}
	if err := remove(path + markSuffix); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// remove removes a file if there is one.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
