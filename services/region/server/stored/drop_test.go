package stored

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// submit commits at once.
func (s *store) submit(op journal.Op, done func(journal.Result)) {
	if err := op.Check(); err != nil {
		s.t.Error(err)
	}
	results, err := s.Commit(s.t.Context(), []journal.Op{op})
	if err != nil {
		s.t.Fatal(err)
	}
	done(results[0])
}

func (s *store) snapshotSeq(id sharding.EntityID) uint64 {
	s.t.Helper()
	found, err := s.Load(s.t.Context(), journal.LoadRequest{Entity: sharding.Entity{Type: "Box", ID: id}})
	if err != nil {
		s.t.Fatal(err)
	}
	return found.Snapshot.Seq
}

// fill stores four boxes: a without a snapshot, b and c with one, and d, whose events the
// program cannot read.
func (s *store) fill() {
	s.add("Box", "a", event("put", `{"Count":1}`))
	s.add("Box", "b", event("put", `{"Count":1}`), event("put", `{"Count":2}`))
	s.snapshot("b", 1, form(s.t, v1()), `{"Sum":99}`) // a mistake
	s.add("Box", "c", event("put", `{"Count":1}`))
	s.snapshot("c", 1, sharding.SnapshotForm{Version: 9}, `?`) // of another form
	s.add("Box", "d", event("gone", `{}`), event("put", `{"Count":1}`))
	s.snapshot("d", 1, form(s.t, v1()), `{"Sum":1}`)
}

func TestDropSnapshots(t *testing.T) {
	s := newStore(t)
	s.fill()
	of := sharding.Entity{Type: "Box"}
	for _, dry := range []bool{true, false} {
		submit := s.submit
		if dry {
			submit = nil
		}
		r, err := DropSnapshots(t.Context(), s, []entity.Definition{v1()}, of, submit, DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		if !r.Complete || r.DryRun != dry || r.Entities != 4 || r.Dropped != 2 || r.Kept != 1 || r.Newer != 0 || r.Cluster != "blue" ||
			len(r.Problems) != 1 || r.Problems[0].Examples[0] != (Example{ID: "d", Seq: 1}) {
			t.Errorf("dry %v: %+v", dry, r)
		}
		want := "0 0 1"
		if dry {
			want = "1 1 1"
		}
		if got := fmt.Sprint(s.snapshotSeq("b"), s.snapshotSeq("c"), s.snapshotSeq("d")); got != want {
			t.Errorf("dry %v: snapshots %s, want %s", dry, got, want)
		}
	}
	// What was wrong in the snapshot is right in the state that is rebuilt.
	found, _, err := Load(t.Context(), s, v1(), journal.LoadRequest{Entity: sharding.Entity{Type: "Box", ID: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if inst, err := Rebuild(v1(), "b", &found); err != nil || inst.State().(*Box).Sum != 3 {
		t.Errorf("rebuilt: %v, %v", inst.State(), err)
	}
}

// trimmed stores a box with a snapshot at its second event, whose first two events are gone.
func (s *store) trimmed(id sharding.EntityID, form sharding.SnapshotForm) {
	s.add("Box", id, event("put", `{"Count":1}`), event("put", `{"Count":2}`), event("put", `{"Count":3}`))
	s.commit(journal.Op{Snapshot: &journal.WriteSnapshot{
		Shard: sharding.ShardID{Type: "Box"}, Epoch: 1, Entity: sharding.Entity{Type: "Box", ID: id}, Cut: 2,
		Snapshot: journal.Snapshot{Seq: 2, Form: form, Payload: []byte(`{"Sum":3}`)},
	}})
}

// TestDropTrimmed: the only state of an entity is kept, the snapshots of others are dropped.
func TestDropTrimmed(t *testing.T) {
	for _, dry := range []bool{true, false} {
		s := newStore(t)
		s.fill()
		s.trimmed("bt", form(t, v1()))
		s.trimmed("bu", sharding.SnapshotForm{Version: 9})
		submit := s.submit
		if dry {
			submit = nil
		}
		r, err := DropSnapshots(t.Context(), s, []entity.Definition{v1()}, sharding.Entity{Type: "Box"}, submit, DefaultConfig())
		if err != nil || r.Dropped != 2 || r.Kept != 3 || len(r.Problems) != 2 ||
			!strings.Contains(r.Problems[0].Problem, "nothing else holds the state") || fmt.Sprint(r.Problems[0].Examples) != "[{bt 2 } {bu 2 }]" {
			t.Errorf("dry %t: %+v, %v", dry, r, err)
		}
		if s.snapshotSeq("bt") != 2 || s.snapshotSeq("bu") != 2 {
			t.Error("a snapshot is gone, and with it the state")
		}
	}
}

// TestDropOneSnapshot: only the snapshot of the named entity.
func TestDropOneSnapshot(t *testing.T) {
	s := newStore(t)
	s.fill()
	for id, want := range map[sharding.EntityID][3]int{"a": {1, 0, 0}, "b": {1, 1, 0}, "d": {1, 0, 1}} {
		r, err := DropSnapshots(t.Context(), s, []entity.Definition{v1()}, sharding.Entity{Type: "Box", ID: id}, s.submit, DefaultConfig())
		if got := [3]int{r.Entities, r.Dropped, r.Kept}; err != nil || got != want {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	if s.snapshotSeq("c") != 1 {
		t.Error("another entity has lost its snapshot")
	}
}

// TestDropRefuses: what makes no sense, or would lose something.
func TestDropRefuses(t *testing.T) {
	s := newStore(t)
	s.fill()
	s.add("roost.coordinator", "facts", event("put", `{"Count":1}`))
	for _, of := range []sharding.Entity{{Type: "Gone"}, {Type: "roost.coordinator"}, {Type: "Box", ID: "nobody"}, {}} {
		if _, err := DropSnapshots(t.Context(), s, []entity.Definition{v1()}, of, s.submit, DefaultConfig()); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v", of, err)
		}
	}
	own := journal.Op{Drop: &journal.DropSnapshot{Shard: sharding.ShardID{Type: "roost.coordinator"}, Entity: sharding.Entity{Type: "roost.coordinator", ID: "facts"}, Seq: 1}}
	if err := own.Check(); err == nil || !strings.Contains(err.Error(), "Roost's own") {
		t.Errorf("the coordinators' own snapshot: %v", err)
	}
}

// TestDropBesideARegion: a newer snapshot that a region stores meanwhile stays, and so does
// one of an entity whose records turn out to be damaged.
func TestDropBesideARegion(t *testing.T) {
	s := newStore(t)
	s.add("Box", "a", event("put", `{"Count":1}`))
	s.snapshot("a", 1, form(t, v1()), `{"Sum":1}`)
	s.add("Box", "b", event("put", `{"Count":1}`), event("put", `{"Count":1}`))
	s.snapshot("b", 1, form(t, v1()), `{"Sum":1}`)
	s.damage("b", 1)
	meanwhile := func(op journal.Op, done func(journal.Result)) {
		shard := sharding.ShardID{Type: "Box"}
		s.commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: op.Drop.Entity, Records: []sharding.Record{{Seq: 2}}}})
		s.snapshot("a", 2, form(t, v1()), `{"Sum":1}`)
		s.submit(op, done)
	}
	r, err := DropSnapshots(t.Context(), s, []entity.Definition{v1()}, sharding.Entity{Type: "Box"}, meanwhile, DefaultConfig())
	if err != nil || r.Dropped != 0 || r.Newer != 1 || r.Kept != 1 || s.snapshotSeq("a") != 2 || s.snapshotSeq("b") != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}
