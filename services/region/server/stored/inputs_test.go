package stored

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
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
	show := entity.On(entity.Command[struct{}, int64]("Tank", "Show", entity.ReadOnly()), (*Box).Show)
	done := entity.Command[entity.Answer[int64], int64]("Tank", "Filled")
	took := func(*Box, *entity.Ctx, entity.Answer[int64]) (int64, error) { return 0, nil }
	create := func(string) *Box { return &Box{} }
	if version == 1 {
		f := entity.Command[fill, int64]("Tank", "Fill", entity.Stored())
		return entity.Define("Tank", create, show, entity.On(f, func(*Box, *entity.Ctx, fill) (int64, error) { return 0, nil }), entity.On(done, took), entity.With[Box](entity.Shards(8)))
	}
	pour := entity.Command[fillIn, int64]("Tank", "Pour", entity.Stored(), entity.Alias("Fill"), entity.V(2, entity.From(1, func(o fill) fillIn { return fillIn{Count: o.Count} })))
	poured := entity.Command[entity.Answer[int64], int64]("Tank", "Poured", entity.Alias("Filled"))
	return entity.Define("Tank", create, show, entity.On(pour, func(*Box, *entity.Ctx, fillIn) (int64, error) { return 0, nil }), entity.On(poured, took), entity.With[Box](entity.Shards(8)))
}

func input(command string, version uint16, payload string) sharding.Input {
	return sharding.Input{Command: command, Version: version, ReadableBy: version, Payload: []byte(payload)}
}

