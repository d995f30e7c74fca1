package entitytest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

type (
	note  struct{ Text string }
	pad   struct{ Lines []string }
	empty struct{}
	saw   struct {
		Fresh bool
		Lines int
	}
)

var (
	write   = entity.Command[note, saw]("Pad", "Write", entity.Stored())
	burn    = entity.Command[note, empty]("Pad", "Burn")
	regret  = entity.Command[empty, empty]("Pad", "Regret")
	glance  = entity.Command[empty, saw]("Pad", "Look", entity.ReadOnly())
	misuse  = entity.Command[string, empty]("Pad", "Misuse")
	padType = entity.Define("Pad", func(string) *pad { return &pad{} },
		entity.On(write, (*pad).write), entity.On(burn, (*pad).burn), entity.On(regret, (*pad).regret),
		entity.On(glance, (*pad).look), entity.On(misuse, (*pad).misuse),
		entity.Event("note", func(p *pad, event note) { p.Lines = append(p.Lines, event.Text) }),
		entity.With[pad](entity.SnapshotEvery(2)),
	)
)

func (p *pad) write(ctx *entity.Ctx, n note) (saw, error) {
	s := saw{ctx.Fresh(), len(p.Lines)}
	write.Remind(ctx, ctx.Now().Add(time.Hour), "again", note{"reminded"})
	ctx.Persist(n)
	return s, nil
}

func (p *pad) burn(ctx *entity.Ctx, last note) (empty, error) {
	ctx.Persist(last)
	ctx.Delete()
	return empty{}, nil
}

func (p *pad) regret(ctx *entity.Ctx, _ empty) (empty, error) {
	ctx.Delete()
	return empty{}, entity.Errorf(entity.FailedPrecondition, "not yet")
}

func (p *pad) look(ctx *entity.Ctx, _ empty) (saw, error) {
	return saw{ctx.Fresh(), len(p.Lines)}, nil
}

func (p *pad) misuse(ctx *entity.Ctx, how string) (empty, error) {
	ctx.Delete()
	if how == "persist" {
		ctx.Persist(note{"late"})
		return empty{}, nil
	}
	write.Remind(ctx, ctx.Now().Add(time.Hour), "late", note{})
	return empty{}, nil
}

// TestDelete: behind its delete the entity is the empty one, its reminders are gone, and a
// repeat of an earlier command gets its first reply.
func TestDelete(t *testing.T) {
	ctx := context.Background()
	k := entitytest.New(t, padType)
	want := func(what string, got saw, err error, want saw) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
		}
	}
	got, err := write.Call(ctx, k, "p", note{"a"}, entity.Key("first"))
	want("first", got, err, saw{true, 0})
	got, err = write.Call(ctx, k, "p", note{"b"})
	want("second", got, err, saw{false, 1})
	if _, err := regret.Call(ctx, k, "p", empty{}); err == nil {
		t.Error("a command with a business error has deleted the entity")
	}
	k.Entity(padType, "p").WantEvents(note{"a"}, note{"b"})
	if _, err := burn.Call(ctx, k, "p", note{"c"}); err != nil {
		t.Fatal(err)
	}
	k.Entity(padType, "p").WantEvents()
	if k.Entity(padType, "p").Active() {
		t.Error("the instance of the life that has ended is alive")
	}
	k.Advance(2 * time.Hour) // its reminder is gone
	k.Entity(padType, "p").WantEvents()
	got, err = write.Call(ctx, k, "p", note{"a"}, entity.Key("first"))
	want("repeat", got, err, saw{true, 0})
	k.Entity(padType, "p").WantEvents()
	got, err = glance.Call(ctx, k, "p", empty{})
	want("look", got, err, saw{true, 0})
	got, err = write.Call(ctx, k, "p", note{"d"})
	want("new life", got, err, saw{true, 0})
	k.Restart()
	got, err = write.Call(ctx, k, "p", note{"e"})
	want("after a restart", got, err, saw{false, 1})
	for _, how := range []string{"persist", "remind"} {
		if _, err := misuse.Call(ctx, k, "p", how); err == nil {
			t.Errorf("%s after Delete is accepted", how)
		}
	}
	k.Entity(padType, "p").WantEvents(note{"d"}, note{"e"})
}

// jammed does not start once it has stored something.
type jammed struct{ pad }

func (j *jammed) OnStart(*entity.Ctx) error {
	if len(j.Lines) > 0 {
		return errors.New("jammed")
	}
	return nil
}

// TestDeleteWhatDoesNotStart: the operator's command needs no instance.
func TestDeleteWhatDoesNotStart(t *testing.T) {
	put := entity.Command[note, empty]("Jam", "Put")
	jams := entity.Define("Jam", func(string) *jammed { return &jammed{} },
		entity.On(put, func(_ *jammed, ctx *entity.Ctx, n note) (empty, error) {
			ctx.Persist(n)
			return empty{}, nil
		}),
		entity.Event("note", func(j *jammed, n note) { j.Lines = append(j.Lines, n.Text) }),
	)
	k := entitytest.New(t, jams)
	for range 2 {
		if _, err := put.Call(context.Background(), k, "j", note{"a"}); err != nil {
			t.Fatal(err)
		}
		k.Restart()
		if _, err := put.Call(context.Background(), k, "j", note{"b"}); entity.CodeOf(err) != entity.Internal {
			t.Fatalf("it starts: %v", err)
		}
		if !k.Entity(jams, "j").Delete() || k.Entity(jams, "j").Delete() {
			t.Fatal("it is not deleted once")
		}
	}
}

// TestDeleteByAnOperator: whatever the handlers of the type would say.
func TestDeleteByAnOperator(t *testing.T) {
	ctx := context.Background()
	k := entitytest.New(t, padType)
	if k.Entity(padType, "p").Delete() {
		t.Error("there was something to delete")
	}
	for _, crash := range []entitytest.Crash{0, entitytest.BeforeCommit, entitytest.AfterCommit} {
		if _, err := write.Call(ctx, k, "p", note{"a"}); err != nil {
			t.Fatal(err)
		}
		if crash != 0 {
			k.CrashAtCommit(crash)
			_, err := burn.Call(ctx, k, "p", note{"c"})
			var e *entity.Error
			if !errors.As(err, &e) {
				t.Errorf("%v: %v", crash, err)
			}
		}
		if deleted := k.Entity(padType, "p").Delete(); deleted != (crash != entitytest.AfterCommit) {
			t.Errorf("crash %v: deleted %t", crash, deleted)
		}
		if got, err := glance.Call(ctx, k, "p", empty{}); err != nil || got != (saw{true, 0}) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
