package entitytest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// probe measures something all the time, from its first measurement until it is retired.
type probe struct {
	Values []int
	Broken bool
}

type (
	measured struct{ Value int }
	broke    struct{}
)

// probeRepaired makes broken probes start again. Tests of this file do not run in parallel.
var probeRepaired bool

func (p *probe) OnStart(ctx *entity.Ctx) error {
	if p.Broken && !probeRepaired {
		return errors.New("it is broken")
	}
	if len(p.Values) > 0 { // those that were only looked at do nothing
		probeMeasure.Every(ctx, time.Minute, "measure", 7)
	}
	return nil
}

var (
	probeMeasure = entity.Command[int, string]("Probe", "Measure")
	probeRetire  = entity.Command[int, string]("Probe", "Retire")
	probeBreak   = entity.Command[int, string]("Probe", "Break")
	probeNothing = entity.Command[int, string]("Probe", "Nothing")
	probeLook    = entity.Command[int, string]("Probe", "Look", entity.ReadOnly())
)

func (p *probe) measure(ctx *entity.Ctx, v int) (string, error) {
	ctx.Persist(measured{v})
	return "", nil
}

func (p *probe) retire(ctx *entity.Ctx, v int) (string, error) {
	ctx.Forget()
	if v > 0 {
		return "", entity.Errorf(entity.FailedPrecondition, "not now")
	}
	return "", nil
}

func (p *probe) breakIt(ctx *entity.Ctx, _ int) (string, error) {
	ctx.Persist(broke{})
	return "", nil
}

func (p *probe) nothing(*entity.Ctx, int) (string, error) { return "", nil }

func (p *probe) look(*entity.Ctx, int) (string, error) { return "", nil }

func probes() entity.Definition {
	return entity.Define("Probe", func(string) *probe { return &probe{} },
		entity.On(probeMeasure, (*probe).measure), entity.On(probeRetire, (*probe).retire), entity.On(probeBreak, (*probe).breakIt),
		entity.On(probeNothing, (*probe).nothing), entity.On(probeLook, (*probe).look),
		entity.Event("measured", func(p *probe, e measured) { p.Values = append(p.Values, e.Value) }),
		entity.Event("broke", func(p *probe, _ broke) { p.Broken = true }),
		entity.With[probe](entity.Remember()),
	)
}

// TestRemember: an entity that has stored something is alive again after a restart, without a
// command, until it says otherwise.
func TestRemember(t *testing.T) {
	k := entitytest.New(t, probes())
	for key, h := range map[string]*entity.Handle[int, string]{"k1": probeLook, "k2": probeNothing} {
		if _, err := h.Call(t.Context(), k, "a", 1, entity.Key(key)); err != nil {
			t.Fatal(err)
		}
	}
	if k.Entity(probes(), "a").Remembered() {
		t.Error("it is remembered, though nothing was stored")
	}
	ask(t, k, probeMeasure, 1)
	if _, err := probeRetire.Call(t.Context(), k, "dora", 1); entity.CodeOf(err) != entity.FailedPrecondition {
		t.Errorf("Retire(1): %v", err)
	}
	if !k.Entity(probes(), "dora").Remembered() {
		t.Fatal("it is not remembered")
	}
	k.Restart()
	if !k.Entity(probes(), "dora").Active() || k.Entity(probes(), "a").Active() {
		t.Fatal("after a restart the wrong ones are alive")
	}
	k.Advance(150 * time.Second)
	k.Entity(probes(), "dora").WantEvents(measured{1}, measured{7}, measured{7})
	ask(t, k, probeRetire, 0)
	k.Restart()
	if k.Entity(probes(), "dora").Remembered() || k.Entity(probes(), "dora").Active() {
		t.Error("it is alive, though it wants to be forgotten")
	}
	ask(t, k, probeMeasure, 2) // it stores something again
	k.CrashAtCommit(entitytest.AfterCommit)
	_, _ = probeMeasure.Call(t.Context(), k, "dora", 3)
	if !k.Entity(probes(), "dora").Active() {
		t.Error("it is not alive after a crash")
	}
}

// TestRememberedThatFails: one that cannot be started is tried again.
func TestRememberedThatFails(t *testing.T) {
	k := entitytest.New(t, probes())
	ask(t, k, probeMeasure, 1)
	ask(t, k, probeBreak, 1)
	probeRepaired = false
	defer func() { probeRepaired = false }()
	k.Restart()
	k.Advance(9 * time.Second)
	probeRepaired = true
	if k.Entity(probes(), "dora").Active() {
		t.Fatal("a broken one is alive")
	}
	k.Advance(2 * time.Second)
	if !k.Entity(probes(), "dora").Active() {
		t.Error("it was not tried again")
	}
}
