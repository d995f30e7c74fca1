package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
)

// durablePostgres measures durable commands at the runner on PostgreSQL, where
// it is installed.
func (r *run) durablePostgres() error {
	h := &host{}
	defer h.end()
	server := h.start()
	if server == nil {
		r.report.Skipped = append(r.report.Skipped, "PostgreSQL: "+h.why)
		return nil
	}
	name, err := server.NewDatabase()
	if err != nil {
		return err
	}
	bareName, err := server.NewDatabase()
	if err != nil {
		return err
	}
	bare, err := newBarePostgres(r.ctx, server.URL(postgrestest.Superuser, bareName), r.Sizes.Accounts)
	if err != nil {
		return err
	}
	defer func() { _ = bare.conn.Close(context.Background()) }()
	l, err := startLocal(r.ctx, server.URL(postgrestest.Superuser, name))
	if err != nil {
		return err
	}
	if _, err := r.durableAtRunner(onPostgres, l, measure.Subject{Name: "bare batch insert", Run: bare.insert}); err != nil {
		_ = l.close() // what failed first is worth more
		return err
	}
	return l.close()
}

// barePostgres inserts the rows that the journal would, many in a statement.
type barePostgres struct {
	ctx  context.Context
	conn *pgx.Conn
	rng  *rand.Rand
	seqs []int64
}

func newBarePostgres(ctx context.Context, url string, entities int) (*barePostgres, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, `
		CREATE TABLE record (entity bigint, seq bigint, body bytea, PRIMARY KEY (entity, seq));
		CREATE TABLE command (entity bigint, command bytea, seq bigint, PRIMARY KEY (entity, command))`)
	return &barePostgres{ctx: ctx, conn: conn, rng: rand.New(rand.NewPCG(1, 2)), seqs: make([]int64, entities)}, err
}

func (b *barePostgres) insert(length time.Duration) (measure.Sample, error) {
	began := time.Now()
	var ops int64
	for time.Since(began) < length {
		var entities, seqs []int64
		var bodies, commands [][]byte
		for range bareBatch {
			id := b.rng.IntN(len(b.seqs))
			b.seqs[id]++
			entities, seqs = append(entities, int64(id)), append(seqs, b.seqs[id])
			bodies, commands = append(bodies, make([]byte, bodyLen)), append(commands, fmt.Appendf(nil, "bench-%d", b.rng.Uint64()))
		}
		if _, err := b.conn.Exec(b.ctx, `WITH r AS (INSERT INTO record SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]))
			INSERT INTO command SELECT * FROM unnest($1::bigint[], $4::bytea[], $2::bigint[])`, entities, seqs, bodies, commands); err != nil {
			return measure.Sample{}, err
		}
		ops += bareBatch
	}
	return measure.Sample{Ops: ops, Elapsed: time.Since(began)}, nil
}

// host lets the server of the tests run outside a test: what it needs of one is
// to be told why there is none, and to clean up.
type host struct {
	testing.TB
	cleanups []func()
	why      string
}

func (h *host) start() (server *postgrestest.Server) {
	done := make(chan struct{})
	go func() { // that Skip and Fatal may end
		defer close(done)
		server = postgrestest.Start(h)
	}()
	<-done
	return server
}

// Helper does nothing.
func (h *host) Helper() {}

// Cleanup remembers what to do at the end.
func (h *host) Cleanup(f func()) { h.cleanups = append(h.cleanups, f) }

// Fatal says why there is no server.
func (h *host) Fatal(args ...any) { h.stop(fmt.Sprintln(args...)) }

// Fatalf says why there is no server.
func (h *host) Fatalf(format string, args ...any) { h.stop(fmt.Sprintf(format, args...)) }

// Skip says why there is no server.
func (h *host) Skip(args ...any) { h.stop(fmt.Sprintln(args...)) }

// Skipf says why there is no server.
func (h *host) Skipf(format string, args ...any) { h.stop(fmt.Sprintf(format, args...)) }

func (h *host) stop(why string) {
	h.why = strings.TrimSpace(why)
	runtime.Goexit()
}

func (h *host) end() {
	for _, f := range slices.Backward(h.cleanups) {
		f()
	}
}
