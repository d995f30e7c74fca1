package stored

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Box is the stored type of the tests: first by version 1 of its program.
type Box struct{ Sum int64 }

type (
	put     struct{ Count int64 }
	taken   struct{ Count int64 }
	counted struct {
		Count int64
		Who   string
	}
)

func (b *Box) apply(ev any) {
	switch e := ev.(type) {
	case put:
		if e.Count < 0 {
			panic("a negative count")
		}
		b.Sum += e.Count
	case counted:
		b.Sum += e.Count
	}
}

// declare declares events of a Box.
func declare[T any](name string, options ...entity.EventOption) entity.Declaration[Box] {
	return entity.Event(name, func(b *Box, e T) { b.apply(e) }, options...)
}

func (b *Box) Show(*entity.Ctx, struct{}) (int64, error) { return b.Sum, nil }

// Other is a Box whose snapshots are unreadable.
type Other struct{ Box }

func (*Other) Snapshot() ([]byte, error) { return nil, nil }
func (*Other) Restore([]byte) error      { return errors.New("not today") }

func boxes(events ...entity.Declaration[Box]) entity.Definition { return named("Box", events...) }

func named(name string, events ...entity.Declaration[Box]) entity.Definition {
	show := entity.Command[struct{}, int64](name, "Show", entity.ReadOnly())
	return entity.Define(name, func(string) *Box { return &Box{} }, append(events, entity.On(show, (*Box).Show), entity.With[Box](entity.Shards(8), entity.SnapshotEvery(10)))...)
}

func others(events ...entity.Declaration[Other]) entity.Definition {
	show := entity.Command[struct{}, int64]("Box", "Show", entity.ReadOnly())
	return entity.Define("Box", func(string) *Other { return &Other{} }, append(events,
		entity.On(show, func(o *Other, c *entity.Ctx, in struct{}) (int64, error) { return o.Show(c, in) }),
		entity.With[Other](entity.Shards(8), entity.SnapshotEvery(10)))...)
}

// v1 is the type as it was when the tests stored its events.
func v1() entity.Definition { return boxes(declare[put]("put"), declare[taken]("taken")) }

// store is a journal in memory of the cluster "blue".
type store struct {
	*memory.Backend
	t *testing.T
}

func newStore(t *testing.T) *store {
	s := &store{memory.New(journal.DefaultConfig()), t}
	if _, err := s.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Box", Shards: 8}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *store) commit(ops ...journal.Op) {
	s.t.Helper()
	results, err := s.Commit(s.t.Context(), ops)
	if err != nil {
		s.t.Fatal(err)
	}
	for i, r := range results {
		if r.Verdict != sharding.Durable {
			s.t.Fatalf("operation %d is %v", i, r.Verdict)
		}
	}
}

// event is a stored one of version 1.
func event(name, payload string) sharding.Event {
	return sharding.Event{Name: name, Version: 1, ReadableBy: 1, Payload: []byte(payload)}
}

// add stores a record for each event of an entity that is new.
func (s *store) add(typ sharding.EntityType, id sharding.EntityID, events ...sharding.Event) {
	s.t.Helper()
	shard := sharding.ShardID{Type: typ}
	a := &sharding.Append{Shard: shard, Epoch: 1, Entity: sharding.Entity{Type: typ, ID: id}}
	for i, ev := range events {
		a.Records = append(a.Records, sharding.Record{Seq: uint64(i) + 1, Events: []sharding.Event{ev}})
	}
	s.commit(journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}, journal.Op{Append: a})
}

func (s *store) snapshot(id sharding.EntityID, seq uint64, form sharding.SnapshotForm, payload string) {
	s.t.Helper()
	s.commit(journal.Op{Snapshot: &journal.WriteSnapshot{
		Shard: sharding.ShardID{Type: "Box"}, Epoch: 1, Entity: sharding.Entity{Type: "Box", ID: id},
		Snapshot: journal.Snapshot{Seq: seq, Form: form, Payload: []byte(payload)},
	}})
}

func (s *store) damage(id sharding.EntityID, seq uint64) {
	s.Inspect(func(l *memory.Ledger) { l.Damage(sharding.Entity{Type: "Box", ID: id}, seq) })
}

