package stored

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// note stores facts, as coordinators do.
func (s *store) note(facts ...sharding.Event) {
	s.t.Helper()
	shard := sharding.ShardID{Type: wire.FactsEntity.Type}
	s.commit(journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}, journal.Op{Append: &sharding.Append{
		Shard: shard, Epoch: 1, Entity: wire.FactsEntity, Records: []sharding.Record{{Seq: 1, Events: facts}},
	}})
}

func fact(t *testing.T, name string, m proto.Message) sharding.Event {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return sharding.Event{Name: name, Encoding: sharding.Protobuf, Payload: b}
}

// noteForms stores what coordinators note of the forms that a type stores: for a shard each,
// those that earlier owners may have stored, and those that its owner may store.
func (s *store) noteForms(forms []sharding.Form, rows ...[2][]int) {
	s.t.Helper()
	facts := []sharding.Event{fact(s.t, wire.TypeFactName, wire.ToTypeFact(wire.TypeFact{Desc: sharding.TypeDesc{Type: "Box", Shards: 8}, Forms: forms}))}
	for i, row := range rows {
		f := wire.RowFact{Row: sharding.Row{Shard: sharding.ShardID{Type: "Box", Index: uint32(i)}, Epoch: 1, Phase: sharding.Starting}}
		for _, n := range row[0] {
			f.Before = f.Before.With(n)
		}
		for _, n := range row[1] {
			f.May = f.May.With(n)
		}
		old := f // of an earlier owner
		old.Row.Epoch, old.Before = 0, old.Before.With(len(forms)-1)
		facts = append(facts, fact(s.t, wire.RowFactName, wire.ToRowFact(f)), fact(s.t, wire.RowFactName, wire.ToRowFact(old)))
	}
	s.note(facts...)
}

// TestCheckComparesForms: decodable data does not help if a coordinator does not give the
// program the shard.
func TestCheckComparesForms(t *testing.T) {
	type (
		noted struct {
			Count int64
			Note  string `json:",omitempty"`
		}
		small struct{ Count int32 }
	)
	forms := writes(t, v1()) // put, taken
	gone := sharding.Form{Kind: sharding.FormOfEvent, Name: "gone", Version: 1, ReadableBy: 0, Shape: 9}
	later := sharding.Form{Kind: sharding.FormOfEvent, Name: "put", Version: 3, Shape: 9}
	forms = append(forms, gone, later, sharding.Form{Kind: sharding.FormOfEvent, Name: "never", Version: 1, Shape: 1})
	const put_, taken_, gone_, later_ = 0, 1, 2, 3 // in forms
	for _, test := range []struct {
		name    string
		program entity.Definition
		rows    [][2][]int
		want    []string // parts of the findings
		shards  int      // in which it is stored
		may     int      // in which it may be
	}{
		{"all is read", v1(), [][2][]int{{{put_}, {put_, taken_}}}, nil, 0, 0},
		{"a new field without a version", boxes(declare[noted]("put"), declare[taken]("taken")), [][2][]int{{{put_}, nil}, {nil, {put_, taken_}}, {{taken_}, nil}},
			[]string{"event put, version 1", "changed without a new version", "V(2, entity.From(1, …))"}, 1, 1},
		{"the owner has stored it", boxes(declare[noted]("put"), declare[taken]("taken")), [][2][]int{{nil, {put_}}},
			[]string{"event put, version 1"}, 1, 0},
		{"the owners of others have not", boxes(declare[noted]("put"), declare[taken]("taken")), [][2][]int{{nil, {put_}}, {nil, nil}, {{put_}, nil}},
			[]string{"event put, version 1"}, 2, 0},
		{"the owner may store it", boxes(declare[put]("put"), declare[small]("taken")), [][2][]int{{nil, {put_, taken_}}},
			[]string{"event taken, version 1", "without a new version"}, 0, 1},
		{"an event that is gone", v1(), [][2][]int{{{gone_}, nil}}, []string{"event gone", "no such event", `Alias("gone")`}, 1, 0},
		{"a later version", v1(), [][2][]int{{{later_}, nil}}, []string{"event put, version 3", "knows version 1", "ReadableBy(1)"}, 1, 0},
		{"a lost step", boxes(declare[counted]("put", entity.V(2)), declare[taken]("taken")), [][2][]int{{{put_}, nil}}, []string{"event put, version 1", "no step from version 1", "give V(2, …) an entity.From(1, …)"}, 1, 0},
		{"a step that reads other fields", boxes(declare[counted]("put", entity.V(2, entity.From(1, func(small) counted { return counted{} }))), declare[taken]("taken")),
			[][2][]int{{{put_}, nil}}, []string{"event put, version 1", "the step from version 1 reads other fields", "give the struct of the step"}, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStore(t)
			if test.name != "a lost step" {
				s.add("Box", inShard("Box", 0), event("put", `{"Count":1}`))
			}
			s.noteForms(forms, test.rows...)
			r := check(t, s, DefaultConfig(), test.program)
			if len(r.Problems) > 0 || r.Passed() == (test.shards > 0) || (test.want == nil) != (len(r.Forms) == 0) {
				t.Fatalf("%+v", r)
			}
			if test.want == nil {
				return
			}
			f := r.Forms[0]
			text := strings.Join([]string{f.Form, f.Problem, f.Fix}, "\n")
			for _, part := range test.want {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing in %s", part, text)
				}
			}
			if len(r.Forms) != 1 || f.Shards != test.shards || f.MayShards != test.may || f.Type != "Box" {
				t.Errorf("%+v", r.Forms)
			}
		})
	}
}

