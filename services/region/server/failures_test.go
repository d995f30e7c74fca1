package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/node/histogram"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/sdk/entity"
)

// frail is an entity that fails in every way.
type frail struct{ N int }

func (*frail) Apply(any) {}

type frailInput struct {
	How string `json:"how"`
}

func (*frail) Fail(ctx *entity.Ctx, in frailInput) (int, error) {
	switch in.How {
	case "error":
		return 0, errors.New("password=hunter2 at db.internal:5432")
	case "panic":
		panic("password=hunter2")
	case "business":
		return 0, entity.Errorf(entity.FailedPrecondition, "sold out")
	}
	return 1, nil
}

func frails() entity.Definition {
	return entity.Define("Frail", func(id string) *frail {
		if id == "unborn" {
			panic("password=hunter2")
		}
		return &frail{}
	}, entity.On(entity.Command[frailInput, int]("Frail", "Fail"), (*frail).Fail)).Shards(4)
}

// record is what a line of the log says.
type record map[string]any

// logged takes a log apart.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take gives the lines since the last call.
func (l *logged) take(t *testing.T) (lines []record) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.text.Bytes()) {
		r := record{}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, r)
	}
	l.text.Reset()
	return lines
}

func frailCommand(number uint64, id sharding.EntityID, payload string, tell bool) link.Command {
	c := knock(number, id, "Fail")
	c.Envelope.Entity.Type, c.Envelope.Payload, c.Envelope.Tell = "Frail", []byte(payload), tell
	c.Envelope.ID = sharding.CommandID(fmt.Sprint("c", number))
	return c
}

var referenced = regexp.MustCompile(`reference ([0-9a-z]{8})$`)

// TestFailuresAreLogged: the caller is told a reference and nothing of what went
// wrong inside; the log has both. What the entity says reaches the caller as it is.
func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logged{}
		s := runTypes(t, RunnerConfig{Log: slog.New(slog.NewJSONHandler(l, nil)), Failures: 100}, frails())
		a := &answers{got: map[uint64]link.Answer{}}
		ask := func(number uint64, id sharding.EntityID, payload string) sharding.Reply {
			s.Submit(a, []link.Command{frailCommand(number, id, payload, false)})
			synctest.Wait()
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.got[number].Reply
		}
		for i, c := range []struct {
			id      sharding.EntityID
			payload string
			log     string
		}{
			{"x", `{"how":"error"}`, "db.internal"},
			{"x", `{"how":"panic"}`, "hunter2"},
			{"unborn", `{"how":""}`, "hunter2"},
		} {
			reply := ask(uint64(i), c.id, c.payload)
			lines := l.take(t)
			ref := referenced.FindStringSubmatch(reply.Message)
			if reply.Outcome != sharding.Rejected || reply.Code != sharding.Internal || strings.Contains(reply.Message, "hunter2") || ref == nil || len(lines) == 0 {
				t.Errorf("%s: the caller is told %+v, the log %v", c.payload, reply, lines)
				continue
			}
			last := lines[len(lines)-1]
			if last["reference"] != ref[1] || !strings.Contains(fmt.Sprint(last["error"]), c.log) || last["entity.id"] != string(c.id) || last["level"] != "ERROR" {
				t.Errorf("%s: reference %s, the log has %v", c.payload, ref[1], last)
			}
			if stack := fmt.Sprint(last["stack"]); strings.Contains(c.payload, "panic") && !strings.Contains(stack, "frail") {
				t.Errorf("the stack is %s", stack)
			}
		}
		if r := ask(10, "x", `{"how":"business"}`); r.Outcome != sharding.OK || r.Message != "sold out" || len(l.take(t)) != 0 {
			t.Errorf("a business error: %+v", r)
		}
	})
}

