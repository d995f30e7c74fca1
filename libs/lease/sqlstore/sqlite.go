package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	sqlite "modernc.org/sqlite" // the database/sql driver "sqlite"

	"github.com/roost-cluster/roost/libs/lease"
)

const (
	// applicationID marks our files: "rols". Development versions marked theirs with unmarkedID, and
	// counted formats before these began again at 1.
	applicationID = 0x726f6c73
	unmarkedID    = 0x726c7365
	// format is the version of the table; others are refused.
	format = 1
	// busyTimeout bounds the wait of a statement for another process's write, which is one fsync long.
	busyTimeout = 2 * time.Second
	// openTimeout bounds the attempts to open a file that other processes are opening.
	openTimeout = 5 * time.Second
	// openRetry is the pause between those attempts.
	openRetry = 20 * time.Millisecond
	// sqliteBusy is SQLITE_BUSY, https://sqlite.org/rescode.html.
	sqliteBusy = 5
)

var sqliteStatements = statementsOf("lease")

// OpenSQLite opens the lease file at path, or creates it and its directory. A file with
// other content is refused and not changed. Every write is on disk before it is
// acknowledged (WAL, synchronous=FULL).
func OpenSQLite(ctx context.Context, path string) (*Backend, error) {
	s, err := openSQLite(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("%w: open sqlite %s: %w", lease.ErrStore, path, err)
	}
	return s, nil
}

func openSQLite(ctx context.Context, path string) (*Backend, error) {
	if path == "" {
		return nil, errors.New("the path is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := create(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, err
	}
	// One connection: the statements of one process run one after another without locks.
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for {
		err = prepare(ctx, db)
		if !busy(err) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, db.Close())
		case <-time.After(openRetry):
		}
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Backend{db: db, stmts: sqliteStatements, where: "sqlite " + path}, nil
}

// create creates an empty file that only its owner may read. It does not open an
// existing file: closing that would release this process's SQLite locks on it.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func dsn(path string) string {
	q := url.Values{
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "synchronous(full)"},
		"_txlock": {"immediate"},
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// prepare checks that the file is ours before anything is written to it.
func prepare(ctx context.Context, db *sql.DB) error {
	if err := claimFile(ctx, db); err != nil {
		return err
	}
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode = wal").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the file cannot be put into WAL mode, it is in mode %q; is it on a network share?", mode)
	}
	return nil
}

func claimFile(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	var app, version, tables int
	for query, dest := range map[string]*int{
		"PRAGMA application_id": &app,
		"PRAGMA user_version":   &version,
		"SELECT count(*) FROM sqlite_schema WHERE type = 'table'": &tables,
	} {
		if err := tx.QueryRowContext(ctx, query).Scan(dest); err != nil {
			return err
		}
	}
	stmts := []string{
		sqliteStatements.create,
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", format),
	}
	switch {
	case app == applicationID && version == format:
		return nil
	case app == applicationID:
		return fmt.Errorf("the file has format %d, this program knows %d", version, format)
	case app == unmarkedID:
		return errors.New("a development version made the file before the formats began again at 1, and this program would misread it; name another file")
	case app != 0 || tables != 0:
		return errors.New("the file holds something else; leases need a file of their own")
	}
	for _, stmt := range stmts {
		if _, err := tx.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func busy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqliteBusy
}
