package coordinator

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Ring stores decisions in the journal. It has an entity of its own there, with the same fence as the
// facts. Ring is a core of its own, on which no other core depends. If a request to the journal fails
// or is never answered, decisions may be lost. Lost decisions are counted.
//
// Decisions wait for a short time, or until there are many, and are then stored as one record. The
// Ring keeps the newest records, up to a size. An empty snapshot marks where the kept records begin,
// and the journal removes the records before it. A new term first asks for the number of the last
// record. The sizes of the records of earlier terms are read later: when the term has stored some
// bytes, or has lasted a while.
//
// One request to the journal is under way at a time. The driver calls [Ring.Next] at every tick.
type Ring struct {
	limits RingLimits
	term   sharding.Term // 0: no term has begun, nothing is stored

	waiting [][]byte  // decisions, oldest first, without those of the request under way
	bytes   int       // the size of waiting
	since   time.Time // from when on the oldest waiting decision counts as waiting
	dropped uint64    // dropped decisions that no record counts yet
	lost    uint64    // all dropped decisions of this process

	number    uint64      // the number of the newest request
	request   RingRequest // the request under way; nil: none
	retryAt   time.Time   // the next request is not made before
	measureAt time.Time   // after RingMeasure has failed, it is not tried again before

	located  bool         // last is known
	last     uint64       // the number of the last record
	doubt    RingRecord   // a record that may be stored, because its outcome is not known; zero: none
	measured bool         // records has all records, those of earlier terms included
	began    time.Time    // when the term began
	records  []RingRecord // oldest first
	stored   int          // the size of records in bytes
}

// RingLimits bound a Ring.
type RingLimits struct {
	// MaxBytes bounds the size of the records in the journal. Default 32 MiB: about 100,000
	// decisions.
	MaxBytes int
	// MaxWaiting bounds the size of the decisions that wait to be stored. If they are larger, the
	// oldest ones are dropped. Default 4 MiB: decisions about 10,000 shards at once.
	MaxWaiting int
	// BatchBytes is the size at which waiting decisions are stored without waiting for more. Default
	// 128 KiB: such a write takes no longer than a write of facts.
	BatchBytes int
	// BatchWait is how long a decision waits for others. Default 1 s: a crash may lose the decisions
	// of that time.
	BatchWait time.Duration
	// RetryPause is the time until a request that has failed is made again. Default 1 s.
	RetryPause time.Duration
	// MeasureBytes and MeasureAfter say when the records of earlier terms are measured: when
	// this term has stored so many bytes, or has lasted so long. Default 1 MiB and 1 min, so that
	// nothing is measured during a take-over.
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

// RingRequest is a request of a Ring to the journal. The answer has the same Number.
type RingRequest interface{ number() uint64 }

// The requests.
type (
	// RingLocate asks for the number of the last record; answered by [Ring.Located].
	RingLocate struct{ Number uint64 }
	// RingAppend stores decisions as one record; answered by [Ring.Stored]. Dropped is how many
	// decisions were dropped since the last record.
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

// End ends the term. Waiting decisions are dropped. The request under way may still take effect.
func (r *Ring) End() {
	*r = Ring{limits: r.limits, number: r.number, lost: r.lost + uint64(len(r.waiting))}
}

// Add takes a decision in its stored form.
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

// bound drops the oldest waiting decisions if there are too many.
func (r *Ring) bound() {
	for r.bytes > r.limits.MaxWaiting && !mutant.On("ring-waiting") {
		r.bytes -= len(r.waiting[0])
		r.waiting[0], r.waiting = nil, r.waiting[1:]
		r.dropped++
		r.lost++
	}
}

// Next returns the next request to the journal; nil: none is to be made now.
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

// cut returns the number of the record up to which records are removed. That leaves an eighth of
// MaxBytes free. The last record is kept.
func (r *Ring) cut() uint64 {
	left := r.stored
	for i, rec := range r.records {
		if left -= rec.Bytes; left <= r.limits.MaxBytes/8*7 || i == len(r.records)-2 {
			return rec.Seq
		}
	}
	return r.records[0].Seq
}

// answered ends the request under way, and returns it. If the request has another number, answered
// does nothing and returns nil.
func (r *Ring) answered(number uint64) RingRequest {
	if r.request == nil || r.request.number() != number {
		return nil
	}
	request := r.request
	r.request = nil
	return request
}

// Located answers RingLocate; ok is false if the number is not known.
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
		// The record may be stored nevertheless. If its decisions are stored twice, that does no
		// harm, because decisions are numbered.
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

// keep adds a record to those that are stored.
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

// Waiting returns the decisions that are not known to be stored, oldest first. It also returns how
// many decisions this process has dropped.
func (r *Ring) Waiting() (decisions [][]byte, dropped uint64) {
	if a, ok := r.request.(RingAppend); ok {
		decisions = a.Decisions
	}
	return slices.Concat(decisions, r.waiting), r.lost
}
