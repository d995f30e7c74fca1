package entitytest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// pump is a volatile entity whose timer fails until it is mended, in one of several ways.
type pump struct {
	how  string
	runs int
}

var (
	pumpStart = entity.Command[string, int]("Pump", "Start")
	pumpBeat  = entity.Command[struct{}, int]("Pump", "Beat")
	pumpOnce  = entity.Command[struct{}, int]("Pump", "Once")
)

func pumps() entity.Definition {
	return entity.Define("Pump", func(string) *pump { return &pump{} },
		entity.On(pumpStart, func(p *pump, ctx *entity.Ctx, how string) (int, error) {
			if p.how == "" {
				pumpBeat.Every(ctx, time.Second, "beat", struct{}{})
				pumpOnce.After(ctx, time.Second, "once", struct{}{})
			}
			p.how = how
			return p.runs, nil
		}),
		entity.On(pumpBeat, (*pump).beat), entity.On(pumpOnce, (*pump).beat),
		entity.With[pump](entity.Volatile()),
	)
}

func (p *pump) beat(*entity.Ctx, struct{}) (int, error) {
	p.runs++
	switch p.how {
	case "business":
		return 0, entity.Errorf(entity.FailedPrecondition, "no water, run %d", p.runs)
	case "panic":
		panic("dry")
	}
	return p.runs, nil
}

// TestFailingTimers: the command of a timer has no caller, so a test asks whether it has failed.
func TestFailingTimers(t *testing.T) {
	k := entitytest.New(t, pumps())
	start := func(how string) {
		t.Helper()
		if _, err := pumpStart.Call(t.Context(), k, "p", how); err != nil {
			t.Fatal(err)
		}
	}
	want := func(texts ...string) {
		t.Helper()
		got := k.Entity(pumps(), "p").FailingTimers()
		if len(got) != len(texts) {
			t.Fatalf("failing are %+v, not %q", got, texts)
		}
		for i, text := range texts {
			command, more, _ := strings.Cut(text, " ")
			if got[i].Command != command || !strings.Contains(got[i].Error, more) {
				t.Errorf("%+v is not %q", got[i], text)
			}
		}
	}
	want()
	start("business")
	k.Advance(3500 * time.Millisecond)
	want("Beat failed_precondition: no water, run 4", "Once failed_precondition: no water")
	if got := k.Entity(pumps(), "p").FailingTimers(); got[0].Failures != 3 || got[1].Failures != 1 {
		t.Errorf("counted are %+v", got)
	}
	start("well")
	k.Advance(time.Second)
	want("Once failed_precondition")
	start("panic")
	k.Advance(time.Second)
	want("Beat internal: ", "Once failed_precondition")
	k.Restart()
	want()
}
