package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/roost-cluster/roost/libs/journal"
)

// What a batch executes for each of its operations goes straight to SQLite: packages sql and
// driver took as long for a short statement as SQLite itself. Everything else goes through package
// sql, on the same connection and never at the same time.

// handle is a connection as SQLite knows it.
type handle struct {
	tls *libc.TLS
	db  uintptr
}

// handleOf returns the handle of a connection, which the caller has for itself.
func handleOf(conn *sql.Conn) (h handle, err error) {
	raw := conn.Raw(func(c any) error {
		// The driver does not export its field. A release of it that names it otherwise is
		// noticed when the first journal is opened.
		v := reflect.Indirect(reflect.ValueOf(c))
		if v.Kind() == reflect.Struct {
			if f := v.FieldByName("db"); f.Kind() == reflect.Uintptr && f.Uint() != 0 {
				h = handle{tls: libc.NewTLS(), db: uintptr(f.Uint())}
				return nil
			}
		}
		return fmt.Errorf("%T has no handle of SQLite's in a field called db", c)
	})
	return h, raw
}

// changes returns a number that rises with each row that the connection changes.
func (h *handle) changes() int32 { return lib.Xsqlite3_total_changes(h.tls, h.db) }

// leaveLog keeps SQLite from copying the log when the connection is closed.
func (h *handle) leaveLog() error {
	args := libc.NewVaList(int32(1), uintptr(0)) // on; the result is not wanted
	defer libc.Xfree(h.tls, args)
	if rc := lib.Xsqlite3_db_config(h.tls, h.db, lib.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, args); rc != lib.SQLITE_OK {
		return h.error(rc)
	}
	return nil
}

func (h *handle) close() {
	if h.tls != nil {
		h.tls.Close()
		h.tls = nil
	}
}

// sqliteError is an error of SQLite, like the error type of the driver for package sql.
type sqliteError struct {
	code int
	text string
}

func (e *sqliteError) Error() string { return e.text }

// Code returns the extended result code.
func (e *sqliteError) Code() int { return e.code }

func (h *handle) error(rc int32) error {
	return &sqliteError{code: int(rc), text: fmt.Sprintf("%s (%d)", libc.GoString(lib.Xsqlite3_errmsg(h.tls, h.db)), rc)}
}

// boundKept bounds the memory for arguments that a statement keeps.
const boundKept = 64 << 10

// stmt is a prepared statement. Arguments are of the types int64, int, uint32, string and []byte
// (NULL if it is nil), and as many as the statement has parameters.
type stmt struct {
	handle *handle
	p      uintptr
	params int     // how many parameters it has
	bound  uintptr // memory of SQLite's for texts and blobs, which it must not copy
	size   int     // of bound
}

func (h *handle) prepare(query string) (*stmt, error) {
	q, err := libc.CString(query)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(h.tls, q)
	const pointerSize = int(unsafe.Sizeof(uintptr(0)))
	to := h.tls.Alloc(pointerSize)
	defer h.tls.Free(pointerSize)
	if rc := lib.Xsqlite3_prepare_v3(h.tls, h.db, q, -1, lib.SQLITE_PREPARE_PERSISTENT, to, 0); rc != lib.SQLITE_OK {
		return nil, fmt.Errorf("prepare %q: %w", query, h.error(rc))
	}
	p := *at[uintptr](to)
	return &stmt{handle: h, p: p, params: int(lib.Xsqlite3_bind_parameter_count(h.tls, p))}, nil
}

func (s *stmt) close() {
	lib.Xsqlite3_finalize(s.handle.tls, s.p)
	s.release()
}

func (s *stmt) release() {
	if s.bound != 0 {
		libc.Xfree(s.handle.tls, s.bound)
		s.bound, s.size = 0, 0
	}
}

// bind gives the parameters their values. All of them are bound anew, so none ever refers to
// memory that was released.
func (s *stmt) bind(args []any) error {
	if len(args) != s.params { // one that is not bound anew would refer to memory that may be released
		panic(fmt.Sprintf("%d arguments for a statement with %d parameters", len(args), s.params))
	}
	need := 0
	for _, a := range args {
		switch a := a.(type) {
		case string:
			need += len(a)
		case []byte:
			need += len(a)
		}
	}
	if need > s.size || s.bound == 0 {
		s.release()
		s.size = max(64, 2*need)
		if s.bound = libc.Xmalloc(s.handle.tls, libc.Tsize_t(s.size)); s.bound == 0 {
			s.size = 0
			return s.handle.error(lib.SQLITE_NOMEM)
		}
	}
	free := s.bound
	for i, a := range args {
		var rc int32
		tls, n := s.handle.tls, int32(i+1)
		switch a := a.(type) {
		case int64:
			rc = lib.Xsqlite3_bind_int64(tls, s.p, n, a)
		case int:
			rc = lib.Xsqlite3_bind_int64(tls, s.p, n, int64(a))
		case uint32:
			rc = lib.Xsqlite3_bind_int64(tls, s.p, n, int64(a))
		case string:
			copy(unsafe.Slice(at[byte](free), len(a)), a)
			rc = lib.Xsqlite3_bind_text(tls, s.p, n, free, int32(len(a)), lib.SQLITE_STATIC)
			free += uintptr(len(a))
		case []byte:
			if a == nil {
				rc = lib.Xsqlite3_bind_null(tls, s.p, n)
				break
			}
			copy(unsafe.Slice(at[byte](free), len(a)), a)
			rc = lib.Xsqlite3_bind_blob(tls, s.p, n, free, int32(len(a)), lib.SQLITE_STATIC)
			free += uintptr(len(a))
		default:
			panic("an argument of a statement has a type that is not bound")
		}
		if rc != lib.SQLITE_OK {
			return s.handle.error(rc)
		}
	}
	return nil
}

