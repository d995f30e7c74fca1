package entity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// page is an input that has had two versions.
type page struct{ Text, Lang string }

type pageV1 struct{ Text string }

type notebook struct {
	do    func(*entity.Ctx)
	notes []page
}

func (n *notebook) act(ctx *entity.Ctx, _ int) (string, error) { n.do(ctx); return "", nil }

func (n *notebook) take(_ *entity.Ctx, in page) (string, error) {
	n.notes = append(n.notes, in)
	return "", nil
}

var (
	actNow  = entity.Command[int, string]("Notebook", "Act")
	actRead = entity.Command[int, string]("Notebook", "Look", entity.ReadOnly())
	take    = entity.Command[page, string]("Notebook", "Take", entity.Stored(), entity.V(2, entity.From(1, func(old pageV1) page { return page{old.Text, "en"} })))
	other   = entity.Command[func(), string]("Notebook", "Other")
	foreign = entity.Command[page, string]("Else", "Take")
)

func newNotebook(t *testing.T, volatile bool, do func(*entity.Ctx)) (*instance.Instance, *notebook) {
	t.Helper()
	book := &notebook{do: do}
	on := []entity.Declaration[notebook]{entity.On(actNow, (*notebook).act), entity.On(actRead, (*notebook).act), entity.On(take, (*notebook).take)}
	if volatile {
		on = append(on, entity.With[notebook](entity.Volatile()))
	}
	def := entity.Define("Notebook", func(string) *notebook { return book }, on...)
	inst, err := instance.New(def, "n")
	if err != nil {
		t.Fatal(err)
	}
	return inst, book
}

func TestReminderMistakes(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		volatile, readOnly bool
		do                 func(*entity.Ctx)
		want               string
	}{
		"volatile":     {volatile: true, do: func(ctx *entity.Ctx) { take.Remind(ctx, soon, "r", page{}) }, want: "use After or Every"},
		"read-only":    {readOnly: true, do: func(ctx *entity.Ctx) { ctx.CancelReminder("r") }, want: "Look changes nothing"},
		"negative":     {do: func(ctx *entity.Ctx) { take.RemindAfter(ctx, -1, "r", page{}) }, want: "must be after 0 or more"},
		"short period": {do: func(ctx *entity.Ctx) { take.RemindEvery(ctx, time.Second-1, "r", page{}) }, want: "must be at least 1s"},
		"never": {do: func(ctx *entity.Ctx) {
			take.Remind(ctx, time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), "r", page{})
		}, want: "its time is in the year 10000"},
		"overflow":     {do: func(ctx *entity.Ctx) { take.Remind(ctx, time.Unix(1<<60, 0), "r", page{}) }, want: "must be in 9999"},
		"no time":      {do: func(ctx *entity.Ctx) { take.Remind(ctx, time.Time{}, "r", page{}) }, want: "has no time"},
		"no name":      {do: func(ctx *entity.Ctx) { take.Remind(ctx, soon, "", page{}) }, want: "must have 1 to 256"},
		"another type": {do: func(ctx *entity.Ctx) { foreign.Remind(ctx, soon, "r", page{}) }, want: "an entity can remind itself only"},
		"not bound":    {do: func(ctx *entity.Ctx) { other.Remind(ctx, soon, "r", nil) }, want: "not one of type Notebook"},
		"too large": {do: func(ctx *entity.Ctx) {
			take.Remind(ctx, soon, "r", page{Text: strings.Repeat("x", sharding.MaxPayload)})
		}, want: "at most 1048576 are allowed"},
		"control":       {do: func(ctx *entity.Ctx) { take.Remind(ctx, soon, "a\nb", page{}) }, want: "control character U+000A"},
		"direction":     {do: func(ctx *entity.Ctx) { take.RemindEvery(ctx, time.Hour, "a\u202eb", page{}) }, want: "holds U+202E"},
		"no text":       {do: func(ctx *entity.Ctx) { take.Remind(ctx, soon, "a\xff", page{}) }, want: "not valid UTF-8"},
		"long name":     {do: func(ctx *entity.Ctx) { take.Remind(ctx, soon, strings.Repeat("n", 5000), page{}) }, want: "nnn…\": its name has 5000 bytes"},
		"too many":      {do: func(ctx *entity.Ctx) { setMany(ctx, 1001) }, want: "may change 1000 reminders"},
		"as many as is": {do: func(ctx *entity.Ctx) { setMany(ctx, 1000) }},
	} {
		t.Run(name, func(t *testing.T) {
			inst, _ := newNotebook(t, c.volatile, c.do)
			command := "Act"
			if c.readOnly {
				command = "Look"
			}
			done, failed := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: command, Payload: []byte("1")}, ReadOnly: c.readOnly}, nil)
			if c.want == "" {
				if failed != nil || len(done.Wakes) != 1000 {
					t.Errorf("%v, %d wake-ups", failed, len(done.Wakes))
				}
				return
			}
			if failed == nil || !strings.Contains(failed.Error(), c.want) || !strings.Contains(failed.Error(), "reminder ") || len(done.Wakes) > 0 {
				t.Errorf("got %v with %d wake-ups, want %s", failed, len(done.Wakes), c.want)
			}
			code := sharding.FailedPrecondition
			switch {
			}
			if r := done.Reply; r.Code != code || strings.Contains(r.Message, c.want) == (code == sharding.Internal) {
				t.Errorf("the caller gets %+v", r)
			}
		})
	}
}