// addInputs stores reminders of a tank, and its sends to a box and to another tank.
func (s *store) addInputs(id sharding.EntityID, in sharding.Input, replyTo string) {
	s.t.Helper()
	e := sharding.Entity{Type: "Tank", ID: id}
	shard := sharding.ShardID{Type: "Tank", Index: shardingtest.ShardOf(id, 8)}
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
		{"a later version", input("Pour", 2, `{"Count":1,"Note":"n"}`), "Poured", 1, []string{"Tank, input of Pour, version 2", "bind Pour again, with Stored, or", `Alias("Pour")`, "bind Poured again, or", "Tank, answers for Poured", `Alias("Poured")`}},
		{"another form", input("Fill", 1, `{"Count":1,"Note":"n"}`), "Filled", 1, []string{"Tank, input of Fill, version 1", "V(2, entity.From(1, …))"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newTankStore(t)
			s.addInputs("a", test.in, test.replyTo)
			r := check(t, s, DefaultConfig(), tanks(test.version), v1())
			answers := 0
			if test.replyTo != "" {
				answers = 1
			}
			tank := r.Types[slices.IndexFunc(r.Types, func(t TypeReport) bool { return t.Type == "Tank" })]
			if tank.Reminders != 1 || tank.Sends != 1 || tank.Answers != answers || (r.UnreadInputs() == 0) != (test.wrong == nil) || r.Passed() != (test.wrong == nil) || r.Unreadable() > 0 {
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
	if r := check(t, s, cfg, tanks(1), v1()); r.Types[1].inputs() != 1 {
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
	described := instance.Describe(tanks(1))
	answers := described.Desc.Reads[slices.IndexFunc(described.Desc.Reads, instance.FormOfAnswers)]
	reads := []sharding.Form{{Kind: sharding.FormOfInput, Name: "Fill", Version: 1, Shape: 7}}
	for want, f := range map[string]sharding.Form{
		"bind Pour again, with Stored": {Kind: sharding.FormOfInput, Name: "Pour", Version: 1, Shape: 7},
		"ReadableBy(1)":                {Kind: sharding.FormOfInput, Name: "Fill", Version: 2, Shape: 7},
		"V(2, entity.From(1, …))":      {Kind: sharding.FormOfInput, Name: "Fill", Version: 1, Shape: 8},
		"bind Got again, or give":      {Kind: sharding.FormOfInput, Name: "Got", Version: 1, Shape: answers.Shape},
		"bind Fill again as it was":    {Kind: sharding.FormOfInput, Name: "Fill", Version: 1, Shape: answers.Shape},
	} {
		if why, fix := unread(reads, f); !strings.Contains(fix, want) || strings.Contains(why+fix, "event") {
			t.Errorf("%v: %s, %s", f, why, fix)
		}
	}
}

// TestCheckComparesFormsOfSnapshots: it reports a snapshot that is not read with the words for
// snapshots. Those for events would not compile.
func TestCheckComparesFormsOfSnapshots(t *testing.T) {
	snapshot := func(version uint16, shape uint64) sharding.Form {
		return sharding.Form{Kind: sharding.FormOfSnapshot, Version: version, Shape: shape}
	}
	for want, c := range map[string]struct {
		reads []sharding.Form
		of    sharding.Form
	}{
		"run a program that knows version 3":           {[]sharding.Form{snapshot(2, 7)}, snapshot(3, 7)},
		"SnapshotV(3, entity.FromSnapshot(2, …))":      {[]sharding.Form{snapshot(2, 7)}, snapshot(2, 8)},
		"SnapshotV(2, …) an entity.FromSnapshot(1, …)": {[]sharding.Form{snapshot(2, 7)}, snapshot(1, 8)},
		"the struct of the step from version 1":        {[]sharding.Form{snapshot(1, 6), snapshot(2, 7)}, snapshot(1, 8)},
	} {
		if why, fix := unread(c.reads, c.of); !strings.Contains(fix, want) || strings.Contains(fix, "entity.From(") || strings.Contains(fix, "ReadableBy") {
			t.Errorf("%v: %s, %s, want %s", c.of, why, fix, want)
		}
	}
}

// TestCheckFindsInputsOfThePresentOwner: what the owner of a shard may have stored counts for its
// shards, although only the owner has noted it. So the check reports that
// these are not given to the program before its regions are refused.
func TestCheckFindsInputsOfThePresentOwner(t *testing.T) {
	later := instance.Describe(tanks(2)) // Pour and Poured, which were Fill and Filled
	for name, test := range map[string]struct {
		program           entity.Definition
		passed            bool
		reminders, answer int // shards in which they stand
	}{
		"the program that has stored it": {tanks(2), true, 0, 0},
		"the one before":                 {tanks(1), false, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTankStore(t)
			facts := []sharding.Event{fact(t, wire.TypeFactName, wire.ToTypeFact(wire.TypeFact{Desc: sharding.TypeDesc{Type: "Tank", Shards: 8}, Forms: later.Desc.Writes}))}
			for i := range uint32(8) {
				f := wire.RowFact{Row: sharding.Row{Shard: sharding.ShardID{Type: "Tank", Index: i}, Epoch: 1, Phase: sharding.Serving}}
				for n := range later.Desc.Writes {
					f.May = f.May.With(n)
				}
				facts = append(facts, fact(t, wire.RowFactName, wire.ToRowFact(f)))
			}
			s.note(facts...)
			for shard, replyTo := range []string{"Poured", "Poured", ""} {
				s.addInputs(inShard("Tank", uint32(shard)), input("Pour", 2, `{"Count":1,"Note":"n"}`), replyTo)
			}
			for _, sample := range []int{0, 1} {
				cfg := DefaultConfig()
				cfg.Sample = sample
				r := check(t, s, cfg, test.program, v1())
				if r.Passed() != test.passed || sample == 0 && len(r.Forms) != 0 {
					t.Errorf("a sample of %d: passed %t, forms %+v", sample, r.Passed(), r.Forms)
				}
				for _, f := range r.Forms { // of inputs that are not in the sample
					if !strings.HasPrefix(f.Form, "input Poured,") || f.Shards != test.answer || f.MayShards != 8-test.answer {
						t.Errorf("a sample of %d: %+v", sample, f)
					}
				}
				for _, p := range r.Problems {
					if want := map[string]int{"Pour": test.reminders, "Poured": test.answer, "Never": 0}[p.Command]; p.Shards != want {
						t.Errorf("a sample of %d: %s stands in %d shards, not in %d", sample, p.Subject(), p.Shards, want)
					}
				}
			}
		})
	}
}

// inShard is an entity in one of the 8 shards of its type.
func inShard(typ sharding.EntityType, shard uint32) sharding.EntityID {
	for i := 0; ; i++ {
		if id := sharding.EntityID(fmt.Sprint(typ, i)); shardingtest.ShardOf(id, 8) == shard {
			return id
		}
	}
}