// TestTells: who sends a tell hears of nothing after it was accepted. So what
// cannot be read is refused before, and what fails later is measured and logged.
func TestTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, registry := &logged{}, &histogram.Registry{}
		s := runTypes(t, RunnerConfig{Log: slog.New(slog.NewJSONHandler(l, nil)), Histograms: registry, Failures: 100}, frails())
		a := &answers{got: map[uint64]link.Answer{}}
		for i, c := range []struct {
			payload string
			refused bool
			code    string // that is logged; empty: nothing is
		}{
			{`{"how":""}`, false, ""},
			{`{"how":"error"}`, false, "internal"},
			{`{"how":"panic"}`, false, "internal"},
			{`{"how":"business"}`, false, "failed_precondition"},
			{`{"how":`, true, ""},
			{`{"hwo":"x"}`, true, ""},
			{`{"how":5}`, true, ""},
		} {
			s.Submit(a, []link.Command{frailCommand(uint64(i), "x", c.payload, true)})
			synctest.Wait()
			a.mu.Lock()
			reply := a.got[uint64(i)].Reply
			a.mu.Unlock()
			if refused := reply.Outcome == sharding.Rejected && reply.Code == sharding.InvalidArgument; refused != c.refused || !refused && reply.Outcome != sharding.OK {
				t.Errorf("%s: answered %+v", c.payload, reply)
			}
			warned, logged := "", "none"
			for _, line := range l.take(t) {
				if line["level"] == "ERROR" {
					logged = fmt.Sprint(line["reference"])
				}
				if line["level"] == "WARN" && line["entity.id"] == "x" && line["command"] == "Fail" {
					warned += fmt.Sprint(line["code"])
					// What failed inside is in a line of its own, to which the message refers. There is no
					// second reference.
					if ref := referenced.FindStringSubmatch(fmt.Sprint(line["message"])); line["reference"] != nil || (ref != nil) != (c.code == "internal") || ref != nil && ref[1] != logged {
						t.Errorf("%s: the line before has reference %s, and this one is %v", c.payload, logged, line)
					}
				}
			}
			if warned != c.code {
				t.Errorf("%s: the log warns of %q", c.payload, warned)
			}
		}
		want := map[string]uint64{"ok": 1, "internal": 2, "failed_precondition": 1, "invalid_argument": 3}
		if got := outcomes(t, registry); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("measured %v, want %v", got, want)
		}
		c, err := s.counts(t.Context())
		if err != nil || c.st.FailedUnwatched != 3 {
			t.Errorf("%d tells are lost, %v", c.st.FailedUnwatched, err)
		}
	})
}

// outcomes are the commands that were measured, by outcome.
func outcomes(t *testing.T, registry *histogram.Registry) map[string]uint64 {
	t.Helper()
	scopes, err := registry.Produce(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, sc := range scopes {
		for _, m := range sc.Metrics {
			if m.Name != "roost.entity.command.duration" {
				continue
			}
			for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
				outcome, _ := p.Attributes.Value("roost.outcome")
				got[outcome.AsString()] += p.Count
			}
		}
	}
	return got
}

// TestFailuresAreBounded: what fails all the time does not fill the disk.
func TestFailuresAreBounded(t *testing.T) {
	f := &failures{limit: 3}
	now := time.Unix(1000, 0)
	wrote := 0
	for range 10 {
		if ok, _ := f.admit(now); ok {
			wrote++
		}
	}
	ok, skipped := f.admit(now.Add(time.Second))
	if wrote != 3 || !ok || skipped != 7 {
		t.Errorf("%d lines in a second, then %t after %d", wrote, ok, skipped)
	}
	var message = "x"
	reference("").tell(&message)
	if !strings.Contains(message, "too much to log") {
		t.Error(message)
	}
	// Of a chain of turns, the one that has failed first is named.
	message = "x"
	for _, ref := range []reference{"inner000", "outer000", ""} {
		ref.tell(&message)
	}
	if !strings.HasSuffix(message, "reference inner000") {
		t.Error(message)
	}
}
