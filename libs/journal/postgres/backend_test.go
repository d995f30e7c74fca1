//go:build linux

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/journaltest"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/journal/spread/spreadtest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// newDatabase is an empty database and the URL of its superuser.
func newDatabase(t *testing.T, s *postgrestest.Server) (name, url string) {
	t.Helper()
	name, err := s.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	return name, s.URL(postgrestest.Superuser, name)
}

func openAt(t *testing.T, url string, cfg journal.Config) *Backend {
	t.Helper()
	b, err := Open(context.Background(), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	journaltest.Run(t, func(t *testing.T, cfg journal.Config, clock journal.Clock) journaltest.Harness {
		name, url := newDatabase(t, server)
		return harness(server, name, url, cfg, clock)
	})
}

const (
	// keepMeta keeps the row about a new journal.
	keepMeta = "CREATE TABLE new_meta AS TABLE roost.meta"
	// emptyJournal makes a journal as it was when it was new. A new schema or database would take several times as long.
	emptyJournal = `
		DO $$ BEGIN
			EXECUTE (SELECT 'TRUNCATE ' || string_agg(format('roost.%I', tablename), ', ') FROM pg_tables WHERE schemaname = 'roost');
		END $$;
		INSERT INTO roost.meta TABLE new_meta`
)

// TestSpread runs the suite on a journal of two databases of a server.
func TestSpread(t *testing.T) {
	if testing.Short() {
		t.Skip("not a short test")
	}
	t.Parallel()
	server := postgrestest.Start(t)
	var names, urls [2]string
	for i := range urls {
		names[i], urls[i] = newDatabase(t, server)
		d, err := Open(t.Context(), urls[i], journal.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Close(), server.Exec(names[i], keepMeta)); err != nil {
			t.Fatal(err)
		}
	}
	journaltest.Run(t, func(t *testing.T, cfg journal.Config, clock journal.Clock) journaltest.Harness {
		var stores [2]journaltest.Harness
		for i := range stores {
			if err := server.Exec(names[i], emptyJournal); err != nil {
				t.Fatal(err)
			}
			stores[i] = harness(server, names[i], urls[i], cfg, clock)
		}
		return spreadtest.Join(t, stores[0], stores[1])
	})
}

func harness(server *postgrestest.Server, name, url string, cfg journal.Config, clock journal.Clock) journaltest.Harness {
	return journaltest.Harness{
		Open: func() (journal.Backend, error) {
			b, err := Open(context.Background(), url, cfg)
			if err != nil {
				return nil, err
			}
			b.SetClock(clock)
			return b, nil
		},
		Replace: func(to sharding.Generation) error {
			return server.Exec(name, fmt.Sprintf("UPDATE roost.meta SET generation = %d", int64(to)))
		},
		SetLowest: func(reader, writer int) error {
			return server.Exec(name, fmt.Sprintf("UPDATE roost.meta SET min_reader = %d, min_writer = %d", reader, writer))
		},
		OpenReader: func() (journal.Reader, error) { return OpenReader(context.Background(), url, cfg) },
		Damage:     func(entity sharding.Entity, seq uint64) error { return damage(url, entity, seq) },
		Lose: func(entity sharding.Entity, seq uint64) error {
			return change(url, "DELETE FROM roost.record WHERE seq = $3 AND entity = "+entityID, string(entity.Type), []byte(entity.ID), int64(seq))
		},
		Renumber: func(entity sharding.Entity, seq uint64, to int64) error {
			return change(url, "UPDATE roost.record SET seq = $3 WHERE seq = $4 AND entity = "+entityID, string(entity.Type), []byte(entity.ID), to, int64(seq))
		},
		SetSnapshot: func(entity sharding.Entity, seq int64) error {
			return change(url, "UPDATE roost.entity SET snapshot = $3 WHERE id = "+entityID, string(entity.Type), []byte(entity.ID), seq)
		},
		Fill: func(full bool) error { return fill(server, name, full) },
	}
}

// damage flips one bit of a stored record.
func damage(url string, entity sharding.Entity, seq uint64) error {
	return change(url, `UPDATE roost.record SET body = set_byte(body, length(body) - 3, get_byte(body, length(body) - 3) # 16)
		WHERE seq = $3 AND entity = `+entityID, string(entity.Type), []byte(entity.ID), int64(seq))
}

const entityID = "(SELECT id FROM roost.entity WHERE type = $1 AND name = $2)"

// change runs a statement that changes one row, as an operator could.
func change(url, statement string, args ...any) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	tag, err := conn.Exec(ctx, statement, args...)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("%d rows changed", tag.RowsAffected())
	}
	return err
}

