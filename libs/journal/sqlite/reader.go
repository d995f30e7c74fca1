package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Reader is a handle on a journal file that only reads. It takes neither the writers'
// queue nor SQLite's write lock, and never copies the log. Each of its transactions is
// short: while one is open, the log cannot start again from its beginning.
type Reader struct {
	path  string
	file  string // path without symbolic links
	place *place
	db    *sql.DB
	stmts readStmts
	// generation is the generation of the file when it was opened.
	generation sharding.Generation
	pageBytes  int // Config.PageBytes
	// met is called when damage is met. It may be nil.
	met func()
}

// corrupt returns an error about damage that names the pages and the remedy.
func (r *Reader) corrupt(err error) error {
	if r.met != nil { //mutant:false older-reads
		r.met()
	}
	return corrupt(r.path, r.file, err)
}

// OpenReader opens the journal file at path to read it only, while processes write it. The file
// must exist, and nothing in it is created or changed; if no process has it open, SQLite makes
// the empty files that belong to its log. Of cfg, Loads and CommitTimeout matter. Errors wrap
// [journal.ErrIdentity] for a file that is not a journal of this format, and [journal.ErrReplaced] for an older copy.
func OpenReader(ctx context.Context, path string, cfg journal.Config) (*Reader, error) {
	r, err := openReader(ctx, path, cfg)
	if err != nil {
		return nil, fmt.Errorf("open journal %s to read it: %w", path, err)
	}
	return r, nil
}

func openReader(ctx context.Context, path string, cfg journal.Config) (*Reader, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("there is no such file; give the URL that the regions have")
	case err != nil:
		return nil, err
	case info.Size() == 0:
		return nil, fmt.Errorf("%w: the file is empty", journal.ErrIdentity)
	}
	if err := RegisterVFS(); err != nil {
		return nil, err
	}
	r := &Reader{path: path, pageBytes: cfg.PageBytes}
	if r.place, err = openPlace(path); err != nil {
		return nil, err
	}
	if r.file, err = filepath.EvalSymlinks(path); err != nil { // as SQLite names it
		return nil, err
	}
	// SQLite would make a new log. A user who may only read the file cannot find out, and reads it nevertheless.
	//mutant:false log-users-read
	if err := refuseWithoutLog(ctx, path, r.file); errors.Is(err, journal.ErrUnreachable) {
		return nil, err
	}
	if err := makeShared(r.file); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.CommitTimeout)
	defer cancel()
	err = r.connectToCheck(ctx, cfg.Loads)
	if err == nil {
		err = r.place.openLog(r.file)
	}
	if err == nil {
		err = r.place.check()
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// connectToCheck opens connections that can do nothing but read, and checks what the file is.
func (r *Reader) connectToCheck(ctx context.Context, connections int) error {
	if err := r.open(VFS, "ro", connections); err != nil {
		return err
	}
	facts, err := checkFile(ctx, r.db)
	if err == nil {
		err = facts.CheckReader()
	}
	switch {
	case damaged(err):
		return r.corrupt(err)
	case err != nil:
		return err
	}
	r.generation = facts.Generation
	if err := r.stillNewest(ctx); err != nil {
		return err
	}
	return r.stmts.prepare(ctx, r.db)
}

// stillNewest refuses a journal that is older than what was acknowledged.
func (r *Reader) stillNewest(ctx context.Context) error {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return err
	}
	return errors.Join(r.refuseOlder(ctx, conn), conn.Close())
}

// connect opens the connections of a backend's reader, whose file is known to be a journal and open.
func (r *Reader) connect(ctx context.Context, connections int) error {
	if err := r.open(joinVFS, "rw", connections); err != nil {
		return err
	}
	return r.stmts.prepare(ctx, r.db)
}

func (r *Reader) open(vfs, mode string, connections int) (err error) {
	r.db, err = sql.Open("sqlite", dsn(r.path, vfs, mode, fmt.Sprintf("busy_timeout(%d)", readBusy.Milliseconds()), "query_only(1)"))
	if err != nil {
		return err
	}
	r.db.SetMaxOpenConns(connections)
	r.db.SetMaxIdleConns(connections)
	return nil
}

// List implements [journal.Reader].
func (r *Reader) List(ctx context.Context, req journal.ListRequest) ([]sharding.Entity, error) {
	after, query := req.Start(), r.stmts.list
	if req.Type != "" {
		if after.Type != req.Type {
			return nil, nil
		}
		query = r.stmts.listType
	}
	rows, err := query.QueryContext(ctx, string(after.Type), string(after.ID), req.Limit)
	if err != nil {
		return nil, r.listError(err)
	}
	defer rows.Close()
	var page []sharding.Entity
	for rows.Next() {
		var e sharding.Entity
		if err := rows.Scan(&e.Type, &e.ID); err != nil {
			return nil, r.listError(err)
		}
		page = append(page, e)
	}
	return page, r.listError(rows.Err())
}

func (r *Reader) listError(err error) error {
	if damaged(err) {
		err = r.corrupt(err)
	}
	if err != nil {
		err = fmt.Errorf("list entities: %w", err)
	}
	return err
}

// Facts implements [journal.Reader].
func (r *Reader) Facts(ctx context.Context) (journal.Facts, error) {
	facts, err := readFacts(ctx, r.db, false)
	if err == nil {
		err = facts.CheckReader()
	}
	if damaged(err) {
		err = r.corrupt(err)
	}
	return facts, err
}

// Close releases resources. Closing again does nothing.
func (r *Reader) Close() error {
	if r.db == nil {
		return nil
	}
	return r.db.Close()
}

// Load implements [journal.Reader].
func (d *Backend) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	return d.reads.Load(ctx, req)
}

// List implements [journal.Reader].
func (d *Backend) List(ctx context.Context, req journal.ListRequest) ([]sharding.Entity, error) {
	return d.reads.List(ctx, req)
}

// Wakes implements [journal.Reader].
func (d *Backend) Wakes(ctx context.Context, req journal.WakesRequest) (journal.WakesPage, error) {
	return d.reads.Wakes(ctx, req)
}

// Sends implements [journal.Reader].
func (d *Backend) Sends(ctx context.Context, req journal.SendsRequest) (journal.SendsPage, error) {
	return d.reads.Sends(ctx, req)
}

// History implements [journal.Reader].
func (d *Backend) History(ctx context.Context, req journal.HistoryRequest) (journal.History, error) {
	return d.reads.History(ctx, req)
}

// Facts implements [journal.Reader].
func (d *Backend) Facts(ctx context.Context) (journal.Facts, error) { return d.reads.Facts(ctx) }
