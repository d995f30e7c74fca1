package gateway

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

var seeds = flag.Uint64("seeds", 60, "random clusters to run")
var firstSeed = flag.Uint64("seed", 1, "the first of them")

// TestRandomClusters: whatever happens, every command ends once and in time,
// what is rejected never took effect, what is OK did once, effects on one
// entity come in the order of submission, and after the faults all is well.
func TestRandomClusters(t *testing.T) {
	count := map[string]int{}
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		w := newWorld(t, seed)
		w.run(5 * time.Second)
		w.calm = true
		w.run(12 * time.Second)
		w.verify(count)
	}
	t.Logf("outcomes: %v", count)
	for _, what := range []string{"ok", "rejected", "unknown", "again"} {
		if count[what] == 0 {
			t.Errorf("no command was %s: the weather is too mild", what)
		}
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		a, b := newWorld(t, seed), newWorld(t, seed)
		a.run(3 * time.Second)
		b.run(3 * time.Second)
		if a.trace != b.trace {
			t.Fatalf("seed %d gives two traces", seed)
		}
	}
}

func (w *world) verify(count map[string]int) {
	w.t.Helper()
	if s := w.m.Stats(); s.Requests != 0 || s.Bytes != 0 || s.Waiting != 0 {
		w.fatal("not finished: %+v\n%s", s, w.m.AppendState(w.start.Add(w.now), nil))
	}
	for id := RequestID(1); id <= w.last; id++ {
		c := w.calls[id]
		effects := w.applied[c.env.ID]
		switch {
		case effects > 1:
			w.fatal("request %d took effect %d times", id, effects)
		case c.canceled:
			continue
		case c.reply == nil:
			w.fatal("request %d was not finished", id)
		case c.reply.Outcome == sharding.Rejected && effects > 0:
			w.fatal("request %d was rejected (%s) and took effect", id, c.reply.Message)
		case c.reply.Outcome == sharding.OK && c.env.Command == "Do" && effects != 1:
			w.fatal("request %d was OK without effect", id)
		}
		count[c.reply.Outcome.String()]++
	}
	count["astray"] += len(w.astray)
	count["again"] += len(w.sent)
	for e, log := range w.log {
		log = slices.DeleteFunc(slices.Clone(log), func(id RequestID) bool { return w.astray[id] })
		if !slices.IsSorted(log) {
			w.fatal("effects on %s out of order: %v", e, log)
		}
	}
	var last []RequestID
	for range 10 {
		w.submit(w.entity(), 0)
		w.calls[w.last].env.Deadline = time.Time{}
		last = append(last, w.last)
	}
	w.run(w.now + 6*time.Second)
	for _, id := range last {
		if c := w.calls[id]; c.reply == nil || c.reply.Outcome != sharding.OK && c.reply.Code != sharding.DeadlineExceeded {
			w.fatal("request %d in calm weather: %+v", id, c.reply)
		}
	}
}
