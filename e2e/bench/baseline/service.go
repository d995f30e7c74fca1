package baseline

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // the database/sql driver "sqlite"
)

// DepositPath, followed by the id of an account, is the path that [Process.Service] answers.
const DepositPath = "/deposit/"

// PostgresConnections is the size of the pool: enough for PostgreSQL to flush the log once for many transactions, and
// far from its default limit of 100 connections.
const PostgresConnections = 32

// service replaces a durable entity as a backend developer would write it: one transaction per request locks
// the row of the account, inserts the event, updates the row and commits. It has no keys against repeated requests,
// no snapshots, no reminders, and no cache.
type service interface {
	// deposit stores one event of an account, and returns how many it has.
	deposit(ctx context.Context, account, data string) (int64, error)
}

// newService opens a database, "postgres://…" or "sqlite:FILE", and makes the tables.
func newService(ctx context.Context, url string) (service, error) {
	if path, is := strings.CutPrefix(url, "sqlite:"); is {
		return newSQLiteService(ctx, path)
	}
	return newPostgresService(ctx, url)
}

const (
	accountTable = "CREATE TABLE IF NOT EXISTS account (id text PRIMARY KEY, n bigint NOT NULL)"
	eventTable   = "CREATE TABLE IF NOT EXISTS event (account text NOT NULL, seq bigint NOT NULL, body text NOT NULL, PRIMARY KEY (account, seq))"
)

// postgresService is the service on PostgreSQL.
type postgresService struct{ pool *pgxpool.Pool }

func newPostgresService(ctx context.Context, url string) (*postgresService, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = PostgresConnections
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for _, q := range []string{accountTable, eventTable} {
		if _, err := pool.Exec(ctx, q); err != nil {
			pool.Close()
			return nil, err
		}
	}
	return &postgresService{pool}, nil
}

func (s *postgresService) deposit(ctx context.Context, account, data string) (n int64, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT n FROM account WHERE id = $1 FOR UPDATE", account).Scan(&n)
		if errors.Is(err, pgx.ErrNoRows) { // two that do this at a time wait for each other
			_, err = tx.Exec(ctx, "INSERT INTO account VALUES ($1, 0) ON CONFLICT DO NOTHING", account)
			if err == nil {
				err = tx.QueryRow(ctx, "SELECT n FROM account WHERE id = $1 FOR UPDATE", account).Scan(&n)
			}
		}
		if err != nil {
			return err
		}
		n++
		if _, err := tx.Exec(ctx, "INSERT INTO event VALUES ($1, $2, $3)", account, n, data); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE account SET n = $2 WHERE id = $1", account, n)
		return err
	})
	return n, err
}

// sqliteService is the service on SQLite. It has one connection: SQLite has one writer at a time, and those that
// wait in the process wait less long than those that poll the file's lock.
type sqliteService struct {
	db                     *sql.DB
	balance, event, update *sql.Stmt
}

func newSQLiteService(ctx context.Context, path string) (*sqliteService, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	s := &sqliteService{db: db}
	for _, q := range []string{accountTable, eventTable} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			return nil, err
		}
	}
	for text, to := range map[string]**sql.Stmt{
		"SELECT n FROM account WHERE id = ?":                                              &s.balance,
		"INSERT INTO event VALUES (?, ?, ?)":                                              &s.event,
		"INSERT INTO account VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET n = excluded.n": &s.update,
	} {
		if *to, err = db.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *sqliteService) deposit(ctx context.Context, account, data string) (n int64, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	if err := tx.StmtContext(ctx, s.balance).QueryRowContext(ctx, account).Scan(&n); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	n++
	if _, err := tx.StmtContext(ctx, s.event).ExecContext(ctx, account, n, data); err != nil {
		return 0, err
	}
	if _, err := tx.StmtContext(ctx, s.update).ExecContext(ctx, account, n); err != nil {
		return 0, err
	}
	return n, tx.Commit()
}

// serveDeposits answers POST of [Question] by [Answer], after the event is stored.
func serveDeposits(s service) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+DepositPath+"{account}", func(w http.ResponseWriter, r *http.Request) {
		var q Question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n, err := s.deposit(r.Context(), r.PathValue("account"), q.Data)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		raw, err := json.Marshal(Answer{TenDigits + n})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(raw)
	})
	return mux
}
