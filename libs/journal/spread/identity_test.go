package spread

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// used makes a journal of some databases, with a type in the last one.
func used(t testing.TB, n int) *databases {
	f := newDatabases(n)
	f.want = placement{"New": n}
	d, err := f.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: types("New", "Other")}); err != nil {
		t.Fatal(err)
	}
	put(t, d, "New", 1)
	put(t, d, "Other", 1)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return f
}

// put appends a record to the entity x of a type.
func put(t testing.TB, d journal.Backend, typ sharding.EntityType, seq uint64) {
	t.Helper()
	shard := sharding.ShardID{Type: typ}
	results, err := d.Commit(t.Context(), []journal.Op{
		{Claim: &sharding.Claim{Shard: shard, Epoch: sharding.MakeEpoch(1, 1), Owner: 7}},
		{Append: &sharding.Append{Shard: shard, Epoch: sharding.MakeEpoch(1, 1), Entity: sharding.Entity{Type: typ, ID: "x"}, Records: []sharding.Record{{Seq: seq}}}},
	})
	if err != nil || results[1].Verdict != sharding.Durable {
		t.Fatalf("%s, record %d: %v, %v", typ, seq, results, err)
	}
}

// TestIdentity: databases that do not belong together are refused when they are opened.
func TestIdentity(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(f, other *databases)
		says  string
	}{
		"swapped":                  {func(f, _ *databases) { f.all[1], f.all[2] = f.all[2], f.all[1] }, "it is database 3 of a journal, and is given as database 2"},
		"the first one is another": {func(f, _ *databases) { f.all[0], f.all[1] = f.all[1], f.all[0] }, "it is database 2 of a journal, and is given as database 1"},
		"the first one twice":      {func(f, _ *databases) { f.all[1] = f.all[0] }, "it is database 1 of a journal, and is given as database 2"},
		"of another journal":       {func(f, other *databases) { f.all[1] = other.all[1] }, "it belongs to another cluster"},
		"one is missing":           {func(f, _ *databases) { f.all, f.want = f.all[:2], nil }, "the journal has a database 3"},
		"all others are missing":   {func(f, _ *databases) { f.all, f.want = f.all[:1], nil }, "the journal has a database 2"},
		"an empty one":             {func(f, _ *databases) { f.all[2] = newDatabase() }, "which was used before"},
		"a new one that has something": {func(f, _ *databases) {
			alone := newDatabase()
			put(t, alone, "Lone", 1)
			f.all = append(f.all, alone)
		}, "it has data, for example Lone/x"},
		"nothing is wrong": {func(*databases, *databases) {}, ""},
		"one more":         {func(f, _ *databases) { f.all = append(f.all, newDatabase()) }, ""},
	} {
		f, other := used(t, 3), used(t, 3)
		test.spoil(f, other)
		check := func(what string, err error) {
			t.Helper()
			if (err != nil) != (test.says != "") || err != nil && (!errors.Is(err, journal.ErrIdentity) || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("%s: %s: %v, want an error with %q", name, what, err, test.says)
			}
		}
		ctx := context.Background()
		d, err := f.open(ctx)
		if check("a backend", err); err == nil {
			put(t, d, "New", 2)
			err = errors.Join(err, d.Close())
		}
		if len(f.all) == 1 { // as a program does that knows of one
			check("alone", CheckAlone(ctx, f.all[0].NewHandle()))
		}
		if strings.HasPrefix(name, "an empty") || strings.HasPrefix(name, "a new one") || err == nil {
			continue // a reader reports that there is no such journal
		}
		r, err := f.reader(ctx)
		if check("a reader", err); err == nil {
			_ = r.Close()
		}
	}
}

// TestPlacedAgain: a type stays in its database, whatever is wanted later, and a process that knows nothing of it finds it there.
func TestPlacedAgain(t *testing.T) {
	f := used(t, 2)
	f.want = placement{"New": 1}
	d, err := f.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: types("New")}); !errors.Is(err, ErrPlaced) {
		t.Errorf("wanted elsewhere: %v", err)
	}
	coordinator, err := f.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.types = placement{"Newer": 2}
	if _, err := d.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: types("Newer")}); err != nil {
		t.Fatal(err)
	}
	put(t, d, "Newer", 1)
	l, err := coordinator.Load(t.Context(), journal.LoadRequest{Entity: sharding.Entity{Type: "Newer", ID: "x"}})
	if err != nil || l.LastSeq != 1 {
		t.Errorf("what was placed since: %+v, %v", l, err)
	}
	second := f.all[1].NewHandle()
	if l, err := second.Load(t.Context(), journal.LoadRequest{Entity: sharding.Entity{Type: "Newer", ID: "x"}}); err != nil || l.LastSeq != 1 {
		t.Errorf("it is not in the second database: %+v, %v", l, err)
	}
	for _, h := range []journal.Backend{d, coordinator, second} {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRepairsOfAll: the audit lines of all databases are listed, and so are entities, each once.
func TestRepairsOfAll(t *testing.T) {
	f := used(t, 2)
	d, err := f.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for _, typ := range []sharding.EntityType{"New", "Other"} {
		r := &journal.Repair{Entity: sharding.Entity{Type: typ, ID: "x"}, Shard: sharding.ShardID{Type: typ}, Do: journal.SkipRecord, Seq: 1, Intact: true, Reason: "a test", File: "f", SHA256: "0"}
		raw, err := d.Raw(t.Context(), r.Entity)
		if err != nil {
			t.Fatal(err)
		}
		p, err := journal.PlanRepair(&raw, r, journalTime)
		if err != nil {
			t.Fatal(err)
		}
		r.Expect = p.Digest
		if _, err := d.Repair(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	h, err := d.History(t.Context(), journal.HistoryRequest{Entity: journal.RepairsEntity, Limit: 10, Bytes: 1 << 20})
	if err != nil || len(h.Records) != 2 || h.LastSeq != 2 {
		t.Errorf("the repairs: %+v, %v", h, err)
	}
	list, err := d.List(t.Context(), journal.ListRequest{Limit: 10})
	if want := (sharding.Entity{Type: "New", ID: "x"}); err != nil || len(list) != 3 || list[0] != want || list[2] != journal.RepairsEntity {
		t.Errorf("the list: %v, %v", list, err)
	}
}

// slow lets another process begin while it lists the stored data.
type slow struct {
	journal.Backend
	meanwhile func()
}

func (s *slow) List(ctx context.Context, req journal.ListRequest) ([]sharding.Entity, error) {
	if f := s.meanwhile; f != nil {
		s.meanwhile = nil
		f()
	}
	return s.Backend.List(ctx, req)
}

// TestAdoptedTogether: two processes give an empty database its number at the same time.
func TestAdoptedTogether(t *testing.T) {
	db := newDatabase()
	other := db.NewHandle()
	first := &slow{db.NewHandle(), func() {
		if err := adopt(t.Context(), other, 2, 7, false); err != nil {
			t.Error(err)
		}
	}}
	if err := adopt(t.Context(), first, 2, 7, false); err != nil {
		t.Error(err)
	}
}
