package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/e2e/bench/measure"
	"github.com/roost-cluster/roost/e2e/bench/report"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
)

// durablePostgres measures durable commands at the runner on PostgreSQL, if it is
// installed.
func (r *run) durablePostgres() error {
	tb := &exitTB{}
	defer tb.end()
	server := tb.start()
	if server == nil {
		r.report.Skipped = append(r.report.Skipped, "PostgreSQL: "+tb.why)
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
	l, err := startLocal(r.ctx, open.At{URL: server.URL(postgrestest.Superuser, name)})
	if err != nil {
		return err
	}
	if _, err := r.durableAtRunner(onPostgres, l, measure.Subject{Name: "bare batch insert", Run: bare.insert}); err != nil {
		_ = l.close() // the first error counts
		return err
	}
	return l.close()
}

// twoDatabases compares a journal of two databases, each on a server of its own, with one: half of the commands
// go to entities of a type that is in the second one.
func (r *run) twoDatabases() (err error) {
	var urls [3]string
	for i := range urls {
		tb := &exitTB{}
		defer tb.end()
		server := tb.start()
		if server == nil {
			r.report.Skipped = append(r.report.Skipped, "PostgreSQL: "+tb.why)
			return nil
		}
		name, err := server.NewDatabase()
		if err != nil {
			return err
		}
		urls[i] = server.URL(postgrestest.Superuser, name)
	}
	one, err := startLocal(r.ctx, open.At{URL: urls[0]})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, one.close()) }()
	two, err := startLocal(r.ctx, open.At{
		URL: urls[1], Databases: []string{"2=" + urls[2]}, Types: map[string]string{entities.SavingsType: "2"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, two.close()) }()
	load := func(name string, l *local) measure.Subject {
		callers := r.Sizes.Accounts
		a, deposit := newLocalAsker(l, callers), l.deposits(callers, entities.AccountType, entities.SavingsType)
		var next atomic.Uint64
		return measure.Subject{Name: name, Run: func(length time.Duration) (measure.Sample, error) {
			return measure.Callers(callers, length, func(c int) error {
				a.callers[c].command[0] = deposit(uint64(c), next.Add(1))
				return a.ask(c)
			})
		}}
	}
	return r.compare("commands/s", load("one server", one), subject{load("two servers", two), report.Row{
		Section: onPostgres, Measure: fmt.Sprintf("at the runner, %d entities of two types, on two servers", r.Sizes.Accounts),
	}})
}

// servicePostgres compares durable commands by HTTP with a service that a developer would write by hand, on one
// server of PostgreSQL.
func (r *run) servicePostgres() (err error) {
	tb := &exitTB{}
	defer tb.end()
	server := tb.start()
	if server == nil {
		r.report.Skipped = append(r.report.Skipped, "PostgreSQL: "+tb.why)
		return nil
	}
	var names [2]string
	for i := range names {
		if names[i], err = server.NewDatabase(); err != nil {
			return err
		}
	}
	s, err := r.startCluster("cluster-postgres", server.URL(postgrestest.Superuser, names[0]))
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return err
	}
	return r.besideService(besidePostgres, s, server.URL(postgrestest.Superuser, names[1]), [4]float64{0.9, 4, 5, 10})
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

// exitTB lets the server of the tests run outside a test. It records why there is no
// server, and what to clean up.
type exitTB struct {
	testing.TB
	cleanups []func()
	why      string
}

func (tb *exitTB) start() (server *postgrestest.Server) {
	done := make(chan struct{})
	go func() { // a goroutine that Skip and Fatal can end
		defer close(done)
		server = postgrestest.Start(tb)
	}()
	<-done
	return server
}

// Helper does nothing.
func (tb *exitTB) Helper() {}

// Cleanup keeps f for the end.
func (tb *exitTB) Cleanup(f func()) { tb.cleanups = append(tb.cleanups, f) }

// Fatal records why there is no server.
func (tb *exitTB) Fatal(args ...any) { tb.stop(fmt.Sprintln(args...)) }

// Fatalf records why there is no server.
func (tb *exitTB) Fatalf(format string, args ...any) { tb.stop(fmt.Sprintf(format, args...)) }

// Skip records why there is no server.
func (tb *exitTB) Skip(args ...any) { tb.stop(fmt.Sprintln(args...)) }

// Skipf records why there is no server.
func (tb *exitTB) Skipf(format string, args ...any) { tb.stop(fmt.Sprintf(format, args...)) }

func (tb *exitTB) stop(why string) {
	tb.why = strings.TrimSpace(why)
	runtime.Goexit()
}

func (tb *exitTB) end() {
	for _, f := range slices.Backward(tb.cleanups) {
		f()
	}
}