func writes(t *testing.T, def entity.Definition) []sharding.Form {
	d := instance.Describe(def)
	return slices.Clip(d.Desc.Writes)
}

// TestCheckComparesFormsOnce: a form is not listed if a problem says the same, those in
// which something is stored come first, and there is a limit.
func TestCheckComparesFormsOnce(t *testing.T) {
	s := newStore(t)
	s.add("Box", "a", event("taken", `{"Count":1}`))
	other := func(name string) sharding.Form {
		return sharding.Form{Kind: sharding.FormOfEvent, Name: name, Version: 1, Shape: 9}
	}
	s.noteForms([]sharding.Form{other("a"), other("b"), other("c"), other("d"), other("taken")}, [2][]int{{1, 3}, {0, 2, 4}})
	cfg := DefaultConfig()
	cfg.Kinds = 3
	r := check(t, s, cfg, boxes(declare[put]("put")))
	var got []string
	for _, f := range r.Forms {
		got = append(got, f.Form[:len("event x")])
	}
	if !slices.Equal(got, []string{"event b", "event d", "event a"}) || r.OtherForms != 1 || len(r.Problems) != 1 {
		t.Errorf("%v, %+v", got, r)
	}
}

// TestCheckOfDamagedFacts: without the facts it is not known what a coordinator would do.
func TestCheckOfDamagedFacts(t *testing.T) {
	s := newStore(t)
	s.add("Box", "a", event("put", `{"Count":1}`))
	s.note(sharding.Event{Name: wire.RowFactName, Encoding: sharding.Protobuf, Payload: []byte{0xff}}, sharding.Event{Name: "unknown"})
	if r, err := Check(t.Context(), s, []entity.Definition{v1()}, DefaultConfig()); err == nil || !strings.Contains(err.Error(), "facts cannot be read") || r.Complete {
		t.Errorf("%+v, %v", r, err)
	}
	cfg := DefaultConfig()
	cfg.Attempts = 1
	if _, err := Check(t.Context(), silent{s, func(id sharding.EntityID) bool { return id == wire.FactsEntity.ID }}, []entity.Definition{v1()}, cfg); !errors.Is(err, journal.ErrUnreachable) {
		t.Errorf("facts that do not come: %v", err)
	}
}