// fill makes the server answer as with a full disk.
func fill(s *postgrestest.Server, database string, full bool) error {
	if !full {
		return s.Exec(database, "DROP TRIGGER no_space ON roost.record")
	}
	return s.Exec(database, `
		CREATE OR REPLACE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
		END $$;
		CREATE TRIGGER no_space BEFORE INSERT ON roost.record EXECUTE FUNCTION no_space()`)
}

// hostile draws batches for which Decide in Go and commit_batch must decide the
// same: few names, many repetitions, numbers at the edges.
type hostile struct {
	*rand.Rand
	ledger *memory.Ledger
	now    time.Time
	calm   bool // draw what append_records may take: no claims, and appends that have only records
}

var edges = []uint64{0, 1, 2, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 1}

func (h hostile) epoch(s sharding.ShardID) sharding.Epoch {
	if f := h.ledger.Fence(s); h.IntN(4) > 0 {
		return f.Epoch
	}
	return sharding.Epoch(edges[h.IntN(len(edges))])
}

func (h hostile) command() sharding.CommandID {
	switch h.IntN(4) {
	case 0:
		return ""
	case 1: // a key with a time, sometimes early
		return sharding.CommandID(fmt.Sprintf("%08x-%04x-7000-8000-%012x", h.now.UnixMilli()>>16, h.now.UnixMilli()&0xffff, h.IntN(3)))
	}
	return sharding.CommandID(fmt.Sprint("c\x00ä", h.IntN(300)))
}

func (h hostile) op() (op journal.Op) {
	who := sharding.Entity{Type: "Account", ID: sharding.EntityID(fmt.Sprint("\xff\x00", h.IntN(5)))}
	s := sharding.ShardID{Type: who.Type, Index: uint32(edges[h.IntN(3)] + uint64(h.IntN(2))<<31)}
	have, _ := h.ledger.Load(journal.LoadRequest{Entity: who})
	kind := h.IntN(12)
	if h.calm && kind < 5 && kind != 3 {
		kind = 11
	}
	switch kind {
	case 0:
		return journal.Op{}
	case 1, 2:
		op.Claim = &sharding.Claim{Shard: s, Epoch: h.epoch(s) + sharding.Epoch(h.IntN(2)), Owner: sharding.NodeUID(edges[h.IntN(len(edges))])}
	case 3:
		op.Fence = &sharding.ReadFence{Shard: s, Epoch: h.epoch(s)}
	case 4, 5:
		seq := have.LastSeq + uint64(h.IntN(3)) - 1
		if h.IntN(3) == 0 {
			seq = edges[h.IntN(len(edges))]
		}
		op.Snapshot = &journal.WriteSnapshot{Shard: s, Epoch: h.epoch(s), Entity: who, Snapshot: journal.Snapshot{Seq: seq, Payload: []byte(fmt.Sprint(h.IntN(99)))}}
	default:
		a := &sharding.Append{Shard: s, Epoch: h.epoch(s), Entity: who}
		seq := have.LastSeq + 1
		if h.IntN(8) == 0 {
			seq = edges[h.IntN(len(edges))]
		}
		for range h.IntN(5) {
			r := sharding.Record{Seq: seq, Command: h.command(), Hash: sharding.CommandHash("", "Do", nil)}
			if !h.calm {
				r.Wakes, r.Sends = h.wakes(), make([]sharding.Send, max(0, h.IntN(12)-8))
			}
			a.Records = append(a.Records, r)
			if seq++; h.IntN(20) == 0 {
				seq++
			}
		}
		if !h.calm {
			h.rows(a)
		}
		op.Append = a
	}
	return op
}

