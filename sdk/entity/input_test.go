package entity_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// binder is a type whose commands have been renamed, and whose inputs have changed.
type binder struct{ got []page }

func file(b *binder, _ *entity.Ctx, in page) (string, error) {
	b.got = append(b.got, in)
	return "", nil
}

func answered(*binder, *entity.Ctx, entity.Answer[string]) (string, error) { return "", nil }

var fromPageV1 = entity.From(1, func(old pageV1) page { return page{old.Text, "en"} })

func newBinder(string) *binder { return &binder{} }

func binders(on ...entity.Declaration[binder]) entity.Type[binder] {
	return entity.Define("Binder", newBinder, on...)
}

func binderMistake(on ...entity.Declaration[binder]) error {
	return mistake(entity.New("Binder", newBinder, on...))
}

func fileAs(name string, options ...entity.CommandOption) *entity.Handle[page, string] {
	return entity.Command[page, string]("Binder", name, options...)
}

func answerAs(name string, options ...entity.CommandOption) *entity.Handle[entity.Answer[string], string] {
	return entity.Command[entity.Answer[string], string]("Binder", name, options...)
}

// TestInputMistakes: a declaration that cannot work is refused when the type is defined.
func TestInputMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"versions, and nothing is stored": {binderMistake(entity.On(fileAs("File", entity.V(2, fromPageV1)), file)), "add Stored()"},
		"a step from nowhere":             {binderMistake(entity.On(fileAs("File", entity.Stored(), entity.V(2, entity.From(2, func(pageV1) page { return page{} }))), file)), "input File: a step from version 2"},
		"answers with versions":           {binderMistake(entity.On(answerAs("Got", entity.V(2)), answered)), "leave out Stored"},
		"answers that are stored":         {binderMistake(entity.On(answerAs("Got", entity.Stored()), answered)), "leave out Stored"},
		"a name of another":               {binderMistake(entity.On(fileAs("File"), file), entity.On(fileAs("Put", entity.Alias("File")), file)), "command File is bound twice"},
		"a name of Roost":                 {binderMistake(entity.On(fileAs("File", entity.Alias("roost.delete")), file)), "kept for Roost"},
		"a pointer":                       {binderMistake(entity.On(entity.Command[*page, string]("Binder", "File", entity.Stored()), func(*binder, *entity.Ctx, *page) (string, error) { return "", nil })), "is a pointer"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) || !strings.Contains(c.err.Error(), "entity type Binder") {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

// TestInputForms: what counts when shards are given out are inputs that are stored, under all names
// and in all versions that are read, and commands that take answers, whatever these hold.
func TestInputForms(t *testing.T) {
	forms := func(def entity.Definition) (writes, reads []sharding.Form, commands string) {
		t.Helper()
		d := instance.Describe(def)
		for _, f := range d.Desc.Reads {
			if f.Kind == sharding.FormOfInput {
				reads = append(reads, f)
			}
		}
		for _, c := range d.Desc.Commands {
			commands += c.Name + " "
		}
		return d.Desc.Writes, reads, commands
	}
	v1, _, _ := forms(binders(entity.On(entity.Command[pageV1, string]("Binder", "File", entity.Stored()), func(*binder, *entity.Ctx, pageV1) (string, error) { return "", nil }), entity.On(answerAs("Got"), answered)))
	if len(v1) != 2 || v1[0].Name != "File" || v1[0].Version != 1 || v1[1].Name != "Got" || v1[0].Kind != sharding.FormOfInput || v1[0].Shape == 0 {
		t.Errorf("version 1 stores %v", v1)
	}
	of := entity.Command[entity.Answer[int], string]("Binder", "Take", entity.Alias("Got"))
	writes, reads, commands := forms(binders(
		entity.On(fileAs("Put", entity.Stored(), entity.V(2, fromPageV1), entity.Alias("File")), file), entity.On(of, func(*binder, *entity.Ctx, entity.Answer[int]) (string, error) { return "", nil }),
		entity.On(fileAs("Plain"), file),
	))
	if len(writes) != 2 || writes[0].Name != "Put" || writes[0].Version != 2 || writes[1].Name != "Take" || len(reads) != 6 || commands != "File Got Plain Put Take " {
		t.Errorf("version 2 stores %v, reads %v, has the commands %s", writes, reads, commands)
	}
	for _, f := range append(v1, writes...) {
		if !sharding.Reads(reads, f) {
			t.Errorf("version 2 does not read %v", f)
		}
	}
	if _, reads, _ := forms(entity.Define("Binder", func(string) *binder { return &binder{} }, entity.On(fileAs("File", entity.Stored()), file), entity.With[binder](entity.Volatile()))); len(reads) > 0 {
		t.Errorf("a volatile type reads %v, and nothing is stored in its shards", reads)
	}
}

// TestInputAlias: an input that is stored under an old name runs, callers may use it, and the handler sees
// the present one.
func TestInputAlias(t *testing.T) {
	var seen string
	put := fileAs("Put", entity.Stored(), entity.V(2, fromPageV1), entity.Alias("File"))
	def := binders(entity.On(put, func(b *binder, ctx *entity.Ctx, in page) (string, error) {
		seen = ctx.Command()
		return file(b, ctx, in)
	}))
	inst, err := instance.New(def, "b")
	if err != nil {
		t.Fatal(err)
	}
	run := func(env sharding.Envelope, w *turn.Wakeup) sharding.Reply {
		done, _ := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &env, Wakeup: w}, nil)
		return done.Reply
	}
	v1 := sharding.Input{Command: "File", Version: 1, ReadableBy: 1, Payload: []byte(`{"Text":"r"}`)}
	for name, reply := range map[string]sharding.Reply{
		"caller":   run(sharding.Envelope{Command: "File", Payload: []byte(`{"Text":"c"}`)}, nil),
		"send":     run(sharding.Envelope{Command: "File", Version: 1, ReadableBy: 1, Payload: []byte(`{"Text":"s"}`)}, nil),
		"reminder": run(sharding.Envelope{Command: "File"}, &turn.Wakeup{WakeRef: sharding.WakeRef{Kind: sharding.ReminderWake}, Input: v1}),
	} {
		if reply.Outcome != sharding.Executed || seen != "Put" {
			t.Errorf("%s: %+v, by %s", name, reply, seen)
		}
	}
	if got := inst.State().(*binder).got; len(got) != 3 || !slices.Contains(got, page{"s", "en"}) || !slices.Contains(got, page{"r", "en"}) || !slices.Contains(got, page{"c", ""}) {
		t.Errorf("got %v", got)
	}
	if in, err := put.Sent(entity.Answer[string]{Type: "Binder", ID: "b", Command: "File"}); err == nil || !strings.Contains(err.Error(), "has no version") {
		t.Errorf("%v, %v: it is an answer to what was sent under the old name", in, err)
	}
}

