package coordinator

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Ring keeps decisions in the journal, in an entity beside the facts and behind the same fence. It
// is a core of its own, with no say in anything: what it asks of the journal may fail, or never be
// answered, and then decisions are lost and counted.
//
// Decisions wait a second, or until there are many, and are stored as one record. The newest
// records are kept, up to a size; an empty snapshot says where they begin, and the journal removes
// what is before. A new term first asks for the number of the last record. How large the records
// of earlier terms are it reads only when it has stored some itself, or has lasted a while.
//
// One request to the journal is under way at a time. The driver calls [Ring.Next] with every tick.
type Ring struct {
	limits RingLimits
	term   sharding.Term // 0: nothing is stored

	waiting [][]byte // oldest first, without those of the record under way
	bytes   int      // of waiting
	since   time.Time
	dropped uint64 // that no record tells yet
	lost    uint64 // that were dropped in all

	number    uint64      // of the newest request
	request   RingRequest // that is under way; nil: none
	retryAt   time.Time
	measureAt time.Time // when measuring that has failed is tried again

	located  bool // last is known
	last     uint64
	doubt    RingRecord // that may be stored although the journal did not say so; zero: none
	measured bool       // records are known, those of earlier terms included
	began    time.Time
	records  []RingRecord // oldest first
	stored   int          // their bytes
}

// RingLimits bound a Ring.
type RingLimits struct {
	// MaxBytes is what the records may take in the journal. Default 32 MiB: about 100,000
	// decisions.
	MaxBytes int
	// MaxWaiting bounds the decisions that wait to be stored; the oldest are dropped. Default
	// 4 MiB: those about 10,000 shards at once.
	MaxWaiting int
	// BatchBytes is the size at which a record is written at once. Default 128 KiB: a write that
	// takes no longer than one of facts.
	BatchBytes int
	// BatchWait is how long a decision waits for others. Default 1 s: what a crash may lose.
	BatchWait time.Duration
	// RetryPause is the time until a request that has failed is made again. Default 1 s.
	RetryPause time.Duration
	// MeasureBytes and MeasureAfter say when the records of earlier terms are measured: when
	// this term has stored so much, or has lasted so long. Default 1 MiB and 1 min: not during a
	// take-over.
	MeasureBytes int
	MeasureAfter time.Duration
}

// DefaultRingLimits returns the defaults named at the fields.
func DefaultRingLimits() RingLimits {
	return RingLimits{
		MaxBytes: 32 << 20, MaxWaiting: 4 << 20, BatchBytes: 128 << 10, BatchWait: time.Second, RetryPause: time.Second,
		MeasureBytes: 1 << 20, MeasureAfter: time.Minute,
	}
}

// RingRecord is one record of the ring.
type RingRecord struct {
	Seq   uint64
	Bytes int
}

// RingRequest is what a Ring asks of the journal. It is answered with its Number.
type RingRequest interface{ number() uint64 }

// The requests.
type (
	// RingLocate asks for the number of the last record; answered by [Ring.Located].
	RingLocate struct{ Number uint64 }
	// RingAppend stores decisions as one record; answered by [Ring.Stored]. Dropped is how many
	// were dropped before them that no record tells.
	RingAppend struct {
		Number    uint64
		Term      sharding.Term
		Seq       uint64
		Decisions [][]byte
		Dropped   uint64
	}
	// RingMeasure asks for the sizes of all records; answered by [Ring.Measured].
	RingMeasure struct{ Number uint64 }
	// RingCut removes the records up to Seq; answered by [Ring.CutDone].
	RingCut struct {
		Number uint64
		Term   sharding.Term
		Seq    uint64
	}
)

func (q RingLocate) number() uint64  { return q.Number }
func (q RingAppend) number() uint64  { return q.Number }
func (q RingMeasure) number() uint64 { return q.Number }
func (q RingCut) number() uint64     { return q.Number }

// NewRing returns a ring that stores nothing.
func NewRing(limits RingLimits) *Ring { return &Ring{limits: limits} }

// Begin begins a term.
func (r *Ring) Begin(term sharding.Term, now time.Time) {
	*r = Ring{limits: r.limits, number: r.number, lost: r.lost, term: term, began: now}
}

// End ends the term. What waits is dropped; what is under way may be stored yet.
func (r *Ring) End() {
	*r = Ring{limits: r.limits, number: r.number, lost: r.lost + uint64(len(r.waiting))}
}

// Add takes a decision, as stored.
func (r *Ring) Add(now time.Time, d []byte) {
	if r.term == 0 {
		return
	}
	if len(r.waiting) == 0 {
		r.since = now
	}
	r.waiting, r.bytes = append(r.waiting, d), r.bytes+len(d)
	r.bound()
}

// bound drops the oldest if too many wait.
func (r *Ring) bound() {
	for r.bytes > r.limits.MaxWaiting && !mutant.On("ring-waiting") {
		r.bytes -= len(r.waiting[0])
		r.waiting[0], r.waiting = nil, r.waiting[1:]
		r.dropped++
		r.lost++
	}
}