var wakeNames = []string{"", "a", "\xff\x00", "ä"}

// wakes sets or removes wake-ups of names that are often the same, also in one record.
func (h hostile) wakes() []sharding.Wake {
	var all []sharding.Wake
	for range max(0, h.IntN(6)-3) {
		w := sharding.Wake{Kind: sharding.WakeKind(1 + h.IntN(2)), Name: wakeNames[h.IntN(len(wakeNames))], Due: int64(edges[h.IntN(len(edges))] >> 1), Period: 1}
		if w.Kind == sharding.RememberWake {
			w.Due = -w.Due
		}
		if h.IntN(3) == 0 {
			w.Number = edges[h.IntN(len(edges))]
		}
		all = append(all, w)
	}
	return all
}

// rows marks wake-ups as fired, and sends as ended, which is often not so.
func (h hostile) rows(a *sharding.Append) {
	for _, w := range h.stored(a.Shard).Entries {
		if w.Entity != a.Entity || h.IntN(3) > 0 {
			continue
		}
		f := sharding.Fired{WakeRef: w.WakeRef, Next: int64(edges[h.IntN(len(edges))])}
		if h.IntN(12) == 0 {
			f.Seq = edges[h.IntN(len(edges))]
		}
		if h.IntN(12) == 0 {
			f.Number = edges[h.IntN(len(edges))]
		}
		for range 1 + h.IntN(12)/11 {
			a.Fired = append(a.Fired, f)
		}
	}
	for range max(0, h.IntN(6)-3) {
		d := sharding.Delivered{Seq: uint64(h.IntN(40)), As: sharding.SendDone + sharding.SendState(h.IntN(3)), Once: h.IntN(8) == 0}
		for range h.IntN(4) {
			d.Sends = append(d.Sends, uint16(edges[h.IntN(len(edges))]+uint64(h.IntN(4))))
		}
		a.Delivered = append(a.Delivered, d)
	}
}

// stored are the wake-ups of a shard in the ledger.
func (h hostile) stored(s sharding.ShardID) journal.WakesPage {
	return h.ledger.Wakes(h.now, journal.WakesRequest{Shards: []journal.ShardPosition{{Shard: s, After: journal.WakePosition{Due: math.MinInt64}}}, Limit: 1000})
}

