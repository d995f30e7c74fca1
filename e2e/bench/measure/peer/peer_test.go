package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a system in memory. It counts what reaches its entities.
type fake struct {
	entities int
	mu       sync.Mutex
	asked    map[int]int
	told     atomic.Int64
	killed   time.Time
	away     time.Duration // how long entities of a killed member are away
	closed   bool
}

func (f *fake) Ask(_, entity int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[entity]++
	return nil
}

func (f *fake) Tell(int) error           { f.told.Add(1); return nil }
func (f *fake) Received() (int64, error) { return f.told.Load(), nil }
func (f *fake) Processes() []int         { return nil }
func (f *fake) Close() error             { f.closed = true; return nil }

// Owners reports two thirds of the entities at member 1.
func (f *fake) Owners() ([]int, error) {
	owners := make([]int, f.entities)
	for e := range owners {
		owners[e] = min(e%3, 1)
	}
	return owners, nil
}

func (f *fake) Kill(member int) error {
	if member != 1 {
		return errors.New("this one has fewer entities than another one")
	}
	f.killed = time.Now()
	return nil
}

func (f *fake) Call(ctx context.Context, entity int) error {
	if min(entity%3, 1) != 1 {
		return errors.New("its member was not killed")
	}
	if time.Since(f.killed) < f.away {
		<-ctx.Done() // hangs
		return ctx.Err()
	}
	return nil
}

// taking takes a measure of a fake.
func taking(t *testing.T, f *fake, measure string, entities string) ([]Figure, error) {
	t.Helper()
	ways := []Way{{Name: "fake", Open: func(_ context.Context, o Options) (System, error) {
		f.entities, f.asked = o.Entities, map[int]int{}
		return f, nil
	}}}
	p := Program{Local: ways, Remote: ways, Replicated: ways, Durable: ways}
	var out bytes.Buffer
	err := p.Run(t.Context(), []string{"-measure", measure, "-callers", "1,3", "-length", "20ms", "-entities", entities, "-idle", entities}, &out)
	var all []Figure
	for d := json.NewDecoder(&out); d.More(); {
		var figure Figure
		if err := d.Decode(&figure); err != nil {
			t.Fatal(err)
		}
		all = append(all, figure)
	}
	if !f.closed {
		t.Error("the system was not closed")
	}
	return all, err
}

func TestMeasures(t *testing.T) {
	for _, name := range Measures() {
		if name == "failover" {
			continue
		}
		f := &fake{}
		got, err := taking(t, f, name, "10")
		if err != nil {
			t.Fatal(err)
		}
		want := 1
		if strings.HasSuffix(name, "asks") || name == "durable" {
			want = 2 // one for each number of callers
		}
		if len(got) != want {
			t.Errorf("%s: %d figures, want %d", name, len(got), want)
		}
		for _, figure := range got {
			if figure.Name != "fake" || figure.Value <= 0 && name != "idle" {
				t.Errorf("%s: %+v", name, figure)
			}
		}
		fresh := 0
		for e := range f.asked { // order-free: a sum
			if e >= f.entities {
				fresh++
			}
		}
		if strings.HasSuffix(name, "activation") || name == "idle" {
			if fresh < 10 {
				t.Errorf("%s: only %d entities are new", name, fresh)
			}
		} else if fresh > 0 || len(f.asked) != 10 {
			t.Errorf("%s: %d entities of 10, and %d new ones", name, len(f.asked), fresh)
		}
		for e, n := range f.asked { // order-free: errors
			if e > f.entities && n > 1 {
				t.Errorf("%s: entity %d was new %d times", name, e, n)
			}
		}
	}
}

// TestLostTells: a rate of tells that did not arrive does not count.
func TestLostTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &fake{asked: map[int]int{}}
		to.told.Store(5)
		if n, err := awaitReceived(to, 6); err == nil || n != 5 {
			t.Errorf("%d tells, and one was lost: %v", n, err)
		}
	})
}

// TestFailover: the member with most entities is killed, and an entity is back when any call to it is answered, even if those
// before hang.
func TestFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{away: time.Second}
		got, err := taking(t, f, "failover", "30")
		if err != nil || len(got) != 3 {
			t.Fatalf("%+v: %v", got, err)
		}
		for _, figure := range got[:2] {
			if figure.Value < 1000 || figure.Value > 1000+2*float64(callEvery.Milliseconds()) {
				t.Errorf("%s: %v ms, want a second", figure.Measure, figure.Value)
			}
		}
		if got[2].Value != 0 {
			t.Errorf("%v calls failed, but none was waited for", got[2].Value)
		}
		f = &fake{away: time.Hour}
		if _, err := taking(t, f, "failover", "30"); err == nil {
			t.Error("entities that never come back are no error")
		}
	})
}

func TestUnknownMeasure(t *testing.T) {
	p := Program{}
	for _, args := range [][]string{{"-measure", "speed"}, {"-measure", "idle", "-callers", "0"}, {}} {
		if err := p.Run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
