package entitytest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// meter takes readings: by reminders of its own, and from others.
type meter struct{ Log []string }

type (
	reading   struct{ Line string }
	measure   struct{ Unit, Where string }
	measureV1 struct{ Unit string }
)

func (m *meter) read(ctx *entity.Ctx, in measure) (string, error) {
	ctx.Persist(reading{in.Unit + " in " + in.Where})
	return "ok", nil
}

// meters is version 2 of the type: the command was Measure once, and its input had one field.
func meters() entity.Definition {
	read := entity.Command[measure, string]("Meter", "Read", entity.Stored(), entity.Alias("Measure"), entity.V(2, entity.From(1, func(old measureV1) measure { return measure{old.Unit, "town"} })))
	done := entity.Command[entity.Answer[string], struct{}]("Meter", "WasRead", entity.Alias("Measured"))
	return entity.Define("Meter", func(string) *meter { return &meter{} }, entity.On(read, (*meter).read),
		entity.On(done, func(m *meter, ctx *entity.Ctx, a entity.Answer[string]) (struct{}, error) {
			ctx.Persist(reading{a.Type + "/" + a.ID + " says " + a.Value})
			return struct{}{}, nil
		}),
		entity.Event("reading", func(m *meter, e reading) { m.Log = append(m.Log, e.Line) }),
	)
}

// TestStoredInputs: what an older version has stored under an old name, with an old input, runs.
func TestStoredInputs(t *testing.T) {
	k := entitytest.New(t, meters())
	old := entitytest.StoredInput{Command: "Measure", Version: 1, Payload: `{"Unit":"kWh"}`}
	k.Entity(meters(), "m").GivenReminder("daily", k.Now().Add(time.Hour), old)
	if r := k.Entity(meters(), "m").Reminders(); len(r) != 1 || r[0].Command != "Measure" {
		t.Fatalf("%+v", r)
	}
	k.Advance(time.Hour)
	k.Entity(meters(), "m").WantEvents(reading{"kWh in town"})
	if r := k.Entity(meters(), "m").Reminders(); len(r) > 0 {
		t.Errorf("it stands: %+v", r)
	}
	k.Entity(meters(), "n").GivenSend(k.Entity(meters(), "o"), old, "Measured")
	k.Entity(meters(), "o").WantEvents(reading{"kWh in town"})
	k.Entity(meters(), "n").WantEvents(reading{"Meter/o says ok"})
	if s := k.Entity(meters(), "n").Sends(); len(s) > 0 {
		t.Errorf("they are not done: %+v", s)
	}
}

// TestUnreadableInputs: an input that a version cannot read waits, reports the reason, and runs when a
// version is there that can.
func TestUnreadableInputs(t *testing.T) {
	v1 := entity.Command[measureV1, string]("Meter", "Measure", entity.Stored())
	first := entity.Define("Meter", func(string) *meter { return &meter{} }, entity.On(v1, func(m *meter, ctx *entity.Ctx, in measureV1) (string, error) {
		ctx.Persist(reading{in.Unit})
		return "ok", nil
	}),
		entity.Event("reading", func(m *meter, e reading) { m.Log = append(m.Log, e.Line) }),
	)
	k := entitytest.New(t, first)
	later := entitytest.StoredInput{Command: "Measure", Version: 2, Payload: `{"Unit":"kWh","Where":"cellar"}`}
	k.Entity(meters(), "m").GivenReminder("daily", k.Now(), later)
	k.Entity(meters(), "n").GivenSend(k.Entity(meters(), "o"), later, "")
	k.Entity(meters(), "p").GivenSend(k.Entity(meters(), "o"), entitytest.StoredInput{Command: "Read", Version: 1, Payload: `{}`}, "")
	k.Advance(10 * time.Minute)
	r, s, unknown := k.Entity(meters(), "m").Reminders(), k.Entity(meters(), "n").Sends(), k.Entity(meters(), "p").Sends()
	if len(r) != 1 || r[0].Failures < 5 || !strings.Contains(r[0].Error, "version 2") {
		t.Errorf("the reminder: %+v", r)
	}
	if len(s) != 1 || s[0].Failures < 5 || s[0].State != "pending" || !strings.Contains(s[0].Error, "version 2") {
		t.Errorf("the send: %+v", s)
	}
	if len(unknown) != 1 || unknown[0].State != "pending" || !strings.Contains(unknown[0].Error, "no command Read") {
		t.Errorf("a send of a command that is not there yet: %+v", unknown)
	}
	k.Restart(meters())
	k.Advance(2 * time.Minute)
	k.Entity(meters(), "m").WantEvents(reading{"kWh in cellar"})
	k.Entity(meters(), "o").WantEvents(reading{"kWh in cellar"})
}
