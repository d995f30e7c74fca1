package coordinator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// logWorld is a journal for a log: it may refuse, lose an answer, or store without saying so.
type logWorld struct {
	rng     *rand.Rand
	log     *ExplanationLog
	limits  ExplanationLimits
	now     time.Time
	records map[uint64][][]byte
	from    uint64 // the records up to this one are removed
	last    uint64
	sick    bool // every second request fails
	dead    bool // every request fails
	stored  map[string]bool
	told    uint64 // how many were dropped, by the records
	most    int    // bytes that were stored at a time
	added   int
	missing int // explanations that were at some time neither stored nor waiting nor counted as dropped
}

// check counts the explanations that roost shard show would neither show nor count now.
func (w *logWorld) check() {
	waiting, dropped := w.log.Waiting()
	known := len(w.stored) + int(dropped)
	for _, d := range waiting {
		known += toInt(!w.stored[string(d)])
	}
	w.missing = max(w.missing, w.added-known)
}

func newLogWorld(seed uint64) *logWorld {
	l := ExplanationLimits{
		MaxBytes: 1000, MaxWaiting: 200, BatchBytes: 60, BatchWait: time.Second, RetryPause: time.Second,
		MeasureBytes: 100, MeasureAfter: 10 * time.Second, FlushWait: 2 * time.Second,
	}
	return &logWorld{
		rng: rand.New(rand.NewPCG(seed, 1)), log: NewExplanationLog(l), limits: l, now: time.Unix(1_000_000, 0),
		records: map[uint64][][]byte{}, stored: map[string]bool{},
	}
}

// tick lets 50 ms pass.
func (w *logWorld) tick() {
	w.now = w.now.Add(50 * time.Millisecond)
	fails := w.dead || w.sick && w.rng.IntN(2) == 0
	verdict := sharding.Durable
	if fails {
		verdict = sharding.UnknownOutcome
	}
	request := w.log.Next(w.now)
	w.check()
	switch q := request.(type) {
	case LocateExplanations:
		w.log.Located(w.now, q.Number, w.last, !fails)
	case MeasureExplanations:
		var all []ExplanationRecord
		for seq := w.from + 1; seq <= w.last; seq++ {
			all = append(all, ExplanationRecord{seq, sizeOf(w.records[seq])})
		}
		w.log.Measured(w.now, q.Number, all, !fails)
	case AppendExplanations:
		if q.Seq != w.last+1 {
			verdict = sharding.RefusedSeq
		} else if !fails || w.rng.IntN(2) == 0 {
			w.last++
			w.records[w.last] = q.Explanations
			for _, d := range q.Explanations {
				w.stored[string(d)] = true
			}
			w.told += q.Dropped
		}
		w.log.Stored(w.now, q.Number, verdict)
	case CutExplanations:
		if !fails {
			for ; w.from < q.Seq; w.from++ {
				delete(w.records, w.from+1)
			}
		}
		w.log.CutDone(w.now, q.Number, verdict)
	}
	n := 0
	for _, r := range w.records { // order-free
		n += sizeOf(r)
	}
	w.most = max(w.most, n)
}

// logKeeps runs a few terms, and returns what is wrong: explanations that were neither stored nor counted
// as dropped, or records that take too much room.
func logKeeps(seed uint64) error {
	w := newLogWorld(seed)
	for term := range 4 {
		w.log.Begin(sharding.Term(term+1), w.now)
		for range 1500 {
			w.sick = w.now.Unix()%40 < 10
			for range w.rng.IntN(4) * w.rng.IntN(4) / 4 {
				w.log.Add(w.now, fmt.Appendf(nil, "explanation %d", w.added))
				w.added++
			}
			if waiting, _ := w.log.Waiting(); sizeOf(waiting) > w.limits.MaxWaiting+2*w.limits.BatchBytes {
				return fmt.Errorf("%d bytes wait", sizeOf(waiting))
			}
			w.tick()
		}
		w.sick = false
		for range 200 {
			w.tick()
		}
		if waiting, dropped := w.log.Waiting(); len(waiting) > 0 || w.added-len(w.stored) > int(dropped) || dropped == 0 || w.told < dropped {
			return fmt.Errorf("of %d explanations %d are stored, %d wait, %d were dropped, %d by the records", w.added, len(w.stored), len(waiting), dropped, w.told)
		}
		w.log.End()
	}
	if w.missing > 0 {
		return fmt.Errorf("%d explanations were neither stored nor waiting nor counted as dropped", w.missing)
	}
	if w.from == 0 || w.most > 2*w.limits.MaxBytes {
		return fmt.Errorf("%d bytes were stored at a time, records were removed up to %d", w.most, w.from)
	}
	return nil
}

// TestRing: whatever the journal does, each explanation is stored or counted as lost, and the records keep
// to their bound.
func TestRing(t *testing.T) {
	for seed := range uint64(20) {
		if err := logKeeps(seed); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestRingWaits: an explanation waits for others, but not long; one of a term that has ended is not
// stored.
func TestRingWaits(t *testing.T) {
	w := newLogWorld(1)
	w.log.Begin(1, w.now)
	w.log.Add(w.now, []byte("one"))
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
	w.log.Add(w.now, []byte("two"))
	w.log.End()
	w.log.Add(w.now, []byte("three"))
	w.log.Begin(2, w.now)
	for range 40 {
		w.tick()
	}
	if _, dropped := w.log.Waiting(); dropped != 1 || len(w.stored) != 1 {
		t.Errorf("%d dropped, stored are %v", dropped, w.stored)
	}
}

// logFlushes stops a coordinator, and returns what is wrong: its explanations are not stored, or it waits
// for a journal that refuses for more than the limit.
func logFlushes(unlocated, dead bool) error {
	w := newLogWorld(1)
	w.log.Begin(1, w.now)
	if !unlocated {
		w.log.Add(w.now, []byte("stored before"))
		for range 40 {
			w.tick()
		}
	}
	before := len(w.stored)
	for i := range 10 { // several records
		w.log.Add(w.now, fmt.Appendf(nil, "explanation %d", i))
	}
	w.dead = dead
	w.log.Flush(w.now)
	ticks := 0
	for ; !w.log.Ended() && ticks < 1000; ticks++ {
		w.tick()
	}
	stored := len(w.stored) - before
	_, lost := w.log.Waiting()
	switch {
	case !dead && (stored != 10 || lost != 0 || ticks > 10):
		return fmt.Errorf("%d of 10 explanations are stored and %d lost after %d ticks", stored, lost, ticks)
	case dead && (ticks > 42 || lost == 0):
		return fmt.Errorf("a journal that refuses is waited for during %d ticks, %d explanations are lost", ticks, lost)
	}
	return nil
}

// TestRingFlushes: a coordinator that stops loses no explanation, and waits for a sick journal for a
// limited time.
func TestRingFlushes(t *testing.T) {
	for _, unlocated := range []bool{false, true} {
		for _, dead := range []bool{false, true} {
			if err := logFlushes(unlocated, dead); err != nil {
				t.Errorf("unlocated %t, dead %t: %v", unlocated, dead, err)
			}
		}
	}
}

// heldBack reports whether an explanation waits until the fact that carries it out is durable.
func heldBack(t *testing.T) bool {
	w := newTenureTest(t, DefaultConfig())
	w.active(1)
	w.register()
	w.step(Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T"}}})
	_, left := first[Explained](w)
	return !left
}

// TestDecisionsLeaveAtOnce: the record of an explanation waits for no fact.
func TestDecisionsLeaveAtOnce(t *testing.T) {
	if heldBack(t) {
		t.Error("the explanation is held back until its fact is durable")
	}
}