// TestCheckStored: what a type does not read of stored inputs is said without running anything.
func TestCheckStored(t *testing.T) {
	of := sharding.Entity{Type: "Binder", ID: "b"}
	evil := entity.Command[page, string]("Binder", "Evil", entity.Stored(), entity.V(2, entity.From(1, func(pageV1) page { panic("evil") })))
	def := binders(entity.On(fileAs("Put", entity.Stored(), entity.V(2, fromPageV1), entity.Alias("File")), file), entity.On(fileAs("Plain"), file), entity.On(answerAs("Got"), answered), entity.On(evil, file))
	for name, c := range map[string]struct {
		in   sharding.Input
		want string // empty: it is read
	}{
		"current":     {sharding.Input{Command: "Put", Version: 2, Payload: []byte(`{"Text":"a","Lang":"de"}`)}, ""},
		"older":       {sharding.Input{Command: "File", Version: 1, Payload: []byte(`{"Text":"a"}`)}, ""},
		"later":       {sharding.Input{Command: "Put", Version: 3, Payload: []byte(`{}`)}, "run one that knows version 3"},
		"a field":     {sharding.Input{Command: "Put", Version: 2, Payload: []byte(`{"Text":"a"}`)}, "V(3, entity.From(2, …))"},
		"not stored":  {sharding.Input{Command: "Plain", Version: 1, Payload: []byte(`{"Text":"a","Lang":"de"}`)}, "add Stored() to command Plain"},
		"no command":  {sharding.Input{Command: "Gone", Version: 1}, `Alias("Gone")`},
		"a bad step":  {sharding.Input{Command: "Evil", Version: 1, Payload: []byte(`{"Text":"a"}`)}, "panicked: evil"},
		"for answers": {sharding.Input{Command: "Got", Version: 1}, "Stored()"},
	} {
		err := instance.CheckStored(def, of, &c.in)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if s, ok := err.(*instance.StoredError); ok {
			text = s.Fix
		}
		if (err == nil) != (c.want == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %v; %s", name, err, text)
		}
	}
	if err := instance.CheckTakesAnswers(def, of, "Got"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"Put", "Gone"} {
		if err := instance.CheckTakesAnswers(def, of, name); err == nil || !strings.Contains(err.Error(), "takes no answers") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInputNotStored: the inputs of a command are stored only if that is declared, at both ends.
func TestInputNotStored(t *testing.T) {
	plain := entity.Command[page, string]("Notebook", "Take")
	for name, do := range map[string]func(*entity.Ctx){
		"reminder": func(ctx *entity.Ctx) { plain.Remind(ctx, time.Now(), "r", page{}) },
		"send":     func(ctx *entity.Ctx) { plain.Send(ctx, "other", page{}) },
	} {
		inst, _ := newNotebook(t, false, do)
		if _, failed := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Act", Payload: []byte("1")}}, nil); failed == nil || !strings.Contains(failed.Error(), "add Stored()") {
			t.Errorf("%s: %v", name, failed)
		}
	}
	inst, err := instance.New(binders(entity.On(fileAs("File"), file)), "b")
	if err != nil {
		t.Fatal(err)
	}
	done, _ := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "File", Version: 1, ReadableBy: 1, Payload: []byte(`{"Text":"a","Lang":"b"}`)}}, nil)
	if done.Reply.Outcome != sharding.NotApplied || done.Reply.Code != sharding.Unimplemented || !strings.Contains(done.Reply.Message, "not declared") {
		t.Errorf("a target that has not declared it: %+v", done.Reply)
	}
}