// form returns the form of a type's snapshots.
func form(t *testing.T, typ entity.Definition) sharding.SnapshotForm {
	t.Helper()
	inst, err := instance.New(typ, "x")
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := inst.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func check(t *testing.T, r journal.Reader, cfg Config, types ...entity.Definition) Report {
	t.Helper()
	report, err := Check(t.Context(), r, types, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Complete || report.Cluster != "blue" {
		t.Errorf("report %+v", report)
	}
	return report
}

// wantProblem compares the only problem of a report: subject, parts of its texts, and the
// examples as "id seq".
func wantProblem(t *testing.T, r Report, subject, problem, fix string, examples ...string) Problem {
	t.Helper()
	if len(r.Problems) != 1 {
		t.Fatalf("%d problems: %+v", len(r.Problems), r.Problems)
	}
	p := r.Problems[0]
	var got []string
	for _, x := range p.Examples {
		got = append(got, fmt.Sprint(x.ID, " ", x.Seq))
	}
	if p.Subject() != subject || !strings.Contains(p.Problem, problem) || !strings.Contains(p.Fix, fix) || !slices.Equal(got, examples) || p.Entities != len(examples) {
		t.Errorf("problem %+v", p)
	}
	if r.Unreadable() != len(examples) {
		t.Errorf("%d unreadable", r.Unreadable())
	}
	return p
}

// TestCheckReadsAll: entities, events and snapshots are counted, and everything is fine.
func TestCheckReadsAll(t *testing.T) {
	s := newStore(t)
	s.add("Box", "a", event("put", `{"Count":1}`), event("taken", `{"Count":1}`))
	s.add("Box", "b", event("put", `{"Count":1}`), event("put", `{"Count":2}`), event("put", `{"Count":3}`))
	s.snapshot("b", 2, form(t, v1()), `{"Sum":3}`)
	s.add("Box", "c", event("put", `{"Count":1}`))
	s.snapshot("c", 1, sharding.SnapshotForm{Version: 1, Shape: 7}, `{"Total":1}`)
	s.add("Box", "d", event("put", `{"Count":1}`))
	s.commit(journal.Op{Snapshot: &journal.WriteSnapshot{
		Shard: sharding.ShardID{Type: "Box"}, Epoch: 1, Entity: sharding.Entity{Type: "Box", ID: "d"},
		Snapshot: journal.Snapshot{Seq: 1, Form: form(t, v1()), Encoding: sharding.Protobuf, Payload: []byte(`{"Sum":3}`)},
	}})
	var steps []int
	cfg := DefaultConfig()
	cfg.Page, cfg.Progress = 2, func(done, total int) { steps = append(steps, done, total) }
	got := check(t, s, cfg, v1())
	want := TypeReport{Type: "Box", Entities: 4, Checked: 4, Events: 7, Snapshots: 3, Ignored: 2}
	if len(got.Types) != 1 || got.Types[0] != want || len(got.Problems)+len(got.Skipped)+got.Others != 0 {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(steps, []int{1, 4, 2, 4, 3, 4, 4, 4}) {
		t.Errorf("progress %v", steps)
	}
}

// TestCheckFinds: what a program cannot read is named, with what its author can do.
func TestCheckFinds(t *testing.T) {
	type renamed struct{ Number int64 }
	later := sharding.Event{Name: "put", Version: 3, ReadableBy: 2, Payload: []byte(`{"Count":1}`)}
	for _, test := range []struct {
		name    string
		program entity.Definition
		fill    func(s *store)
		problem [3]string
		where   []string
		loads   bool
	}{
		{"a renamed field", boxes(declare[renamed]("put"), declare[taken]("taken")), func(s *store) {
			s.add("Box", "b", event("taken", `{"Count":1}`), event("put", `{"Count":1}`))
			s.add("Box", "a", event("put", `{"Count":1}`))
			s.add("Box", "c", event("taken", `{"Count":1}`))
		}, [3]string{"Box, event put of version 1", `field "Count" that this program does not know`, "V(2, entity.From(1, …))"}, []string{"a 1", "b 2"}, false},
		{"a lost event", boxes(declare[put]("put")), func(s *store) {
			s.add("Box", "a", event("put", `{"Count":1}`), event("taken", `{"Count":1}`))
		}, [3]string{"Box, event taken of version 1", "unknown event type taken", `if a later version of the program has stored it, run that version; otherwise declare the event taken again, or give the event that it has become an Alias("taken")`}, []string{"a 2"}, false},
		{"a lost step", boxes(declare[counted]("put", entity.V(2))), func(s *store) {
			s.add("Box", "a", event("put", `{"Count":1}`))
		}, [3]string{"Box, event put of version 1", "no step leads from there", "entity.From(1, …)"}, []string{"a 1"}, false},
		{"a step that does not fit", boxes(declare[counted]("put", entity.V(2, entity.From(1, func(renamed) counted { return counted{} })))), func(s *store) {
			s.add("Box", "a", event("put", `{"Count":1}`))
		}, [3]string{"Box, event put of version 1", `field "Count"`, "the step from version 1"}, []string{"a 1"}, false},
		{"a later version", v1(), func(s *store) { s.add("Box", "a", later) },
			[3]string{"Box, event put of version 3", "of version 3, and this program knows version 1", "ReadableBy(1)"}, []string{"a 1"}, false},
		{"an encoding of a later release", v1(), func(s *store) {
			s.add("Box", "a", sharding.Event{Name: "put", Version: 1, ReadableBy: 1, Encoding: 7, Payload: []byte(`{"Count":1}`)})
		}, [3]string{"Box, event put of version 1", "encoding 7", "run the release of Roost that has stored it"}, []string{"a 1"}, false},
		{"a field twice", v1(), func(s *store) { s.add("Box", "a", event("put", `{"Count":1,"Count":2}`)) },
			[3]string{"Box, event put of version 1", `field "Count" is there twice`, "restore the journal from a copy"}, []string{"a 1"}, false},
		{"a field that an older reader needs", v1(), func(s *store) {
			s.add("Box", "a", sharding.Event{Name: "put", Version: 2, ReadableBy: 1, Payload: []byte(`{"Who":"anna"}`)})
		}, [3]string{"Box, event put of version 2", `without the field "Count"`, "correct its ReadableBy(1)"}, []string{"a 1"}, false},
		{"a panic", v1(), func(s *store) { s.add("Box", "a", event("put", `{"Count":-1}`)) },
			[3]string{"Box, event put of version 1", "panicked: a negative count", "must take every event"}, []string{"a 1"}, false},
		{"before a snapshot", boxes(declare[renamed]("put"), declare[taken]("taken")), func(s *store) {
			s.add("Box", "a", event("put", `{"Count":1}`), event("taken", `{"Count":1}`))
			s.snapshot("a", 1, form(t, v1()), `{"Sum":1}`)
		}, [3]string{"Box, event put of version 1", `field "Count"`, "V(2"}, []string{"a 1"}, true},
		{"a snapshot", others(entity.Event("put", func(o *Other, e put) { o.apply(e) })), func(s *store) {
			s.add("Box", "a", event("put", `{"Count":1}`))
			s.snapshot("a", 1, form(t, others()), `?`)
		}, [3]string{"Box, snapshot", "not today", "SnapshotV, so that older snapshots are ignored or read by a step; or drop it"}, []string{"a 1"}, false},
		{"a damaged record", v1(), func(s *store) {
			s.add("Box", "a", event("put", `{"Count":1}`), event("put", `{"Count":1}`))
			s.damage("a", 2)
		}, [3]string{"Box, stored data", "damaged", "roost journal repair record"}, []string{"a 0"}, false},
		{"a damaged record before a snapshot", v1(), func(s *store) {
			s.add("Box", "a", event("put", `{"Count":1}`), event("put", `{"Count":1}`))
			s.snapshot("a", 1, form(t, v1()), `{"Sum":1}`)
			s.damage("a", 1)
		}, [3]string{"Box, stored data", "damaged", "roost journal repair record"}, []string{"a 0"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStore(t)
			test.fill(s)
			s.t = t
			p := wantProblem(t, check(t, s, DefaultConfig(), test.program), test.problem[0], test.problem[1], test.problem[2], test.where...)
			if p.Loads != test.loads {
				t.Errorf("loads: %v", p.Loads)
			}
			for _, x := range p.Examples {
				if x.Seq == 0 && !strings.Contains(x.Detail, "record") {
					t.Errorf("an example says not where: %+v", x)
				}
			}
		})
	}
}

// TestCheckIsAsStrictAsALoad: an entity can be rebuilt from its journal, as a region does
// it, exactly if the check finds nothing or finds it before a snapshot.
func TestCheckIsAsStrictAsALoad(t *testing.T) {
	s := newStore(t)
	payloads := []string{`{"Count":1}`, `{"Count":-1}`, `{"Kount":1}`, `{"Count":"1"}`, `{`, ``, `{}`, `null`, `{"Count":1}{}`}
	for i, payload := range payloads {
		s.add("Box", sharding.EntityID(fmt.Sprint(i)), event("put", `{"Count":1}`), event("put", payload))
	}
	cfg := DefaultConfig()
	cfg.Examples = len(payloads)
	report := check(t, s, cfg, v1())
	bad := map[sharding.EntityID]bool{}
	for _, p := range report.Problems {
		for _, x := range p.Examples {
			bad[x.ID] = true
		}
	}
	for i := range payloads {
		id := sharding.EntityID(fmt.Sprint(i))
		found, _, err := Load(t.Context(), s, v1(), journal.LoadRequest{Entity: sharding.Entity{Type: "Box", ID: id}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Rebuild(v1(), id, &found); (err != nil) != bad[id] {
			t.Errorf("%s: rebuilt: %v, found by the check: %v", payloads[i], err, bad[id])
		}
	}
}

// TestCheckIsBounded: however much is wrong, the report is short and counts the rest.
func TestCheckIsBounded(t *testing.T) {
	s := newStore(t)
	for n := range 30 {
		s.add("Box", sharding.EntityID(fmt.Sprintf("%02d", n)), event(fmt.Sprint("gone", n%3), `{}`))
	}
	cfg := DefaultConfig()
	cfg.Kinds, cfg.Examples = 2, 4
	r := check(t, s, cfg, v1())
	if r.Unreadable() != 30 || len(r.Problems) != 2 || r.Others != 10 {
		t.Fatalf("%+v", r)
	}
	for _, p := range r.Problems {
		if p.Entities != 10 || len(p.Examples) != 4 {
			t.Errorf("%+v", p)
		}
	}
}

// TestCheckSamples: as many as asked for, others with another seed, the same with the same.
func TestCheckSamples(t *testing.T) {
	s := newStore(t)
	for n := range 50 {
		s.add("Box", sharding.EntityID(fmt.Sprintf("%02d", n)), event("gone", `{}`))
	}
	s.add("Rare", "one", event("put", `{"Count":1}`))
	draw := func(seed uint64) string {
		cfg := DefaultConfig()
		cfg.Sample, cfg.Seed, cfg.Page, cfg.Examples = 10, seed, 7, 50
		r := check(t, s, cfg, v1(), named("Rare", declare[put]("put")))
		if r.Sample != 10 || r.Seed != seed || r.Types[0].Entities != 50 || r.Types[0].Checked != 10 || r.Types[1].Checked != 1 {
			t.Errorf("%+v", r)
		}
		ids, err := json.Marshal(r.Problems[0].Examples)
		if err != nil {
			t.Fatal(err)
		}
		return string(ids)
	}
	seen := map[string]bool{}
	for seed := range uint64(5) {
		first := draw(seed)
		if again := draw(seed); again != first {
			t.Errorf("seed %d: %s, then %s", seed, first, again)
		}
		seen[first] = true
	}
	if len(seen) < 4 {
		t.Errorf("five seeds gave %d samples", len(seen))
	}
}

// TestCheckSkips: types that the program does not read are counted and named, Roost's own
// are not.
func TestCheckSkips(t *testing.T) {
	s := newStore(t)
	s.add("Box", "a", event("put", `{"Count":1}`))
	s.add("Gone", "a", event("put", `{"Count":1}`))
	s.add("Gone", "b", event("put", `{"Count":1}`))
	s.add("Memo", "a", event("put", `{"Count":1}`))
	s.add("roost.coordinator", "facts", event("put", `{"Count":1}`))
	show := entity.Command[struct{}, int64]("Memo", "Show", entity.ReadOnly())
	memo := entity.Define("Memo", func(string) *Box { return &Box{} }, entity.On(show, (*Box).Show), entity.With[Box](entity.Volatile()))
	r := check(t, s, DefaultConfig(), v1(), memo)
	want := []Skipped{{"Gone", 2, "this program has no such type"}, {"Memo", 1, "it is volatile in this program, which reads nothing of it"}}
	if !slices.Equal(r.Skipped, want) || r.Unreadable() > 0 || r.Passed() {
		t.Errorf("%+v", r)
	}
	cfg := DefaultConfig()
	cfg.Types = []sharding.EntityType{"Box"}
	if r := check(t, s, cfg, v1(), memo); len(r.Skipped) > 0 || r.Types[0].Checked != 1 || !r.Passed() {
		t.Errorf("%+v", r)
	}
	for _, typ := range []sharding.EntityType{"Gone", "Memo"} {
		cfg.Types = []sharding.EntityType{typ}
		if _, err := Check(t.Context(), s, []entity.Definition{v1(), memo}, cfg); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), string(typ)) {
			t.Errorf("--type %s: %v", typ, err)
		}
	}
}

// TestCheckRefusesAProgramThatCouldNotStart: a region would refuse the journal.
func TestCheckRefusesAProgramThatCouldNotStart(t *testing.T) {
	s := newStore(t)
	show := entity.Command[struct{}, int64]("Box", "Show", entity.ReadOnly())
	other := entity.Define("Box", func(string) *Box { return &Box{} }, entity.On(show, (*Box).Show), entity.With[Box](entity.Shards(16)))
	if _, err := Check(t.Context(), s, []entity.Definition{other}, DefaultConfig()); !errors.Is(err, journal.ErrShardCount) {
		t.Errorf("16 shards for 8: %v", err)
	}
	volatile := entity.Define("Box", func(string) *Box { return &Box{} }, entity.On(show, (*Box).Show), entity.With[Box](entity.Volatile(), entity.Shards(16)))
	if _, err := Check(t.Context(), s, []entity.Definition{volatile}, DefaultConfig()); !errors.Is(err, journal.ErrShardCount) {
		t.Errorf("16 shards of a volatile type for 8: %v", err)
	}
}

// TestCheckComparesShardRules: the coordinator would refuse the region.
func TestCheckComparesShardRules(t *testing.T) {
	s := newStore(t)
	s.noteForms(nil)
	show := entity.Command[struct{}, int64]("Box", "Show", entity.ReadOnly())
	other := entity.Define("Box", func(string) *Box { return &Box{} }, entity.On(show, (*Box).Show), entity.With[Box](entity.Shards(8), entity.ShardBy(entity.Prefix("/"))))
	_, err := Check(t.Context(), s, []entity.Definition{other}, DefaultConfig())
	if want := `type Box hashes the prefix up to "/" in this program (ShardBy), and the whole id since it was first declared`; !errors.Is(err, ErrShardRule) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

// silent is a store that does not answer some loads.
type silent struct {
	journal.Reader
	fail func(id sharding.EntityID) bool
}

func (s silent) Load(ctx context.Context, req journal.LoadRequest) (journal.Loaded, error) {
	if s.fail(req.Entity.ID) {
		return journal.Loaded{}, journal.ErrUnreachable
	}
	return s.Reader.Load(ctx, req)
}

// TestCheckOfASilentStore: the check queries it again; if it stays silent, the check says so and does
// not call the entity unreadable.
func TestCheckOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		for _, id := range []sharding.EntityID{"a", "b", "c"} {
			s.add("Box", id, event("put", `{"Count":1}`))
		}
		cfg := DefaultConfig()
		cfg.Loads = 1
		asked := 0
		r := check(t, silent{s, func(id sharding.EntityID) bool { asked++; return id == "b" && asked <= cfg.Attempts }}, cfg, v1())
		if r.Types[0].Checked != 3 {
			t.Errorf("%+v", r)
		}
		r, err := Check(t.Context(), silent{s, func(id sharding.EntityID) bool { return id == "b" }}, []entity.Definition{v1()}, cfg)
		if !errors.Is(err, journal.ErrUnreachable) || !strings.Contains(err.Error(), "Box/b") {
			t.Errorf("error %v", err)
		}
		if r.Complete || r.Types[0].Checked != 1 || r.Unreadable() > 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestCheckTrimmed: the rest of an entity is checked, and the trimmed part is reported.
func TestCheckTrimmed(t *testing.T) {
	s := newStore(t)
	s.trimmed("a", form(t, v1()))
	check := func() Report {
		t.Helper()
		r, err := Check(t.Context(), s, []entity.Definition{v1()}, DefaultConfig())
		if err != nil || !r.Complete {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	if r := check(); !r.Passed() || r.Types[0].Trimmed != 1 || r.Types[0].Events != 1 || r.Types[0].Snapshots != 1 {
		t.Errorf("%+v", r)
	}
	s.trimmed("b", sharding.SnapshotForm{Version: 9})
	r := check()
	if r.Passed() || r.Types[0].Trimmed != 2 || r.Types[0].Ignored != 0 || r.Types[0].Unreadable != 1 || len(r.Problems) != 1 {
		t.Fatalf("%+v", r)
	}
	if p := r.Problems[0]; p.What != "snapshot" || p.Examples[0] != (Example{ID: "b", Seq: 2}) ||
		!strings.Contains(p.Problem, "does not read its version 9") || !strings.Contains(p.Fix, "entity.FromSnapshot") {
		t.Errorf("%+v", p)
	}
	s.add("Box", "c", event("put", `{"Count":1}`), event("gone", `{}`))
	s.commit(journal.Op{Snapshot: &journal.WriteSnapshot{
		Shard: sharding.ShardID{Type: "Box"}, Epoch: 1, Entity: sharding.Entity{Type: "Box", ID: "c"}, Cut: 1,
		Snapshot: journal.Snapshot{Seq: 1, Form: form(t, v1()), Payload: []byte(`{"Sum":1}`)},
	}})
	if r := check(); r.Types[0].Unreadable != 2 || len(r.Problems) != 2 || r.Problems[1].Event != "gone" && r.Problems[0].Event != "gone" {
		t.Errorf("an event after the snapshot cannot be read: %+v", r)
	}
}