// Next returns what to ask of the journal now; nil: nothing.
func (r *Ring) Next(now time.Time) RingRequest {
	if r.term == 0 || r.request != nil || now.Before(r.retryAt) {
		return nil
	}
	r.number++
	r.request = r.next(now)
	return r.request
}

func (r *Ring) next(now time.Time) RingRequest {
	due := len(r.waiting) > 0 && (r.bytes >= r.limits.BatchBytes || now.Sub(r.since) >= r.limits.BatchWait)
	switch {
	case r.stored > r.limits.MaxBytes && !mutant.On("ring-bounded"):
		return RingCut{Number: r.number, Term: r.term, Seq: r.cut()}
	case due && !r.located:
		return RingLocate{Number: r.number}
	case due:
		a := RingAppend{Number: r.number, Term: r.term, Seq: r.last + 1, Dropped: r.dropped}
		n, bytes := 0, 0
		for ; n < len(r.waiting) && bytes < r.limits.BatchBytes; n++ {
			bytes += len(r.waiting[n])
		}
		a.Decisions, r.waiting, r.bytes = r.waiting[:n:n], r.waiting[n:], r.bytes-bytes
		r.dropped = 0
		return a
	case !r.measured && r.located && !now.Before(r.measureAt) && (r.stored >= r.limits.MeasureBytes || now.Sub(r.began) >= r.limits.MeasureAfter):
		return RingMeasure{Number: r.number}
	}
	return nil
}

// cut returns the record up to which an eighth of what may be stored becomes free. The last
// record stays.
func (r *Ring) cut() uint64 {
	left := r.stored
	for i, rec := range r.records {
		if left -= rec.Bytes; left <= r.limits.MaxBytes/8*7 || i == len(r.records)-2 {
			return rec.Seq
		}
	}
	return r.records[0].Seq
}

// answered returns the request under way if this is its number. It is not under way any more then.
func (r *Ring) answered(number uint64) RingRequest {
	if r.request == nil || r.request.number() != number {
		return nil
	}
	request := r.request
	r.request = nil
	return request
}

// Located answers RingLocate; ok is false if that is not known.
func (r *Ring) Located(now time.Time, number, last uint64, ok bool) {
	if r.answered(number) == nil {
		return
	}
	if !ok {
		r.retryAt = now.Add(r.limits.RetryPause)
		return
	}
	r.located, r.last = true, last
	if r.doubt.Seq != 0 && r.doubt.Seq <= last {
		r.keep(r.doubt)
	}
	r.doubt = RingRecord{}
}

// Stored answers RingAppend.
func (r *Ring) Stored(now time.Time, number uint64, verdict sharding.Verdict) {
	request := r.answered(number)
	if request == nil {
		return
	}
	a := request.(RingAppend)
	if verdict != sharding.Durable {
		// It may be stored nevertheless. A record that is stored twice does no harm: decisions
		// are numbered.
		r.located, r.retryAt = false, now.Add(r.limits.RetryPause)
		r.doubt = RingRecord{a.Seq, sizeOf(a.Decisions)}
		r.waiting, r.dropped = slices.Concat(a.Decisions, r.waiting), r.dropped+a.Dropped
		r.bytes += sizeOf(a.Decisions)
		r.bound()
		return
	}
	r.last, r.since = a.Seq, now
	r.keep(RingRecord{a.Seq, sizeOf(a.Decisions)})
}

// keep notes that a record is stored.
func (r *Ring) keep(rec RingRecord) { r.records, r.stored = append(r.records, rec), r.stored+rec.Bytes }

func sizeOf(decisions [][]byte) (n int) {
	for _, d := range decisions {
		n += len(d)
	}
	return n
}

// Measured answers RingMeasure with all records; ok is false if they could not be read.
func (r *Ring) Measured(now time.Time, number uint64, records []RingRecord, ok bool) {
	if r.answered(number) == nil {
		return
	}
	if !ok {
		r.measureAt = now.Add(r.limits.MeasureAfter)
		return
	}
	r.measured, r.records, r.stored = true, records, 0
	for _, rec := range records {
		r.stored += rec.Bytes
	}
}

// CutDone answers RingCut.
func (r *Ring) CutDone(now time.Time, number uint64, verdict sharding.Verdict) {
	request := r.answered(number)
	if request == nil {
		return
	}
	if verdict != sharding.Durable {
		r.retryAt = now.Add(r.limits.RetryPause)
		return
	}
	for len(r.records) > 0 && r.records[0].Seq <= request.(RingCut).Seq {
		r.stored -= r.records[0].Bytes
		r.records = r.records[1:]
	}
}

// Waiting returns the decisions that are not known to be stored, oldest first, and how many were
// dropped since this process has begun.
func (r *Ring) Waiting() (decisions [][]byte, dropped uint64) {
	if a, ok := r.request.(RingAppend); ok {
		decisions = a.Decisions
	}
	return slices.Concat(decisions, r.waiting), r.lost
}
