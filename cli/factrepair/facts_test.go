package factrepair

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/factstream"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/journal/postgres"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/journal/sqlite"
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
)

// store is a journal, and how it is damaged behind the backend's back.
type store struct {
	journal.Backend
	damage func(of sharding.Entity, seq uint64)
	remove func(of sharding.Entity, seq uint64) // nil: it cannot
}

func onMemory(*testing.T) store {
	d := memory.New(journal.DefaultConfig())
	return store{Backend: d, damage: func(of sharding.Entity, seq uint64) { d.Inspect(func(l *memory.Ledger) { l.Damage(of, seq) }) }}
}

func onSQLite(t *testing.T) store {
	path := filepath.Join(t.TempDir(), "journal.db")
	d, err := sqlite.Open(t.Context(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	db, err := sql.Open("sqlite", "file:"+path+"?vfs="+sqlite.VFS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return inDatabase(t, d, db, "UPDATE record SET body = CAST(CASE substr(body, 1, 1) WHEN x'00' THEN x'ff' ELSE x'00' END || substr(body, 2) AS BLOB)", "DELETE FROM record",
		" WHERE entity = (SELECT id FROM entity WHERE type = ? AND name = CAST(? AS TEXT)) AND seq = ?")
}

func onPostgres(t *testing.T) store {
	server := postgrestest.Start(t)
	name, err := server.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	url := server.URL(postgrestest.Superuser, name)
	d, err := postgres.Open(t.Context(), url, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return inDatabase(t, d, db, "UPDATE roost.record SET body = set_byte(body, length(body) - 1, 255 - get_byte(body, length(body) - 1))", "DELETE FROM roost.record",
		" WHERE entity = (SELECT id FROM roost.entity WHERE type = $1 AND name = $2) AND seq = $3")
}

func inDatabase(t *testing.T, d journal.Backend, db *sql.DB, damage, remove, which string) store {
	exec := func(statement string, of sharding.Entity, seq uint64) {
		t.Helper()
		r, err := db.ExecContext(t.Context(), statement+which, string(of.Type), []byte(of.ID), int64(seq))
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := r.RowsAffected(); n != 1 {
			t.Fatalf("%s: %d rows", statement, n)
		}
	}
	return store{d,
		func(of sharding.Entity, seq uint64) { t.Helper(); exec(damage, of, seq) },
		func(of sharding.Entity, seq uint64) { t.Helper(); exec(remove, of, seq) },
	}
}

var (
	cart   = sharding.TypeDesc{Type: "Cart", Shards: 4}
	region = sharding.NodeID{Addr: "r1:1", UID: 1}
	anna   = sharding.Entity{Type: "Cart", ID: "anna"}
	self   = sharding.NodeID{Addr: "c1:1", UID: 9}
)

func encode(t *testing.T, name string, m proto.Message) sharding.Event {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return sharding.Event{Name: name, Encoding: sharding.Protobuf, Payload: b}
}

func (s store) must(t *testing.T, ops ...journal.Op) {
	t.Helper()
	for _, op := range ops {
		r, err := s.Commit(t.Context(), []journal.Op{op})
		if err != nil || r[0].Verdict != sharding.Durable {
			t.Fatalf("%s: %v, %v", op.Kind(), r, err)
		}
	}
}

func add(e sharding.Entity, shard sharding.ShardID, at sharding.Epoch, seq uint64, events ...sharding.Event) journal.Op {
	return journal.Op{Append: &sharding.Append{Shard: shard, Epoch: at, Entity: e, Records: []sharding.Record{{Seq: seq, Events: events}}}}
}

// fill stores what a coordinator of term 3 stores, and an entity of a region.
func (s store) fill(t *testing.T) {
	t.Helper()
	if _, err := s.Declare(t.Context(), journal.Declaration{Cluster: "shop", Types: []sharding.TypeDesc{cart}}); err != nil {
		t.Fatal(err)
	}
	term := sharding.MakeEpoch(3, 0)
	row := func(i uint32) sharding.Event {
		return encode(t, wire.RowFactName, wire.ToRowFact(wire.RowFact{Row: sharding.Row{
			Shard: sharding.ShardID{Type: "Cart", Index: i}, Owner: region, Epoch: sharding.MakeEpoch(3, i+1), Phase: sharding.Serving,
		}}))
	}
	typ := encode(t, wire.TypeFactName, wire.ToTypeFact(wire.TypeFact{Desc: cart, Forms: []sharding.Form{{Kind: sharding.FormOfEvent, Name: "added"}}, By: []string{"v1"}}))
	decision := encode(t, "explanation", &coordinatorv1.Decision{Term: 3, N: 1, Request: "x"})
	claim := func(of sharding.ShardID, at sharding.Epoch, owner sharding.NodeUID) journal.Op {
		return journal.Op{Claim: &sharding.Claim{Shard: of, Epoch: at, Owner: owner}}
	}
	s.must(t, claim(factsShard, term, self.UID))
	s.beat(t, 3, 1)
	cart0 := sharding.ShardID{Type: "Cart"}
	s.must(t,
		add(wire.FactsEntity, factsShard, term, 1, typ, row(0)), add(wire.FactsEntity, factsShard, term, 2, typ, row(0)), add(wire.FactsEntity, factsShard, term, 3, row(1)),
		add(wire.FactsEntity, factsShard, term, 4, row(2), encode(t, "cordon", &coordinatorv1.CordonFact{Region: "region-2"})),
		journal.Op{Snapshot: &journal.WriteSnapshot{Shard: factsShard, Epoch: term, Entity: wire.FactsEntity, Cut: 1, Snapshot: journal.Snapshot{Seq: 1, Encoding: sharding.Protobuf}}},
		add(wire.DecisionsEntity, factsShard, term, 1, decision), add(wire.DecisionsEntity, factsShard, term, 2, decision),
		claim(cart0, sharding.MakeEpoch(3, 1), region.UID), add(anna, cart0, sharding.MakeEpoch(3, 1), 1, sharding.Event{Name: "added", Payload: []byte("1")}),
	)
}

// beat writes a journal heartbeat, as the active coordinator does.
func (s store) beat(t *testing.T, term sharding.Term, n uint64) {
	t.Helper()
	for _, op := range journal.HeartbeatOps(sharding.JournalHeartbeat{Coordinator: self, Cluster: 5, Term: term, N: n}) {
		s.must(t, op)
	}
}

func (s store) repair(ctx context.Context, o Options) (Report, error) {
	o.By, o.Reason = "ops", "bad disk"
	f := &repairing{d: s.Backend, o: o, patience: 10 * time.Millisecond}
	return f.run(ctx)
}

// stream reads the facts as a coordinator does.
func (s store) stream(t *testing.T) (names []string, owners map[uint32]string, last uint64) {
	t.Helper()
	l, err := s.Load(t.Context(), journal.LoadRequest{Entity: wire.FactsEntity})
	if err != nil {
		t.Fatal(err)
	}
	owners = map[uint32]string{}
	for _, r := range l.Records {
		for _, e := range r.Events {
			names = append(names, e.Name)
			if e.Name == wire.RowFactName {
				f, err := wire.DecodeRowFact(e.Payload)
				if err != nil {
					t.Fatal(err)
				}
				owners[f.Row.Shard.Index] = f.Row.Epoch.String() + " " + f.Row.Owner.Addr + " " + f.Successor.Addr
			}
		}
	}
	return names, owners, l.LastSeq
}

// TestFacts repairs damaged facts on each store: with a wrong checksum, missing, the last ones, and decisions.
func TestFacts(t *testing.T) {
	for name, open := range map[string]func(*testing.T) store{"memory": onMemory, "sqlite": onSQLite, "postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			s.fill(t)
			s.repairOnce(t, s.damage, 3, map[uint32]string{0: "4.1  r1:1", 1: "4.2  ", 2: "4.3  r1:1", 3: "4.4  "}, true)
			if s.remove == nil {
				return
			}
			_, _, last := s.stream(t)
			term := sharding.MakeEpoch(9, 0)
			s.must(t, journal.Op{Claim: &sharding.Claim{Shard: factsShard, Epoch: term, Owner: 8}}, add(wire.FactsEntity, factsShard, term, last+1), add(wire.FactsEntity, factsShard, term, last+2))
			s.repairOnce(t, s.remove, last+1, map[uint32]string{0: "10.1  r1:1", 1: "10.2  ", 2: "10.3  r1:1", 3: "10.4  "}, true)
		})
	}
}

// repairOnce damages a record, and repairs the facts.
func (s store) repairOnce(t *testing.T, damage func(sharding.Entity, uint64), seq uint64, want map[uint32]string, cordoned bool) {
	t.Helper()
	if r, err := s.repair(t.Context(), Options{}); err != nil || !r.Nothing {
		t.Fatalf("nothing is damaged: %+v, %v", r, err)
	}
	_, _, before := s.stream(t)
	damage(wire.FactsEntity, seq)
	if _, err := s.Load(t.Context(), journal.LoadRequest{Entity: wire.FactsEntity}); !errors.Is(err, journal.ErrCorrupt) {
		t.Fatalf("the facts are not damaged: %v", err)
	}
	dry, err := s.repair(t.Context(), Options{DryRun: true})
	if err != nil || len(dry.Findings) != 1 || dry.Findings[0].Record != seq || dry.Remainder.GivenOut != 4 {
		t.Fatalf("a dry run says %+v, %v", dry, err)
	}
	h, err := s.History(t.Context(), journal.HistoryRequest{Entity: wire.FactsEntity, Limit: 1, Bytes: 1})
	if err != nil || h.LastSeq != before {
		t.Fatalf("a dry run has changed the facts: %+v, %v", h, err)
	}
	r, err := s.repair(t.Context(), Options{})
	if err != nil || r.Term != dry.Term || len(r.Findings) != 1 {
		t.Fatalf("the repair says %+v, %v", r, err)
	}
	names, owners, _ := s.stream(t)
	for i, want := range want {
		if owners[i] != want {
			t.Errorf("shard %d is %q, want %q", i, owners[i], want)
		}
	}
	if names[0] != factstream.RepairedName || slices.Contains(names, "cordon") != cordoned || !slices.Contains(names, wire.TypeFactName) {
		t.Errorf("the facts are %v", names)
	}
	after, err := Check(t.Context(), s, 0)
	if err != nil || after.Damaged() {
		t.Errorf("afterwards %+v, %v", after, err)
	}
	if n := len(after.Repairs); n == 0 || after.Repairs[n-1].By != "ops" || after.Repairs[n-1].Reason != "bad disk" {
		t.Errorf("the repair is noted as %+v", after.Repairs)
	}
	l, err := s.Load(t.Context(), journal.LoadRequest{Entity: wire.DecisionsEntity})
	if err != nil || !strings.Contains(string(l.Records[len(l.Records)-1].Events[0].Payload), "repair the facts") {
		t.Errorf("the decisions say %+v, %v", l, err)
	}
	// The application's data is as it was, and its region still writes.
	a, err := s.Load(t.Context(), journal.LoadRequest{Entity: anna})
	if err != nil || len(a.Records) != int(a.LastSeq) || a.LastSeq == 0 {
		t.Errorf("anna is %+v, %v", a, err)
	}
	s.must(t, add(anna, sharding.ShardID{Type: "Cart"}, sharding.MakeEpoch(3, 1), a.LastSeq+1, sharding.Event{Name: "added"}))
	// A coordinator that was paused can store nothing any more.
	for _, op := range append(journal.HeartbeatOps(sharding.JournalHeartbeat{Coordinator: self, Term: r.Term - 1, N: 7}), add(wire.FactsEntity, factsShard, sharding.MakeEpoch(r.Term-1, 0), h.LastSeq+1)) {
		if res, err := s.Commit(t.Context(), []journal.Op{op}); err != nil || res[0].Verdict != sharding.RefusedEpoch {
			t.Errorf("an old coordinator's %s: %v, %v", op.Kind(), res, err)
		}
	}
}

// TestDecisions: damaged decisions are left behind.
func TestDecisions(t *testing.T) {
	s := onSQLite(t)
	s.fill(t)
	s.damage(wire.DecisionsEntity, 2)
	r, err := s.repair(t.Context(), Options{})
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Form != "decisions" || r.Remainder.GivenOut != 0 {
		t.Fatalf("the repair says %+v, %v", r, err)
	}
	if l, err := s.Load(t.Context(), journal.LoadRequest{Entity: wire.DecisionsEntity}); err != nil || len(l.Records) != 1 || l.LastSeq != 3 {
		t.Errorf("the decisions are %+v, %v", l, err)
	}
	if _, owners, _ := s.stream(t); owners[0] != "3.1 r1:1 " {
		t.Errorf("the rows are %v", owners)
	}
}

// TestLostNumberOfShards: the journal gets back what the facts still say.
func TestLostNumberOfShards(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	d, err := sqlite.Open(t.Context(), path, journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	s := store{Backend: d}
	s.fill(t)
	db, err := sql.Open("sqlite", "file:"+path+"?vfs="+sqlite.VFS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "DELETE FROM type"); err != nil {
		t.Fatal(err)
	}
	r, err := s.repair(t.Context(), Options{})
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Form != "journal" {
		t.Fatalf("the repair says %+v, %v", r, err)
	}
	facts, err := s.Backend.Facts(t.Context())
	if err != nil || len(facts.Types) != 1 || facts.Types[0].Shards != 4 {
		t.Errorf("the journal says %+v, %v", facts, err)
	}
}

// TestActive: as long as the heartbeat continues, a repair is refused, and names the active one. A dry run says it too.
func TestActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := onMemory(t)
		s.fill(t)
		s.damage(wire.FactsEntity, 3)
		over := make(chan struct{})
		go func() {
			for n := uint64(2); ; n++ {
				select {
				case <-time.After(time.Second):
					s.beat(t, 3, n)
				case <-over:
					return
				}
			}
		}()
		_, err := Facts(t.Context(), s, Options{})
		if !errors.Is(err, ErrActive) || !strings.Contains(err.Error(), "c1:1 in term 3") || !strings.Contains(err.Error(), "stop all coordinators") {
			t.Errorf("the repair says %v", err)
		}
		if r, err := Facts(t.Context(), s, Options{DryRun: true}); err != nil || !strings.Contains(r.Active, "c1:1 in term 3") {
			t.Errorf("a dry run says %+v, %v", r, err)
		}
		close(over)
		if _, err := Facts(t.Context(), s, Options{}); err != nil {
			t.Errorf("without a coordinator: %v", err)
		}
	})
}

