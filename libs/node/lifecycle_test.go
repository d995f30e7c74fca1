package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A diary notes what happens to stages, in order.
type diary struct {
	mu      sync.Mutex
	entries []string
}

func (d *diary) note(entry string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, entry)
}

func (d *diary) stage(name string) *Stage {
	return &Stage{
		Name:  name,
		Start: func(context.Context) error { d.note("start " + name); return nil },
		Run: func(ctx context.Context) error {
			<-ctx.Done()
			d.note("end " + name)
			return nil
		},
		Stop: func(context.Context) error { d.note("stop " + name); return nil },
	}
}

func (d *diary) run(ctx context.Context, stages ...*Stage) error {
	l := lifecycle{log: slog.New(slog.DiscardHandler), timeout: time.Minute, stages: stages}
	return l.run(ctx, func() { d.note("ready") }, func(context.Context) { d.note("stopping") })
}

func (d *diary) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(d.entries, want) {
		t.Errorf("got  %q\nwant %q", d.entries, want)
	}
}

func TestStagesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := d.run(ctx, d.stage("a"), d.stage("b")); err != nil {
			t.Error(err)
		}
		d.expect(t, "start a", "start b", "ready", "stopping", "stop b", "end b", "stop a", "end a")
	})
}

func TestStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		bad := d.stage("bad")
		bad.Start = func(context.Context) error { return errors.New("no disk") }
		closer := &Stage{Name: "closer", Stop: func(context.Context) error { d.note("close"); return nil }}
		err := d.run(t.Context(), d.stage("a"), bad, d.stage("c"), closer)
		if err == nil || !strings.Contains(err.Error(), "stage bad: no disk") {
			t.Errorf("got %v", err)
		}
		// A stage with nothing but a Stop is closed even if its turn never came.
		d.expect(t, "start a", "stopping", "close", "stop a", "end a")
	})
}

func TestRunFails(t *testing.T) {
	for name, run := range map[string]func(context.Context) error{
		"fsync":           func(context.Context) error { return errors.New("fsync") },
		"panic: ouch":     func(context.Context) error { panic("ouch") },
		"ended by itself": func(context.Context) error { return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			var d diary
			bad := &Stage{Name: "bad", Run: func(ctx context.Context) error {
				time.Sleep(time.Minute)
				return run(ctx)
			}}
			begin := time.Now()
			err := d.run(t.Context(), d.stage("a"), bad)
			if err == nil || !strings.Contains(err.Error(), "stage bad: "+name) {
				t.Errorf("got %v, want %s", err, name)
			}
			if took := time.Since(begin); took != time.Minute {
				t.Errorf("took %v", took)
			}
			d.expect(t, "start a", "ready", "stopping", "stop a", "end a")
		})
	}
}

func TestStopInterruptsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		slow := d.stage("slow")
		slow.Start = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.run(ctx, d.stage("a"), slow); err != nil {
			t.Errorf("asked to stop while starting: %v, want nil", err)
		}
		d.expect(t, "start a", "stopping", "stop a", "end a")
	})
}

func TestFailureInterruptsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		slow := d.stage("slow")
		slow.Start = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		bad := &Stage{Name: "bad", Run: func(context.Context) error { time.Sleep(time.Second); return errors.New("lost") }}
		if err := d.run(t.Context(), bad, slow); err == nil || err.Error() != "stage bad: lost" {
			t.Errorf("got %v, want the failure alone", err)
		}
	})
}

func TestStopTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		release := make(chan struct{})
		defer close(release)
		hang := func(context.Context) error { <-release; return nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		err := d.run(ctx,
			d.stage("a"),
			&Stage{Name: "patient", Stop: hang}, // Bounded by the whole: a minute.
			&Stage{Name: "stubborn", Run: hang, StopTimeout: 2 * time.Second},
			&Stage{Name: "hung", Stop: hang, StopTimeout: 3 * time.Second})
		if took := time.Since(begin); took != time.Second+time.Minute {
			t.Errorf("took %v", took)
		}
		if err == nil {
			t.Fatal("no error")
		}
		for _, name := range []string{"patient", "stubborn", "hung"} {
			if !strings.Contains(err.Error(), "stop of stage "+name+": out of time") {
				t.Errorf("%s is not in %v", name, err)
			}
		}
		// The whole time is used up, but the last stage still gets its stop.
		synctest.Wait()
		if !slices.Contains(d.entries, "stop a") {
			t.Errorf("a was not stopped: %q", d.entries)
		}
	})
}

func TestFailBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		l := lifecycle{log: slog.New(slog.DiscardHandler), timeout: time.Minute, stages: []*Stage{d.stage("a")}}
		l.fail(errors.New("listener"))
		l.fail(errors.New("second"))
		err := l.run(t.Context(), func() { d.note("ready") }, func(context.Context) { d.note("stopping") })
		if err == nil || err.Error() != "listener" {
			t.Errorf("got %v, want the first failure", err)
		}
		d.expect(t, "stopping")
	})
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h health
		hang := make(chan struct{})
		defer close(hang)
		h.add("good", func(context.Context) error { return nil })
		h.add("bad", func(context.Context) error { return errors.New("behind") })
		h.add("panics", func(context.Context) error { panic("ouch") })
		h.add("hangs", func(context.Context) error { <-hang; return nil })
		begin := time.Now()
		results := h.run(t.Context(), []string{"bad"})
		if took := time.Since(begin); took != checkTimeout {
			t.Errorf("took %v", took)
		}
		if len(results) != 3 || results[0].err != nil || results[1].err == nil || results[2].err == nil {
			t.Errorf("got %v", results)
		}
	})
}
