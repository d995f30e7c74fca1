package bench

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	"github.com/roost-cluster/roost/e2e/bench/measure"
)

// bareBatch is the number of rows that a bare insert puts into a transaction: about as many as the
// group commit does under the loads that it is compared with.
const bareBatch = 256

// bodyLen is the length of the record of a deposit, as the journal stores it.
const bodyLen = 190

// bareSQLite inserts the rows that the journal would, a record and its command id, with
// the same durability over one connection, and does nothing else.
type bareSQLite struct {
	db      *sql.DB
	conn    *sql.Conn
	record  *sql.Stmt
	command *sql.Stmt
	rng     *rand.Rand
	seqs    []int64
	body    []byte
}

func newBareSQLite(dir string, entities int) (*bareSQLite, error) {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bare.db")+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return nil, err
	}
	b := &bareSQLite{db: db, rng: rand.New(rand.NewPCG(1, 2)), seqs: make([]int64, entities), body: make([]byte, bodyLen)}
	if b.conn, err = db.Conn(ctx); err != nil {
		return nil, err
	}
	for _, q := range []string{
		"CREATE TABLE IF NOT EXISTS record (entity INTEGER, seq INTEGER, body BLOB, PRIMARY KEY (entity, seq)) WITHOUT ROWID",
		"CREATE TABLE IF NOT EXISTS command (entity INTEGER, hash INTEGER, seq INTEGER, PRIMARY KEY (entity, hash, seq)) WITHOUT ROWID",
	} {
		if _, err := b.conn.ExecContext(ctx, q); err != nil {
			return nil, err
		}
	}
	if b.record, err = b.conn.PrepareContext(ctx, "INSERT INTO record VALUES (?, ?, ?)"); err != nil {
		return nil, err
	}
	b.command, err = b.conn.PrepareContext(ctx, "INSERT INTO command VALUES (?, ?, ?)")
	return b, err
}

func (b *bareSQLite) close() { _ = b.db.Close() }

func (b *bareSQLite) insert(length time.Duration) (measure.Sample, error) {
	ctx, began := context.Background(), time.Now()
	var ops int64
	for time.Since(began) < length {
		if _, err := b.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
			return measure.Sample{}, err
		}
		for range bareBatch {
			id := b.rng.IntN(len(b.seqs))
			b.seqs[id]++
			if _, err := b.record.Exec(id, b.seqs[id], b.body); err != nil {
				return measure.Sample{}, fmt.Errorf("record: %w", err)
			}
			if _, err := b.command.Exec(id, int64(b.rng.Uint64()), b.seqs[id]); err != nil {
				return measure.Sample{}, fmt.Errorf("command: %w", err)
			}
		}
		if _, err := b.conn.ExecContext(ctx, "COMMIT"); err != nil {
			return measure.Sample{}, err
		}
		ops += bareBatch
	}
	return measure.Sample{Ops: ops, Elapsed: time.Since(began)}, nil
}

// openRows opens the file of a journal for reading rows.
func openRows(path string) (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+path+"?_pragma=query_only(1)")
}

// readRows reads all records of a journal, and does nothing with them.
func readRows(ctx context.Context, db *sql.DB) (measure.Sample, error) {
	began := time.Now()
	rows, err := db.QueryContext(ctx, "SELECT seq, body FROM record ORDER BY entity, seq")
	if err != nil {
		return measure.Sample{}, err
	}
	defer func() { _ = rows.Close() }()
	var s measure.Sample
	for rows.Next() {
		var seq int64
		var body []byte
		if err := rows.Scan(&seq, &body); err != nil {
			return measure.Sample{}, err
		}
		s.Ops++
	}
	s.Elapsed = time.Since(began)
	return s, rows.Err()
}