func setMany(ctx *entity.Ctx, n int) {
	for i := range n {
		ctx.CancelReminder(strings.Repeat("x", i%250) + string(rune('a'+i/250)))
	}
}

// TestReminderStages: the last change of a name counts, and a time is never rounded down.
func TestReminderStages(t *testing.T) {
	at := time.UnixMilli(5000).Add(time.Nanosecond)
	inst, _ := newNotebook(t, false, func(ctx *entity.Ctx) {
		ctx.CancelReminder("a")
		take.Remind(ctx, at, "a", page{"x", "de"})
		take.RemindEvery(ctx, time.Minute, "b", page{})
		take.RemindEvery(ctx, time.Minute, "b", page{})
		ctx.CancelReminder("b")
	})
	done, failed := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Act", Payload: []byte("1")}}, nil)
	if failed != nil || len(done.Wakes) != 2 {
		t.Fatalf("%+v %v", done, failed)
	}
	a, b := done.Wakes[0], done.Wakes[1]
	if a.Name != "a" || a.Due != 5001 || a.Period != 0 || a.Input.Command != "Take" || a.Input.Version != 2 || string(a.Input.Payload) != `{"Text":"x","Lang":"de"}` {
		t.Errorf("%+v", a)
	}
	if b.Name != "b" || b.Due != 0 {
		t.Errorf("%+v", b)
	}
}

// TestReminderInput: a stored input is read like a stored event: by its version, and strictly.
func TestReminderInput(t *testing.T) {
	for name, c := range map[string]struct {
		version uint16
		payload string
		want    page
		fails   string
	}{
		"current":       {2, `{"Text":"a","Lang":"de"}`, page{"a", "de"}, ""},
		"older":         {1, `{"Text":"a"}`, page{"a", "en"}, ""},
		"missing field": {2, `{"Text":"a"}`, page{}, "without the field"},
		"unknown field": {2, `{"Text":"a","Lang":"de","Size":1}`, page{}, "does not know"},
		"later":         {3, `{"Text":"a","Lang":"de"}`, page{}, "of version 3"},
	} {
		t.Run(name, func(t *testing.T) {
			inst, book := newNotebook(t, false, nil)
			w := turn.Wakeup{WakeRef: sharding.WakeRef{Kind: sharding.ReminderWake, Name: "r"}, Due: 1,
				Input: sharding.Input{Command: "Take", Version: c.version, ReadableBy: c.version, Payload: []byte(c.payload)}}
			done, _ := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Take", Payload: []byte(c.payload)}, Wakeup: &w}, nil)
			if c.fails == "" {
				if done.Reply.Outcome != sharding.Executed || len(book.notes) != 1 || book.notes[0] != c.want {
					t.Errorf("%+v %+v", done.Reply, book.notes)
				}
				return
			}
			if done.Reply.Outcome != sharding.NotApplied || done.Reply.Code != sharding.Unimplemented || !strings.Contains(done.Reply.Message, c.fails) || !strings.Contains(done.Reply.Message, "reminder r") {
				t.Errorf("%+v, want %s", done.Reply, c.fails)
			}
		})
	}
}
