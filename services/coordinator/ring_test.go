package coordinator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// ringWorld is a journal for a ring: it may refuse, lose an answer, or store without saying so.
type ringWorld struct {
	rng     *rand.Rand
	ring    *Ring
	limits  RingLimits
	now     time.Time
	records map[uint64][][]byte
	from    uint64 // the records up to this one are removed
	last    uint64
	sick    bool
	stored  map[string]bool
	told    uint64 // how many were dropped, by the records
	most    int    // bytes that were stored at a time
}

func newRingWorld(seed uint64) *ringWorld {
	l := RingLimits{
		MaxBytes: 1000, MaxWaiting: 200, BatchBytes: 60, BatchWait: time.Second, RetryPause: time.Second,
		MeasureBytes: 100, MeasureAfter: 10 * time.Second,
	}
	return &ringWorld{
		rng: rand.New(rand.NewPCG(seed, 1)), ring: NewRing(l), limits: l, now: time.Unix(1_000_000, 0),
		records: map[uint64][][]byte{}, stored: map[string]bool{},
	}
}

// tick lets 50 ms pass.
func (w *ringWorld) tick() {
	w.now = w.now.Add(50 * time.Millisecond)
	fails := w.sick && w.rng.IntN(2) == 0
	verdict := sharding.Durable
	if fails {
		verdict = sharding.UnknownOutcome
	}
	switch q := w.ring.Next(w.now).(type) {
	case RingLocate:
		w.ring.Located(w.now, q.Number, w.last, !fails)
	case RingMeasure:
		var all []RingRecord
		for seq := w.from + 1; seq <= w.last; seq++ {
			all = append(all, RingRecord{seq, sizeOf(w.records[seq])})
		}
		w.ring.Measured(w.now, q.Number, all, !fails)
	case RingAppend:
		if q.Seq != w.last+1 {
			verdict = sharding.RefusedSeq
		} else if !fails || w.rng.IntN(2) == 0 {
			w.last++
			w.records[w.last] = q.Decisions
			for _, d := range q.Decisions {
				w.stored[string(d)] = true
			}
			w.told += q.Dropped
		}
		w.ring.Stored(w.now, q.Number, verdict)
	case RingCut:
		if !fails {
			for ; w.from < q.Seq; w.from++ {
				delete(w.records, w.from+1)
			}
		}
		w.ring.CutDone(w.now, q.Number, verdict)
	}
	n := 0
	for _, r := range w.records { // order-free
		n += sizeOf(r)
	}
	w.most = max(w.most, n)
}

// ringKeeps runs a few terms, and returns what is wrong: decisions that were neither stored nor counted
// as dropped, or records that take too much room.
func ringKeeps(seed uint64) error {
	w := newRingWorld(seed)
	added := 0
	for term := range 4 {
		w.ring.Begin(sharding.Term(term+1), w.now)
		for range 1500 {
			w.sick = w.now.Unix()%40 < 10
			for range w.rng.IntN(4) * w.rng.IntN(4) / 4 {
				w.ring.Add(w.now, fmt.Appendf(nil, "decision %d", added))
				added++
			}
			if waiting, _ := w.ring.Waiting(); sizeOf(waiting) > w.limits.MaxWaiting+2*w.limits.BatchBytes {
				return fmt.Errorf("%d bytes wait", sizeOf(waiting))
			}
			w.tick()
		}
		w.sick = false
		for range 200 {
			w.tick()
		}
		if waiting, dropped := w.ring.Waiting(); len(waiting) > 0 || added-len(w.stored) > int(dropped) || dropped == 0 || w.told < dropped {
			return fmt.Errorf("of %d decisions %d are stored, %d wait, %d were dropped, %d by the records", added, len(w.stored), len(waiting), dropped, w.told)
		}
		w.ring.End()
	}
	if w.from == 0 || w.most > 2*w.limits.MaxBytes {
		return fmt.Errorf("%d bytes were stored at a time, records were removed up to %d", w.most, w.from)
	}
	return nil
}

// TestRing: whatever the journal does, each decision is stored or counted as lost, and the records keep
// to their bound.
func TestRing(t *testing.T) {
	for seed := range uint64(20) {
		if err := ringKeeps(seed); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestRingWaits: a decision waits for others, but not long; one of a term that has ended is not
// stored.
func TestRingWaits(t *testing.T) {
	w := newRingWorld(1)
	w.ring.Begin(1, w.now)
	w.ring.Add(w.now, []byte("one"))
	for range 18 {
		w.tick()
	}
	if len(w.stored) > 0 {
		t.Error("it was stored at once")
	}
	for range 4 {
		w.tick()
	}
	if !w.stored["one"] {
		t.Error("it is not stored after a second")
	}
	w.ring.Add(w.now, []byte("two"))
	w.ring.End()
	w.ring.Add(w.now, []byte("three"))
	w.ring.Begin(2, w.now)
	for range 40 {
		w.tick()
	}
	if _, dropped := w.ring.Waiting(); dropped != 1 || len(w.stored) != 1 {
		t.Errorf("%d dropped, stored are %v", dropped, w.stored)
	}
}

// heldBack reports whether a decision waits until the fact that carries it out is durable.
func heldBack(t *testing.T) bool {
	w := newTenureTest(t, DefaultConfig())
	w.active(1)
	w.register()
	w.step(Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T"}}})
	_, left := first[Decided](w)
	return !left
}

// TestDecisionsLeaveAtOnce: the record of a decision waits for no fact.
func TestDecisionsLeaveAtOnce(t *testing.T) {
	if heldBack(t) {
		t.Error("the decision is held back until its fact is durable")
	}
}
