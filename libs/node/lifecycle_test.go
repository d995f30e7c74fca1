package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// eventLog records what happens to stages, in order.
type eventLog struct {
	mu      sync.Mutex
	entries []string
}

func (e *eventLog) add(entry string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.entries = append(e.entries, entry)
}

func (e *eventLog) stage(name string) *Stage {
	return &Stage{
		Name:  name,
		Start: func(context.Context) error { e.add("start " + name); return nil },
		Run: func(ctx context.Context) error {
			<-ctx.Done()
			e.add("end " + name)
			return nil
		},
		Stop: func(context.Context) error { e.add("stop " + name); return nil },
	}
}

func (e *eventLog) run(ctx context.Context, stages ...*Stage) error {
	l := lifecycle{log: slog.New(slog.DiscardHandler), timeout: time.Minute, stages: stages}
	return l.run(ctx, func() { e.add("ready") }, func(context.Context) { e.add("stopping") })
}

func (e *eventLog) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(e.entries, want) {
		t.Errorf("got  %q\nwant %q", e.entries, want)
	}
}

func TestStagesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events eventLog
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := events.run(ctx, events.stage("a"), events.stage("b")); err != nil {
			t.Error(err)
		}
		events.expect(t, "start a", "start b", "ready", "stopping", "stop b", "end b", "stop a", "end a")
	})
}

func TestStartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events eventLog
		bad := events.stage("bad")
		bad.Start = func(context.Context) error { return errors.New("no disk") }
		closer := &Stage{Name: "closer", Stop: func(context.Context) error { events.add("close"); return nil }}
		err := events.run(t.Context(), events.stage("a"), bad, events.stage("c"), closer)
		if err == nil || !strings.Contains(err.Error(), "stage bad: no disk") {
			t.Errorf("got %v", err)
		}
		// A stage that has only a Stop is stopped even if it was never reached.
		events.expect(t, "start a", "stopping", "close", "stop a", "end a")
	})
}

func TestRunFails(t *testing.T) {
	for name, run := range map[string]func(context.Context) error{
		"fsync":              func(context.Context) error { return errors.New("fsync") },
		"ended unexpectedly": func(context.Context) error { return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			var events eventLog
			bad := &Stage{Name: "bad", Run: func(ctx context.Context) error {
				time.Sleep(time.Minute)
				return run(ctx)
			}}
			begin := time.Now()
			err := events.run(t.Context(), events.stage("a"), bad)
			if err == nil || !strings.Contains(err.Error(), "stage bad: "+name) {
				t.Errorf("got %v, want %s", err, name)
			}
			if took := time.Since(begin); took != time.Minute {
				t.Errorf("took %v", took)
			}
			events.expect(t, "start a", "ready", "stopping", "stop a", "end a")
		})
	}
}

// TestRunPanics: a panic in Run ends the process, with the place where it happened.
func TestRunPanics(t *testing.T) {
	if os.Getenv("RUN_PANICS") != "" {
		var events eventLog
		err := events.run(t.Context(), &Stage{Name: "bad", Run: func(context.Context) error { panic("ouch") }})
		t.Fatalf("the process continues: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestRunPanics$")
	cmd.Env = append(os.Environ(), "RUN_PANICS=1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "panic: ouch") || !strings.Contains(string(out), "lifecycle_test.go") || strings.Contains(string(out), "continues") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestStopInterruptsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events eventLog
		slow := events.stage("slow")
		slow.Start = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := events.run(ctx, events.stage("a"), slow); err != nil {
			t.Errorf("asked to stop while starting: %v, want nil", err)
		}
		events.expect(t, "start a", "stopping", "stop a", "end a")
	})
}

func TestFailureInterruptsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events eventLog
		slow := events.stage("slow")
		slow.Start = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		bad := &Stage{Name: "bad", Run: func(context.Context) error { time.Sleep(time.Second); return errors.New("lost") }}
		if err := events.run(t.Context(), bad, slow); err == nil || err.Error() != "stage bad: lost" {
			t.Errorf("got %v, want the failure alone", err)
		}
	})
}

func TestStopTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events eventLog
		release := make(chan struct{})
		defer close(release)
		hang := func(context.Context) error { <-release; return nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		err := events.run(ctx,
			events.stage("a"),
			&Stage{Name: "patient", Stop: hang}, // bounded by the whole shutdown: a minute
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
		// The whole time is used up, but the last stage is still stopped.
		synctest.Wait()
		if !slices.Contains(events.entries, "stop a") {
			t.Errorf("a was not stopped: %q", events.entries)
		}
	})
}

func TestFailBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events eventLog
		l := lifecycle{log: slog.New(slog.DiscardHandler), timeout: time.Minute, stages: []*Stage{events.stage("a")}}
		l.fail(errors.New("listener"))
		l.fail(errors.New("second"))
		err := l.run(t.Context(), func() { events.add("ready") }, func(context.Context) { events.add("stopping") })
		if err == nil || err.Error() != "listener" {
			t.Errorf("got %v, want the first failure", err)
		}
		events.expect(t, "stopping")
	})
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := health{timeout: 3 * time.Second, excluded: []string{"bad"}}
		hang := make(chan struct{})
		defer close(hang)
		h.add("good", func(context.Context) error { return nil })
		h.add("bad", func(context.Context) error { return errors.New("behind") })
		h.add("panics", func(context.Context) error { panic("ouch") })
		h.add("hangs", func(context.Context) error { <-hang; return nil })
		begin := time.Now()
		results := h.run(t.Context(), []string{"bad"})
		if took := time.Since(begin); took != h.timeout {
			t.Errorf("took %v", took)
		}
		if len(results) != 3 || results[0].err != nil || results[1].err == nil || results[2].err == nil {
			t.Errorf("got %v", results)
		}
		// A check that the configuration excludes is listed, and fails nothing.
		if bad := h.run(t.Context(), nil)[1]; failed(bad.err) || bad.err.Error() != "behind (ignored because of health.exclude)" {
			t.Errorf("the excluded check says %v", bad.err)
		}
	})
}

// TestWarning: a check that warns is listed, and does not fail.
func TestWarning(t *testing.T) {
	h := health{timeout: time.Second}
	h.add("good", func(context.Context) error { return nil })
	h.add("journal", func(context.Context) error { return Warning(errors.New("the log\n\tgrows")) })
	answer := func(query string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/readyz"+query, nil))
		return fmt.Sprint(w.Code, " ", w.Body)
	}
	if got := answer(""); got != "200 [!] journal: the log grows\nok\n" {
		t.Errorf("got %q", got)
	}
	if got := answer("?verbose"); got != "200 [+] good\n[!] journal: the log grows\nok\n" {
		t.Errorf("got %q", got)
	}
	h.add("bad", func(context.Context) error { return errors.New("behind") })
	if got := answer(""); got != "503 [!] journal: the log grows\n[-] bad: behind\nfailed\n" {
		t.Errorf("got %q", got)
	}
}
