package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/pgsession"
	"github.com/roost-cluster/roost/libs/sharding"
)

// listSQL reads a page of the entities, and listTypeSQL a page of the entities of a type, by
// their index.
const (
	listSQL     = "SELECT type, name FROM roost.entity WHERE (type, name) > ($1, $2) ORDER BY type, name LIMIT $3"
	listTypeSQL = "SELECT type, name FROM roost.entity WHERE type = $1 AND name > $2 ORDER BY name LIMIT $3"
)

// Reader is a handle on a journal that only reads. Each of its statements is a
// transaction of its own and locks no row.
type Reader struct {
	pool       *pgxpool.Pool
	generation sharding.Generation // of the journal when it was opened
	pageBytes  int                 // Config.PageBytes
}

// OpenReader connects to the journal that a connection string names, as [Open] does, to
// read it only: the role needs no right but to read (roost_reader in roles.sql), and the
// server refuses whatever else the connections might try. Of cfg, Loads, LoadTimeout,
// CommitTimeout and PageBytes matter. Errors wrap [journal.ErrIdentity] for another format.
func OpenReader(ctx context.Context, connection string, cfg journal.Config) (*Reader, error) {
	parsed, err := parse(connection)
	if err != nil {
		return nil, fmt.Errorf("open journal to read it: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.CommitTimeout)
	defer cancel()
	r, err := newReader(ctx, parsed, cfg, readable, map[string]string{"default_transaction_read_only": "on"})
	if err != nil {
		return nil, openError(parsed, err)
	}
	facts, err := r.Facts(ctx)
	if err != nil {
		r.pool.Close()
		return nil, openError(parsed, err)
	}
	r.generation = facts.Generation
	return r, nil
}

func newReader(ctx context.Context, parsed *pgxpool.Config, cfg journal.Config, check func(context.Context, *pgx.Conn) error, settings map[string]string) (*Reader, error) {
	p, err := pool(ctx, parsed, cfg.LoadTimeout, cfg.Loads, check, settings, map[string]string{
		loadName: loadSQL, listName: listSQL, listTypeName: listTypeSQL, factsName: factsSQL,
		wakesName: wakesSQL, pendingName: pendingSQL, deadName: deadSQL, bodiesName: bodiesSQL, historyName: historySQL,
	})
	return &Reader{pool: p, pageBytes: cfg.PageBytes}, err
}

// readable refuses a database that is not a journal, or one of a format that this program does
// not read: some statements cannot be prepared there.
func readable(ctx context.Context, conn *pgx.Conn) error {
	if err := hasSchema(ctx, conn); err != nil {
		return err
	}
	facts, err := storedFacts(ctx, conn, factsSQL)
	if err != nil {
		return err
	}
	return facts.CheckReader()
}

// hasSchema refuses a database that is not a journal.
func hasSchema(ctx context.Context, conn *pgx.Conn) error {
	exists, err := schemaExists(ctx, conn)
	if err == nil && !exists {
		err = fmt.Errorf("%w: the database has no schema roost; no region has opened it yet", journal.ErrIdentity)
	}
	return err
}

// List implements [journal.Reader].
func (r *Reader) List(ctx context.Context, req journal.ListRequest) ([]sharding.Entity, error) {
	after, query := req.Start(), listName
	if req.Type != "" {
		if after.Type != req.Type {
			return nil, nil
		}
		query = listTypeName
	}
	rows, err := r.pool.Query(ctx, query, string(after.Type), []byte(after.ID), req.Limit)
	var page []sharding.Entity
	if err == nil {
		var typ string
		var id []byte
		_, err = pgx.ForEachRow(rows, []any{&typ, &id}, func() error {
			page = append(page, sharding.Entity{Type: sharding.EntityType(typ), ID: sharding.EntityID(id)})
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list entities: %w", r.explain(err))
	}
	return page, nil
}

// Facts implements [journal.Reader].
func (r *Reader) Facts(ctx context.Context) (journal.Facts, error) {
	var facts journal.Facts
	err := r.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) (err error) {
		facts, err = readFacts(ctx, conn.Conn(), factsName)
		return err
	})
	if err != nil {
		return facts, fmt.Errorf("read the facts: %w", r.explain(err))
	}
	return facts, facts.CheckReader()
}

// explain adds the meaning of an error of reading.
func (r *Reader) explain(err error) error {
	switch {
	case damaged(err): // a page that is needed
		return corrupt(err)
	case errors.Is(err, context.DeadlineExceeded):
		r.pool.Reset() // other connections are probably dead too
	}
	return unreachable(explain(pgsession.Pooled(err)))
}

// Close implements [journal.Reader]. Closing again does nothing.
func (r *Reader) Close() error {
	r.pool.Close()
	return nil
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
