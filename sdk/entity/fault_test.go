package entity_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// evilError is an error whose methods do what an author may do by mistake.
type evilError struct {
	does func()
	err  error
}

func (e *evilError) Error() string { e.does(); return "evil" }

func (e *evilError) Unwrap() error { return e.err }

// looping is an error that panics with itself, which package fmt does not survive.
func looping() error {
	e := &evilError{}
	e.does = func() { panic(e) }
	return e
}

// evils are errors with the texts that the log has of them.
var evils = map[string]struct {
	err  error
	want string
}{
	"a nil pointer":             {(*evilError)(nil), "a nil *entity_test.evilError"},
	"a nil *entity.Error":       {(*entity.Error)(nil), "a nil *entity.Error"},
	"panic":                     {&evilError{does: func() { panic("boom") }}, "the Error method of a *entity_test.evilError panicked: boom"},
	"panic with itself":         {looping(), "the Error method of a *entity_test.evilError panicked: a *entity_test.evilError"},
	"wrapped":                   {fmt.Errorf("open: %w", &evilError{does: func() { panic("boom") }}), "open: %!v(PANIC=Error method: boom)"},
	"joined, panic with itself": {errors.Join(errors.New("first"), looping()), "the Error method of a *errors.joinError panicked"},
	"long":                      {errors.New(strings.Repeat("x", 1<<20)), "xxxx"},
}

// fragile has code of its author everywhere. It fails in the place that fault names.
type fragile struct{}

// fault is the error of a fragile's code.
var fault struct {
	place string
	err   error
	panic bool
}

func fails(place string) error {
	switch {
	case fault.place != place:
		return nil
	case fault.panic:
		panic(fault.err)
	}
	return fault.err
}

type cracked struct{}

func (cracked) MarshalJSON() ([]byte, error)  { return []byte("{}"), fails("MarshalJSON") }
func (*cracked) UnmarshalJSON(b []byte) error { return fails("UnmarshalJSON") }

func mustPass(place string) {
	if err := fails(place); err != nil {
		panic(err)
	}
}

func (f *fragile) OnStart(*entity.Ctx) error             { return fails("OnStart") }
func (f *fragile) OnStop(*entity.Ctx, entity.StopReason) { mustPass("OnStop") }
func (f *fragile) Snapshot() ([]byte, error)             { return nil, fails("Snapshot") }
func (f *fragile) Restore([]byte) error                  { return fails("Restore") }

var crack = entity.Command[cracked, int]("Fragile", "Crack", entity.Stored())

func fragiles() entity.Definition {
	return entity.Define("Fragile", func(string) *fragile { mustPass("create"); return &fragile{} },
		entity.On(crack, func(_ *fragile, ctx *entity.Ctx, _ cracked) (int, error) {
			ctx.Persist(cracked{})
			crack.After(ctx, time.Second, "t", cracked{})
			crack.RemindAfter(ctx, time.Minute, "r", cracked{})
			return 0, fails("handler")
		}),
		entity.On(entity.Command[struct{}, int]("Fragile", "Look", entity.ReadOnly()), func(*fragile, *entity.Ctx, struct{}) (int, error) { return 0, fails("read-only handler") }),
		entity.On(entity.Command[struct{}, cracked]("Fragile", "Say"), func(*fragile, *entity.Ctx, struct{}) (cracked, error) { return cracked{}, nil }),
		entity.On(entity.Command[struct{}, int]("Fragile", "Hide"), func(_ *fragile, ctx *entity.Ctx, _ struct{}) (int, error) {
			defer func() { _ = recover() }()
			ctx.Persist(cracked{})
			return 0, nil
		}),
		entity.Event("cracked", func(*fragile, cracked) { mustPass("reducer") }))
}

// places has, for each place where an author's code runs, what a runtime does that runs it.
var places = map[string]func(t *testing.T) error{
	"create":            func(*testing.T) error { _, err := instance.New(fragiles(), "f"); return err },
	"handler":           command("Crack"),
	"read-only handler": command("Look"),
	"UnmarshalJSON":     command("Crack"),
	"MarshalJSON":       command("Say"),
	"an event":          command("Crack"),
	"reducer":           command("Hide"),
	"OnStart": func(t *testing.T) error {
		_, err := sound(t).Start(t.Context(), time.Now())
		return err
	},
	"OnStop":   func(t *testing.T) error { return sound(t).Stop(t.Context(), time.Now(), turn.Passivated) },
	"Snapshot": func(t *testing.T) error { _, _, err := sound(t).Snapshot(); return err },
	"Restore":  func(t *testing.T) error { return sound(t).Restore(sharding.SnapshotForm{Version: 1}, nil) },
	"a replay": func(t *testing.T) error {
		return sound(t).Replay([]sharding.Event{{Name: "cracked", Version: 1, Payload: []byte("{}")}})
	},
	"a stored input": func(t *testing.T) error {
		return instance.CheckStored(fragiles(), sharding.Entity{Type: "Fragile", ID: "f"}, &sharding.Input{Command: "Crack", Version: 1, Payload: []byte("{}")})
	},
}

