package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/examples/flights"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// lossyCaller calls entities in memory. It loses commands and answers, and sends some twice.
type lossyCaller struct {
	mu     sync.Mutex
	kit    *entitytest.Kit
	rng    *rand.Rand
	most   int  // commands in flight, at most
	now    int  // commands in flight
	forget bool // drops idempotency keys
}

func (r *lossyCaller) Call(ctx context.Context, c entity.Call) (entity.Reply, error) {
	r.mu.Lock()
	r.now++
	r.most = max(r.most, r.now)
	delay, luck := time.Duration(r.rng.IntN(50))*time.Millisecond, r.rng.IntN(10)
	r.mu.Unlock()
	time.Sleep(delay) // virtual
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	lost := &entity.Error{Code: entity.Unavailable, Outcome: entity.Unknown, Message: "lost"}
	if luck == 0 {
		return entity.Reply{}, lost
	}
	if r.forget {
		c.Key = ""
	}
	reply, err := r.kit.Call(ctx, c)
	if luck == 1 {
		return entity.Reply{}, lost
	}
	if luck == 2 {
		return r.kit.Call(ctx, c)
	}
	return reply, err
}

// generated returns a file with that many flights.
func generated(rng *rand.Rand, rows int) string {
	codes := []string{"PHX", "LAX", "ORD", "MDW", "HOU", "DAL", "OAK", "LAS", "BWI", "1G4"}
	var b strings.Builder
	b.WriteString(header)
	for range rows {
		from, to := rng.IntN(len(codes)), rng.IntN(len(codes)-1)
		if to >= from {
			to++
		}
		fmt.Fprintf(&b, "%02d%02d%02d%02d,%d,%d,%s,%s\n", 1+rng.IntN(12), 1+rng.IntN(28), rng.IntN(24), rng.IntN(60),
			rng.IntN(200)-30, rng.IntN(3000), codes[from], codes[to])
	}
	return b.String()
}

func carryWithLosses(t *testing.T, forget bool) []difference {
	t.Helper()
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, seed))
	in, err := readInput("generated", strings.NewReader(generated(rng, 300)))
	if err != nil {
		t.Fatal(err)
	}
	via := &lossyCaller{kit: entitytest.New(t, flights.Airports, flights.Routes), rng: rng, forget: forget}
	var got *totals
	for range 2 { // the second round is a demonstration that is run again
		s := &stream{in: in, via: via, concurrency: 8, rec: newRecorder(len(in.airports), time.Now())}
		s.gate.open(s.total())
		if err := s.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.done.Load() != 900 || s.rec.latency.TotalCount() != 900 || s.rec.retried == 0 || via.most != 8 {
			t.Errorf("%d done, %d measured, %d retried, %d at a time", s.done.Load(), s.rec.latency.TotalCount(), s.rec.retried, via.most)
		}
	}
	if got, err = readTotals(t.Context(), via, in); err != nil {
		t.Fatal(err)
	}
	return compare(in, got)
}

func TestStreamCountsOnceWhatIsLostAndRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if found := carryWithLosses(t, false); len(found) > 0 {
			t.Errorf("differences: %+v", found)
		}
	})
}

// TestCompareSeesWhatIsCountedTwice: without keys, totals are wrong, and compare finds it.
func TestCompareSeesWhatIsCountedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if found := carryWithLosses(t, true); len(found) == 0 {
			t.Error("no differences although no command had a key")
		}
	})
}

// broken answers every call with an error.
type broken struct{ err error }

func (b broken) Call(context.Context, entity.Call) (entity.Reply, error) {
	return entity.Reply{}, b.err
}

func TestStreamGivesUp(t *testing.T) {
	for _, tc := range []struct {
		code  entity.Code
		after time.Duration
	}{{entity.InvalidArgument, 0}, {entity.Unavailable, patience}} {
		synctest.Test(t, func(t *testing.T) {
			in, err := readInput("f.csv", strings.NewReader(header+"01010001,14,405,MCI,MDW\n"))
			if err != nil {
				t.Fatal(err)
			}
			via := broken{&entity.Error{Code: tc.code, Outcome: entity.NotApplied, Message: "no"}}
			s := &stream{in: in, via: via, concurrency: 1, rec: newRecorder(2, time.Now())}
			s.gate.open(s.total())
			began := time.Now()
			err = s.run(t.Context())
			took := time.Since(began)
			if err == nil || !strings.HasPrefix(err.Error(), "f.csv:2: depart was not carried") || took < tc.after || took > tc.after+time.Second {
				t.Errorf("%s: %v after %s", tc.code, err, took)
			}
		})
	}
}

func TestStreamStopsWhenInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, err := readInput("f.csv", strings.NewReader(generated(rand.New(rand.NewPCG(1, 1)), 100)))
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &stream{in: in, via: broken{errors.New("no way")}, concurrency: 4, rec: newRecorder(10, time.Now())}
		s.gate.open(2) // two workers wait at the gate, two retry
		time.AfterFunc(time.Second, func() { cancel(cause) })
		if err := s.run(ctx); !errors.Is(err, cause) {
			t.Errorf("%v, want %v", err, cause)
		}
	})
}

func TestStepsHappenInOrderAtTheirTimes(t *testing.T) {
	for _, rows := range []int{0, 1, 400} {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 3))
			in, err := readInput("generated", strings.NewReader(generated(rng, rows)))
			if err != nil {
				t.Fatal(err)
			}
			via := &lossyCaller{kit: entitytest.New(t, flights.Airports, flights.Routes), rng: rng}
			s := &stream{in: in, via: via, concurrency: 16, rec: newRecorder(len(in.airports), time.Now())}
			var at []float64
			slow := func(context.Context) error {
				share := 0.0
				if s.total() > 0 {
					share = float64(s.done.Load()) / float64(s.total())
				}
				at = append(at, share)
				time.Sleep(time.Minute) // far longer than the stream needs
				if sent := min(s.next.Load(), s.total()); float64(s.done.Load()) > []float64{.4, .8, 1}[len(at)-1]*float64(s.total()) {
					t.Errorf("step %d: %d of %d are done, %d sent", len(at), s.done.Load(), s.total(), sent)
				}
				return nil
			}
			steps := []step{{.3, .4, slow}, {.6, .8, slow}, {1, 1, slow}}
			done := make(chan error, 1)
			go func() { done <- s.run(t.Context()) }()
			if err := errors.Join(play(t.Context(), steps, s), <-done); err != nil {
				t.Fatal(err)
			}
			if len(at) != 3 || rows > 1 && (at[0] < .29 || at[0] > .4 || at[1] < .59 || at[1] > .8 || at[2] < 1) {
				t.Errorf("%d rows: steps at %v", rows, at)
			}
		})
	}
}

func TestAFailedStepEndsThePlay(t *testing.T) {
	bad := errors.New("bad")
	s := &stream{in: &input{}, rec: newRecorder(0, time.Now())}
	err := play(t.Context(), []step{{0, 1, func(context.Context) error { return bad }}, {0, 1, nil}}, s)
	if !errors.Is(err, bad) {
		t.Error(err)
	}
}