// racing claims the facts in a higher term when the repair is about to do so.
type racing struct {
	journal.Backend
	before string // the kind of the operation before which it does
	term   sharding.Term
	t      *testing.T
}

func (r *racing) Commit(ctx context.Context, ops []journal.Op) ([]journal.Result, error) {
	if len(ops) == 1 && ops[0].Kind() == r.before {
		r.before = ""
		store{Backend: r.Backend}.must(r.t, journal.Op{Claim: &sharding.Claim{Shard: factsShard, Epoch: sharding.MakeEpoch(r.term, 0), Owner: 77}})
	}
	return r.Backend.Commit(ctx, ops)
}

// TestRace: a coordinator that takes over during a repair keeps it from having an effect, at whatever moment.
func TestRace(t *testing.T) {
	for _, kind := range []string{"claim", "append", "snapshot"} {
		synctest.Test(t, func(t *testing.T) {
			s := onMemory(t)
			s.fill(t)
			s.damage(wire.FactsEntity, 3)
			term := sharding.Term(4)
			if kind != "claim" {
				term = 5
			}
			_, err := Facts(t.Context(), &racing{s.Backend, kind, term, t}, Options{})
			if !errors.Is(err, ErrActive) {
				t.Errorf("before the %s: %v", kind, err)
			}
			if _, err := s.Load(t.Context(), journal.LoadRequest{Entity: wire.FactsEntity}); !errors.Is(err, journal.ErrCorrupt) {
				t.Errorf("before the %s: the facts are repaired: %v", kind, err)
			}
			if _, err := Facts(t.Context(), s, Options{}); err != nil {
				t.Errorf("before the %s: again: %v", kind, err)
			}
			if _, owners, _ := s.stream(t); len(owners) != 4 {
				t.Errorf("before the %s: rows %v", kind, owners)
			}
		})
	}
}

// TestAll: what the cluster can do without is dropped though nothing is damaged.
func TestAll(t *testing.T) {
	s := onMemory(t)
	s.fill(t)
	r, err := s.repair(t.Context(), Options{All: true})
	if err != nil || r.Nothing || !slices.Equal(r.Remainder.Dropped, []string{"cordon: 1"}) {
		t.Fatalf("the repair says %+v, %v", r, err)
	}
	if names, owners, _ := s.stream(t); slices.Contains(names, "cordon") || owners[0] != "4.1  " {
		t.Errorf("the facts are %v, %v", names, owners)
	}
}