// step executes the statement up to its next row, and reports whether there is one.
func (s *stmt) step() (row bool, err error) {
	switch rc := lib.Xsqlite3_step(s.handle.tls, s.p); rc {
	case lib.SQLITE_ROW:
		return true, nil
	case lib.SQLITE_DONE:
		return false, nil
	default:
		return false, s.handle.error(rc)
	}
}

// reset ends the execution. What SQLite returns here it has returned before.
func (s *stmt) reset() {
	lib.Xsqlite3_reset(s.handle.tls, s.p)
	if s.size > boundKept {
		s.release()
	}
}

// scan stores the columns of a row. A column with a value of another type than wanted is damage. SQLite would
// read it as 0, and an epoch of 0 means that the shard was never claimed. Only a []byte may be NULL.
func (s *stmt) scan(dest []any) error {
	tls := s.handle.tls
	for i, d := range dest {
		n := int32(i)
		holds, wanted := lib.Xsqlite3_column_type(tls, s.p, n), int32(lib.SQLITE_INTEGER)
		switch d := d.(type) {
		case *int64:
			*d = lib.Xsqlite3_column_int64(tls, s.p, n)
		case *int:
			*d = int(lib.Xsqlite3_column_int64(tls, s.p, n))
		case *journal.Age:
			*d = journal.Age(lib.Xsqlite3_column_int64(tls, s.p, n))
		case *bool:
			*d = lib.Xsqlite3_column_int64(tls, s.p, n) != 0
		case *string:
			*d, wanted = string(s.column(lib.Xsqlite3_column_text(tls, s.p, n), n)), lib.SQLITE_TEXT
		case *[]byte:
			*d, wanted = append([]byte(nil), s.column(lib.Xsqlite3_column_blob(tls, s.p, n), n)...), lib.SQLITE_BLOB
			if holds == lib.SQLITE_NULL {
				wanted = holds
			}
		default:
			panic("a column of a statement is wanted in a type that is not scanned")
		}
		if holds != wanted {
			name := libc.GoString(lib.Xsqlite3_column_name(tls, s.p, n))
			return &sqliteError{code: lib.SQLITE_CORRUPT, text: fmt.Sprintf("%s has a value of type %d, want %d (https://sqlite.org/c3ref/c_blob.html)", name, holds, wanted)}
		}
	}
	return nil
}

// column returns the bytes of a text or blob, which are SQLite's.
func (s *stmt) column(p uintptr, n int32) []byte {
	if p == 0 {
		return nil
	}
	return unsafe.Slice(at[byte](p), lib.Xsqlite3_column_bytes(s.handle.tls, s.p, n))
}

// Exec executes the statement to its end.
func (s *stmt) Exec(args ...any) error {
	err := s.bind(args)
	for row := err == nil; row; {
		row, err = s.step()
	}
	s.reset()
	return err
}

// lastID returns the number of the row that was inserted last.
func (h *handle) lastID() int64 { return lib.Xsqlite3_last_insert_rowid(h.tls, h.db) }

// QueryRow executes the statement up to its first row.
func (s *stmt) QueryRow(args ...any) firstRow {
	err := s.bind(args)
	if err == nil {
		var found bool
		if found, err = s.step(); err == nil && !found {
			err = sql.ErrNoRows
		}
	}
	return firstRow{s, err}
}

type firstRow struct {
	s   *stmt
	err error
}

// Scan stores the row, or returns [sql.ErrNoRows]. It must be called.
func (r firstRow) Scan(dest ...any) error {
	err := r.err
	if err == nil {
		err = r.s.scan(dest)
	}
	r.s.reset()
	return err
}

// Query begins a query. The rows must be closed.
func (s *stmt) Query(args ...any) (*rows, error) {
	if err := s.bind(args); err != nil {
		s.reset()
		return nil, err
	}
	return &rows{s: s}, nil
}

type rows struct {
	s   *stmt
	err error
}

// Next, Scan, Err and Close work like the methods of [sql.Rows].
func (r *rows) Next() (more bool) {
	more, r.err = r.s.step()
	return more
}

func (r *rows) Scan(dest ...any) error { return r.s.scan(dest) }

func (r *rows) Err() error { return r.err }

func (r *rows) Close() error {
	r.s.reset()
	return nil
}

// dataVersion returns a number that is another one after any connection has committed. The commits of
// other connections count from the next transaction of this one on.
// https://sqlite.org/c3ref/c_fcntl_begin_atomic_write.html#sqlitefcntldataversion
func (h *handle) dataVersion() (uint32, error) {
	const size = int(unsafe.Sizeof(uint32(0)))
	to := h.tls.Alloc(size)
	defer h.tls.Free(size)
	if rc := lib.Xsqlite3_file_control(h.tls, h.db, 0, lib.SQLITE_FCNTL_DATA_VERSION, to); rc != lib.SQLITE_OK {
		return 0, h.error(rc)
	}
	return *at[uint32](to), nil
}

// writeStatement is a statement of the writer.
type writeStatement struct {
	to    **stmt
	query string
}

func (h *handle) prepareAll(all []writeStatement) error {
	var errs []error
	for _, s := range all {
		var err error
		*s.to, err = h.prepare(s.query)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// closeWriteStatements closes those that were prepared. A connection with open statements stays
// open inside SQLite.
func closeWriteStatements(all []writeStatement) {
	for _, s := range all {
		if *s.to != nil {
			(*s.to).close()
			*s.to = nil
		}
	}
}
