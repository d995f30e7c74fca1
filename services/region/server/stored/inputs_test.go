package stored

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

type (
	fill   struct{ Count int64 }
	fillIn struct {
		Count int64
		Note  string
	}
)

// tanks is a type whose command Fill has inputs that are stored, and that takes answers. Its second
// version has another input, with a step, and other names.
func tanks(version int) entity.Definition {
	show := entity.On(entity.Command[struct{}, int64]("Tank", "Show").ReadOnly(), (*Box).Show)
	done := entity.Command[entity.Answer[int64], int64]("Tank", "Filled")
	took := func(*Box, *entity.Ctx, entity.Answer[int64]) (int64, error) { return 0, nil }
	create := func(string) *Box { return &Box{} }
	if version == 1 {
		f := entity.Command[fill, int64]("Tank", "Fill").Stored()
		return entity.Define("Tank", create, show, entity.On(f, func(*Box, *entity.Ctx, fill) (int64, error) { return 0, nil }), entity.On(done, took)).Shards(8)
	}
	pour := entity.Command[fillIn, int64]("Tank", "Pour").Stored().Alias("Fill").V(2, entity.From(1, func(o fill) fillIn { return fillIn{Count: o.Count} }))
	poured := entity.Command[entity.Answer[int64], int64]("Tank", "Poured").Alias("Filled")
	return entity.Define("Tank", create, show, entity.On(pour, func(*Box, *entity.Ctx, fillIn) (int64, error) { return 0, nil }), entity.On(poured, took)).Shards(8)
}

func input(command string, version uint16, payload string) sharding.Input {
	return sharding.Input{Command: command, Version: version, ReadableBy: version, Payload: []byte(payload)}
}

// addInputs stores reminders of a tank, and what it has sent to a box and to another tank.
func (s *store) addInputs(id sharding.EntityID, in sharding.Input, replyTo string) {
	s.t.Helper()
	e := sharding.Entity{Type: "Tank", ID: id}
	shard := sharding.ShardID{Type: "Tank", Index: sharding.ShardOf(id, 8)}
	wake := func(name string) sharding.Wake {
		return sharding.Wake{Kind: sharding.ReminderWake, Name: name, Due: 1 << 40, Input: in}
	}
	to := sharding.Entity{Type: "Tank", ID: "target"}
	s.commit(journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}, journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: e, Records: []sharding.Record{
		{Seq: 1, Wakes: []sharding.Wake{wake("stands"), wake("removed")}},
		{Seq: 2, Wakes: []sharding.Wake{{Kind: sharding.ReminderWake, Name: "removed"}}, Sends: []sharding.Send{
			{To: to, Input: in, ReplyTo: replyTo}, {To: to, Input: input("Never", 1, "")}, {To: sharding.Entity{Type: "Other", ID: "x"}, Input: input("What", 9, "")},
		}},
	}}})
	s.commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: e, Delivered: []sharding.Delivered{{Seq: 2, Sends: []uint16{1}, As: sharding.SendRefused}}}})
}

