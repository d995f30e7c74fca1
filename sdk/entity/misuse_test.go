package entity_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// logged returns what f logs.
func logged(t *testing.T, f func()) string {
	t.Helper()
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	f()
	return out.String()
}

// TestMisuse: an impossible request of a handler is refused with a reason that its caller gets too.
func TestMisuse(t *testing.T) {
	for name, c := range map[string]struct {
		volatile bool
		do       func(*entity.Ctx)
		want     string
	}{
		"timer of another type": {do: func(ctx *entity.Ctx) { foreign.After(ctx, time.Second, "t", page{}) }, want: `timer "t": command Else.Take is not one of type Notebook`},
		"timer not bound": {do: func(ctx *entity.Ctx) {
			entity.Command[page, string]("Notebook", "Gone").Every(ctx, time.Second, "t", page{})
		}, want: "Notebook.Gone is not one of type Notebook"},
		"send without a target": {do: func(ctx *entity.Ctx) { foreign.Send(ctx, "", page{}) }, want: "send Take to Else/: the target has no name: "},
		"send of no command": {do: func(ctx *entity.Ctx) {
			entity.Command[page, string]("Else", "", entity.Stored()).Send(ctx, "x", page{})
		}, want: "command is empty"},
		"send of too much": {do: func(ctx *entity.Ctx) {
			entity.Command[page, string]("Else", "Take", entity.Stored()).Send(ctx, "x", page{Text: strings.Repeat("x", sharding.MaxPayload)})
		}, want: "at most 1048576 are allowed"},
		"timer without interval":  {do: func(ctx *entity.Ctx) { take.Every(ctx, 0, "t", page{}) }, want: `timer "t": its interval is 0s, must be at least 1ms`},
		"timer back in time":      {volatile: true, do: func(ctx *entity.Ctx) { take.Every(ctx, -5*time.Millisecond, "t", page{}) }, want: "its interval is -5ms"},
		"send of a volatile":      {volatile: true, do: func(ctx *entity.Ctx) { foreign.Send(ctx, "x", page{}) }, want: "use Ask"},
		"delete of a volatile":    {volatile: true, do: func(ctx *entity.Ctx) { ctx.Delete() }, want: "use Passivate"},
		"forget without Remember": {do: func(ctx *entity.Ctx) { ctx.Forget() }, want: "forget: entity type Notebook is not remembered; it has no Remember"},
	} {
		inst, _ := newNotebook(t, c.volatile, c.do)
		done, failed := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Act", Payload: []byte("1")}}, nil)
		outcome := sharding.NotApplied
		if c.volatile {
			outcome = sharding.Executed
		}
		if r := done.Reply; failed == nil || r.Outcome != outcome || r.Code != sharding.FailedPrecondition || !strings.Contains(r.Message, c.want) {
			t.Errorf("%s: %+v, %v; want %s", name, r, failed, c.want)
		}
		if len(done.Timers)+len(done.Sends) > 0 || done.Deleted {
			t.Errorf("%s: it is staged", name)
		}
	}
}

// TestAfterTheTurn: a Ctx that is used when its handler has returned changes nothing. The log has it.
func TestAfterTheTurn(t *testing.T) {
	var ctx *entity.Ctx
	inst, _ := newNotebook(t, false, func(c *entity.Ctx) { ctx = c })
	if _, failed := inst.Run(t.Context(), time.Now(), &turn.Run{Env: &sharding.Envelope{Command: "Act", Payload: []byte("1")}}, nil); failed != nil {
		t.Fatal(failed)
	}
	for what, do := range map[string]func(){
		`reminder \"r\"`:      func() { take.Remind(ctx, time.Now().Add(time.Hour), "r", page{}) },
		`reminder \"s\"`:      func() { take.RemindEvery(ctx, time.Millisecond, "s", page{}) },
		"send Take to Else/x": func() { foreign.Send(ctx, "x", page{}) },
		"persist":             func() { ctx.Persist(page{}) },
		"delete":              func() { ctx.Delete() },
		"forget":              func() { ctx.Forget() },
		"passivate":           func() { ctx.Passivate() },
		`cancel timer \"t\"`:  func() { ctx.CancelTimer("t") },
		`timer \"t\"`:         func() { take.After(ctx, time.Hour, "t", page{}) },
	} {
		log := logged(t, do)
		if !strings.Contains(log, what+" counts for nothing") || !strings.Contains(log, "the handler has returned") || !strings.Contains(log, "entity.id=n") {
			t.Errorf("%s: %s", what, log)
		}
	}
}

// TestPanicNamesTheEntity: the log names the entity that panicked.
func TestPanicNamesTheEntity(t *testing.T) {
	inst, err := instance.New(boxes(), "b7")
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	log := logged(t, func() {
		failed = inst.Replay([]sharding.Event{{Name: "grown", Version: 1, ReadableBy: 1, Payload: []byte(`{"By":666}`)}})
	})
	if failed == nil || !strings.Contains(log, "entity.type=Box entity.id=b7 in=\"reducer of event grown\"") {
		t.Errorf("%v: %s", failed, log)
	}
}