// rowsOf describes the rows of wake-ups and sends.
func rowsOf(wakes []journal.WakeEntry, sends []journal.SendEntry) string {
	var lines []string
	for _, w := range wakes {
		lines = append(lines, fmt.Sprintf("wake %v", w))
	}
	for _, s := range sends {
		lines = append(lines, fmt.Sprintf("send %v %v %d %x %v %v", s.Shard, s.Entity, s.Seq, s.States, s.Sends, s.Err))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// byAppend reports the result of append_records for a batch.
func byAppend(ops []journal.Op, results []journal.Result, cfg *journal.Config) string {
	x := newAppends(ops, time.Time{}, cfg)
	switch {
	case x == nil:
		return "nothing by append_records"
	case slices.ContainsFunc(x.ops, func(i int) bool { return results[i].Verdict != sharding.Durable }):
		return "append_records fails"
	case len(x.rest) > 0:
		return "some by append_records"
	}
	return "all by append_records"
}

// TestDecidesLikeTheLaw compares the verdicts, the fences in them, and the
// stored data, over batches that no caller in its right mind would send too.
func TestDecidesLikeTheLaw(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	cfg := journal.DefaultConfig()
	cfg.DedupeCount = 1 << 30 // when entries are dropped is each backend's affair
	seen := map[string]int{}
	for seed := range uint64(4) {
		_, url := newDatabase(t, server)
		b := openAt(t, url, cfg)
		h := hostile{rand.New(rand.NewPCG(seed, 5)), memory.NewLedger(cfg), time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), false}
		b.SetClock(func() (time.Time, time.Duration) { return h.now, 0 })
		for round := range 240 {
			h.now = h.now.Add(time.Duration(h.IntN(3)) * time.Millisecond)
			h.calm = round%2 == 1
			ops := make([]journal.Op, 1+h.IntN(12))
			if h.calm {
				ops = ops[:(len(ops)+2)/3]
			}
			for i := range ops {
				ops[i] = h.op()
			}
			got, err := b.Commit(t.Context(), ops)
			if err != nil {
				t.Fatalf("seed %d round %d: %v", seed, round, err)
			}
			law := h.ledger.Apply(journal.Moment{Wall: h.now}, ops)
			seen[byAppend(ops, law, &cfg)]++
			for i, want := range law {
				seen[fmt.Sprint(ops[i].Kind(), " ", want.Verdict)]++
				if got[i] != want {
					t.Fatalf("seed %d round %d: operation %d of %d (%s) is %+v, the law says %+v", seed, round, i, len(ops), ops[i].Kind(), got[i], want)
				}
			}
		}
		var wakes journal.WakesRequest
		var sends journal.SendsRequest
		for i := range 6 {
			s := sharding.ShardID{Type: "Account", Index: uint32(edges[i/2] + uint64(i%2)<<31)}
			wakes.Shards = append(wakes.Shards, journal.ShardPosition{Shard: s, After: journal.WakePosition{Due: math.MinInt64}})
			sends.Shards = append(sends.Shards, journal.SendPosition{Shard: s})
		}
		wakes.Limit, sends.Limit = 1000, 1000
		gotWakes, err := b.Wakes(t.Context(), wakes)
		if err != nil {
			t.Fatal(err)
		}
		gotSends, err := b.Sends(t.Context(), sends)
		if err != nil {
			t.Fatal(err)
		}
		want := rowsOf(h.ledger.Wakes(h.now, wakes).Entries, h.ledger.Sends(h.now, sends).Entries)
		if got := rowsOf(gotWakes.Entries, gotSends.Entries); got != want {
			t.Fatalf("seed %d: the rows are\n%s\nwant\n%s", seed, got, want)
		}
		for i := range 5 {
			req := journal.LoadRequest{Entity: sharding.Entity{Type: "Account", ID: sharding.EntityID(fmt.Sprint("\xff\x00", i))}}
			for n := range 300 {
				req.Lookup = append(req.Lookup, sharding.CommandID(fmt.Sprint("c\x00ä", n)))
			}
			got, err := b.Load(t.Context(), req)
			want, _ := h.ledger.Load(req)
			if err != nil || fmt.Sprint(got.LastSeq, got.Snapshot, got.Records, got.Stored, got.Pending) != fmt.Sprint(want.LastSeq, want.Snapshot, want.Records, want.Stored, want.Pending) {
				t.Fatalf("seed %d: entity %d is %v (%v), want %v", seed, i, got, err, want)
			}
		}
	}
	for _, kind := range []string{"claim", "append", "snapshot", "fence"} {
		for _, v := range []sharding.Verdict{sharding.Durable, sharding.RefusedEpoch} {
			if seen[fmt.Sprint(kind, " ", v)] < 20 {
				t.Errorf("too seldom: %v", seen)
			}
		}
	}
	for _, what := range []string{"all by append_records", "some by append_records", "append_records fails", "append " + sharding.RefusedSeq.String(), "append " + sharding.RefusedCommand.String(), "snapshot " + sharding.RefusedSeq.String()} {
		if seen[what] < 20 {
			t.Errorf("too seldom: %q of %v", what, seen)
		}
	}
}