// placeOf are the places whose fault is in another one.
var placeOf = map[string]string{"a replay": "reducer", "an event": "MarshalJSON", "a stored input": "UnmarshalJSON"}

func sound(t *testing.T) *instance.Instance {
	was := fault
	fault.place = ""
	defer func() { fault = was }()
	i, err := instance.New(fragiles(), "f")
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func command(name string) func(t *testing.T) error {
	return func(t *testing.T) error {
		run := &turn.Run{Env: &sharding.Envelope{Command: name, Payload: []byte("{}")}, ReadOnly: name == "Look"}
		done, failed := sound(t).Run(t.Context(), time.Now(), run, nil)
		if done.Reply.Outcome != sharding.NotApplied {
			t.Errorf("the reply is %+v", done.Reply)
		}
		if done.Reply.Code == sharding.InvalidArgument {
			return errors.New(done.Reply.Message)
		}
		return failed
	}
}

// TestFaults: an error or a panic whose own text panics is an error like any other, wherever it comes from. What is
// carried on runs no code of the author any more.
func TestFaults(t *testing.T) {
	defer func() { fault.place, fault.err = "", nil }()
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.DiscardHandler))
	for place, run := range places {
		for name, evil := range evils {
			for _, panics := range []bool{true, false} {
				fault.place, fault.err, fault.panic = place, evil.err, panics
				if in := placeOf[place]; in != "" {
					fault.place = in
				}
				err := run(t)
				if err == nil {
					t.Errorf("%s, %s, panic %t: no error", place, name, panics)
					continue
				}
				// Package json has the first word about the errors of its methods.
				if text := err.Error(); !strings.Contains(text, evil.want) && !strings.HasSuffix(fault.place, "JSON") || len(text) > 10<<10 {
					t.Errorf("%s, %s, panic %t: %.300s", place, name, panics, text)
				}
				if errors.As(err, new(*evilError)) {
					t.Errorf("%s, %s, panic %t: the author's error is carried on", place, name, panics)
				}
			}
		}
	}
}

// TestFaultsKeepOurs: what Roost looks for in an author's error is found after the error itself is gone.
func TestFaultsKeepOurs(t *testing.T) {
	defer func() { fault.place, fault.err = "", nil }()
	fault.place, fault.panic = "handler", false
	run := &turn.Run{Env: &sharding.Envelope{Command: "Crack", Payload: []byte("{}")}}
	for _, ours := range []error{instance.ErrTurnOver, instance.ErrPartlyRead, context.Canceled, entity.AskFailed(entity.Unavailable, "later")} {
		fault.err = &evilError{func() { panic("boom") }, ours}
		done, failed := sound(t).Run(t.Context(), time.Now(), run, nil)
		e, asked := errors.AsType[*instance.Failure](failed)
		if !asked && !errors.Is(failed, ours) {
			t.Errorf("%v is lost: %v", ours, failed)
		}
		if _, ok := ours.(*entity.Error); ok != asked || asked && (e.Code != sharding.Unavailable || done.Reply.Code != e.Code) {
			t.Errorf("%+v, %+v", e, done.Reply)
		}
	}
	fault.err = &evilError{func() { panic("boom") }, entity.Errorf(entity.NotFound, "no such thing")}
	if done, failed := sound(t).Run(t.Context(), time.Now(), run, nil); failed != nil || done.Reply.Code != sharding.NotFound || done.Reply.Outcome != sharding.Executed {
		t.Errorf("a wrapped answer: %+v, %v", done.Reply, failed)
	}
}

// TestFaultsEndTheGoroutine: a goroutine that ends in the text of an error has ended in the author's code.
func TestFaultsEndTheGoroutine(t *testing.T) {
	defer func() { fault.place, fault.err = "", nil }()
	fault.err = &evilError{does: runtime.Goexit}
	for _, panics := range []bool{true, false} {
		fault.place, fault.panic = "handler", panics
		i, c, run := sound(t), &entity.Ctx{}, &turn.Run{Env: &sharding.Envelope{Command: "Crack", Payload: []byte("{}")}}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			i.RunIn(t.Context(), c, time.Now(), run, instance.Decoded{}, nil)
			t.Error("RunIn returns")
		}()
		<-ended
		done, failed := i.Exited(c, run)
		if p, ok := errors.AsType[*instance.Panic](failed); !ok || p.Value != instance.ErrGoexit.Error() || !strings.Contains(p.Stack, "fragiles") && !strings.Contains(p.Stack, "evilError") || done.Reply.Outcome != sharding.NotApplied {
			t.Errorf("panic %t: %+v, %v", panics, done.Reply, failed)
		}
	}
	// An input is refused in its turn, not where it is looked at.
	fault.place, fault.panic = "UnmarshalJSON", false
	apart := func(f func()) {
		ended := make(chan struct{})
		go func() { defer close(ended); f() }()
		<-ended
	}
	if _, refusal := instance.CheckInput(fragiles(), &sharding.Envelope{Command: "Crack", Payload: []byte("{}")}, apart); refusal != nil {
		t.Errorf("CheckInput: %+v", refusal)
	}
}
