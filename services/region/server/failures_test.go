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

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// frail is an entity that fails in every way.
type frail struct{ N int }

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

func unlessUnborn(id string) *frail {
	if id == "unborn" {
		panic("password=hunter2")
	}
	return &frail{}
}

func frails() entity.Definition {
	return entity.Define("Frail", unlessUnborn, entity.On(entity.Command[frailInput, int]("Frail", "Fail"), (*frail).Fail), entity.With[frail](entity.Shards(4)))
}

// record is a decoded line of the log.
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

// TestFailuresAreLogged: the caller gets a reference and no internal detail; the
// log has both. What the entity says reaches the caller as it is.
func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logged{}
		s := runTypes(t, RunnerConfig{Log: slog.New(slog.NewJSONHandler(l, nil)), Failures: 100}, frails(), entity.Define("Airy", unlessUnborn,
			entity.On(entity.Command[frailInput, int]("Airy", "Fail"), (*frail).Fail),
			entity.With[frail](entity.Volatile(), entity.Shards(4)),
		))
		a := &answers{got: map[uint64]link.Answer{}}
		typ := sharding.EntityType("Frail")
		ask := func(number uint64, id sharding.EntityID, payload string) sharding.Reply {
			c := frailCommand(number, id, payload, false)
			c.Envelope.Entity.Type = typ
			s.Submit(a, []link.Command{c})
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
			{"unborn", `{"how":"first"}`, "hunter2"},
		} {
			if i == 3 {
				typ = "Airy" // the first turn makes the entity
			}
			reply := ask(uint64(i), c.id, c.payload)
			lines := l.take(t)
			ref := referenced.FindStringSubmatch(reply.Message)
			if reply.Outcome != sharding.NotApplied || reply.Code != sharding.Internal || strings.Contains(reply.Message, "hunter2") || ref == nil || len(lines) == 0 {
				t.Errorf("%s: the caller gets %+v, the log %v", c.payload, reply, lines)
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
		if r := ask(9, "x", `{}`); r.Outcome != sharding.Executed || string(r.Payload) != "1" {
			t.Errorf("another entity of a type that is not loaded: %+v", r)
		}
		if r := ask(10, "x", `{"how":"business"}`); r.Outcome != sharding.Executed || r.Message != "sold out" || len(l.take(t)) != 0 {
			t.Errorf("a business error: %+v", r)
		}
	})
}

// TestTells: who sends a tell learns of nothing after it was accepted. So what
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
			if refused := reply.Outcome == sharding.NotApplied && reply.Code == sharding.InvalidArgument; refused != c.refused || !refused && reply.Outcome != sharding.Executed {
				t.Errorf("%s: answered %+v", c.payload, reply)
			}
			warned, logged := "", "none"
			for _, line := range l.take(t) {
				if line["level"] == "ERROR" {
					logged = fmt.Sprint(line["reference"])
				}
				if line["level"] == "WARN" && line["entity.id"] == "x" && line["command"] == "Fail" {
					warned += fmt.Sprint(line["code"])
					// What failed inside is in its own line, which the message references. There is no
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
				outcome, _ := p.Attributes.Value("roost.code")
				got[outcome.AsString()] += p.Count
			}
		}
	}
	return got
}

// TestAbandonedTurnIsLogged: if a handler does not return, the longest turn is measured as long as it runs, and the log
// reports that its turn was abandoned, with a hint.
func TestAbandonedTurnIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reader := &logged{}, sdkmetric.NewManualReader()
		gate := make(chan struct{})
		var open sync.Once
		release := func() { open.Do(func() { close(gate) }) }
		s := runTypes(t, RunnerConfig{
			Log: slog.New(slog.NewJSONHandler(l, nil)), Failures: 100, Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		}, entity.Define("Deaf", func(string) *struct{} { return &struct{}{} },
			entity.On(entity.Command[int, int]("Deaf", "Hang"), func(*struct{}, *entity.Ctx, int) (int, error) { <-gate; return 0, nil }),
			entity.On(entity.Command[int, int]("Deaf", "Ask"), func(_ *struct{}, ctx *entity.Ctx, _ int) (int, error) {
				return entity.Command[int, int]("Deaf", "Hang").Ask(ctx, "far away", 1)
			}),
			entity.With[struct{}](entity.Volatile(), entity.Shards(4)),
		))
		defer release()
		s.route = func(sharding.Envelope, bool, origin, func(sharding.Reply)) {} // no answer comes
		send := func(number uint64, id sharding.EntityID, command string) {
			c := knock(number, id, command)
			c.Envelope.Entity.Type, c.Envelope.Payload, c.Envelope.Deadline = "Deaf", []byte("1"), time.Now().Add(time.Hour)
			c.Envelope.Keyed, c.Envelope.ID = true, sharding.CommandID(fmt.Sprint("k", number))
			s.Submit(&answers{got: map[uint64]link.Answer{}}, []link.Command{c})
		}
		longest := func() int64 {
			t.Helper()
			var data metricdata.ResourceMetrics
			if err := reader.Collect(t.Context(), &data); err != nil {
				t.Fatal(err)
			}
			for _, sc := range data.ScopeMetrics {
				for _, m := range sc.Metrics {
					if m.Name == "roost.entity.turn.longest" {
						return m.Data.(metricdata.Gauge[int64]).DataPoints[0].Value
					}
				}
			}
			t.Fatal("there is no metric roost.entity.turn.longest")
			return 0
		}
		if got := longest(); got != 0 {
			t.Errorf("before, the longest turn takes %d s", got)
		}
		send(1, "y", "Ask")
		time.Sleep(40 * time.Second)
		if got := longest(); got != 0 {
			t.Errorf("while a handler waits for another entity, the longest turn takes %d s", got)
		}
		send(2, "x", "Hang")
		time.Sleep(40*time.Second + 500*time.Millisecond)
		if got := longest(); got != 40 {
			t.Errorf("the longest turn takes %d s, want 40", got)
		}
		index := shardingtest.ShardOf("x", 4)
		s.Put(region.Received{From: "c:1", Msg: control.HandOff{Term: 1, Shard: sharding.ShardID{Type: "Deaf", Index: index}, Epoch: sharding.MakeEpoch(1, index+1)}})
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if lines := l.take(t); len(lines) > 0 {
			t.Errorf("before the drain time-out, the log says %v", lines)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		lines := l.take(t)
		if len(lines) != 1 || lines[0]["level"] != "WARN" || lines[0]["entity.type"] != "Deaf" || lines[0]["entity.id"] != "x" || lines[0]["command"] != "Hang" ||
			!strings.Contains(fmt.Sprint(lines[0]["hint"]), "restart the region") {
			t.Errorf("the log says %v", lines)
		} else if ran := time.Duration(lines[0]["running_for"].(float64)); ran.Round(time.Second) != 50*time.Second && ran.Round(time.Second) != 51*time.Second {
			t.Errorf("it reports that the handler ran for %s", ran)
		}
		time.Sleep(10 * time.Second)
		if got := longest(); got < 60 {
			t.Errorf("an abandoned turn that still runs: the longest turn takes %d s", got)
		}
		release()
		synctest.Wait()
		if got := longest(); got != 0 {
			t.Errorf("when it has returned, the longest turn takes %d s", got)
		}
	})
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