func newTankStore(t *testing.T) *store {
	s := newStore(t)
	if _, err := s.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Tank", Shards: 8}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCheckInputs: reminders that stand and sends that are pending are read as they would be run; what
// cannot be read is named, with what its author can do.
func TestCheckInputs(t *testing.T) {
	for _, test := range []struct {
		name    string
		in      sharding.Input
		replyTo string
		version int
		wrong   []string // subjects of the problems, and their fixes
	}{
		{"all is read", input("Fill", 1, `{"Count":1}`), "Filled", 1, nil},
		{"by a step, under old names", input("Fill", 1, `{"Count":1}`), "Filled", 2, nil},
		{"no answer is wanted", input("Pour", 2, `{"Count":1,"Note":"n"}`), "", 2, nil},
		{"a later version", input("Pour", 2, `{"Count":1,"Note":"n"}`), "Poured", 1, []string{"Tank, input of Pour, version 2", `Alias("Pour")`, "Tank, answers for Poured", `Alias("Poured")`}},
		{"another form", input("Fill", 1, `{"Count":1,"Note":"n"}`), "Filled", 1, []string{"Tank, input of Fill, version 1", "V(2, entity.From(1, …))"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newTankStore(t)
			s.addInputs("a", test.in, test.replyTo)
			r := check(t, s, DefaultConfig(), tanks(test.version), v1())
			want := 2
			if test.replyTo != "" {
				want++
			}
			tank := r.Types[slices.IndexFunc(r.Types, func(t TypeReport) bool { return t.Type == "Tank" })]
			if tank.Inputs != want || (r.UnreadInputs() == 0) != (test.wrong == nil) || r.Passed() != (test.wrong == nil) || r.Unreadable() > 0 {
				t.Errorf("%+v, problems %+v", r.Types, r.Problems)
			}
			var text strings.Builder
			for _, p := range r.Problems {
				text.WriteString(p.Subject() + "\n" + p.Fix + "\n")
				for _, x := range p.Examples {
					text.WriteString(x.Detail + "\n")
				}
			}
			for _, part := range test.wrong {
				if !strings.Contains(text.String(), part) {
					t.Errorf("%q is missing in %s", part, text.String())
				}
			}
			if test.wrong != nil && (!strings.Contains(text.String(), `reminder "stands"`) || !strings.Contains(text.String(), "sent by Tank/a, record 2")) {
				t.Errorf("who has stored it is missing in %s", text.String())
			}
		})
	}
}

// TestCheckInputsOfASample: as many of each type are read as are wanted; damage is named.
func TestCheckInputsOfASample(t *testing.T) {
	s := newTankStore(t)
	s.addInputs("a", input("Fill", 1, `{"Count":1}`), "Filled")
	s.addInputs("b", input("Gone", 1, ``), "Filled")
	cfg := DefaultConfig()
	cfg.Sample = 1
	if r := check(t, s, cfg, tanks(1), v1()); r.Types[1].Inputs != 1 {
		t.Errorf("%+v", r.Types)
	}
	cfg.Sample, cfg.Attempts = 0, 1
	if r, err := Check(t.Context(), noPages{s, journal.ErrUnreachable}, []entity.Definition{tanks(1)}, cfg); !errors.Is(err, journal.ErrUnreachable) || r.Complete {
		t.Errorf("%+v, %v", r, err)
	}
	r, err := Check(t.Context(), noPages{s, journal.ErrCorrupt}, []entity.Definition{tanks(1)}, cfg)
	if err != nil || r.Passed() || r.UnreadInputs() == 0 || r.Problems[0].What != "stored data" {
		t.Errorf("%+v, %v", r, err)
	}
}

// noPages is a store whose reminders cannot be read.
type noPages struct {
	*store
	why error
}

func (s noPages) Wakes(_ context.Context, _ journal.WakesRequest) (journal.WakesPage, error) {
	return journal.WakesPage{}, s.why
}

// TestCheckComparesFormsOfInputs: a shard in which an input may be stored that the program does not
// read is not given to it.
func TestCheckComparesFormsOfInputs(t *testing.T) {
	reads := []sharding.Form{{Kind: sharding.FormOfInput, Name: "Fill", Version: 1, Shape: 7}}
	for want, f := range map[string]sharding.Form{
		"bind Pour again, with Stored": {Kind: sharding.FormOfInput, Name: "Pour", Version: 1, Shape: 7},
		"ReadableBy(1)":                {Kind: sharding.FormOfInput, Name: "Fill", Version: 2, Shape: 7},
		"V(2, entity.From(1, …))":      {Kind: sharding.FormOfInput, Name: "Fill", Version: 1, Shape: 8},
	} {
		if _, fix := unread(reads, f); !strings.Contains(fix, want) {
			t.Errorf("%v: %s", f, fix)
		}
	}
}
