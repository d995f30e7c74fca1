package coordinator

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// ExplanationLog stores explanations in the journal. It has an entity of its own there, with the same fence as the
// facts. ExplanationLog is a core of its own, on which no other core depends. If a request to the journal fails
// or is never answered, explanations may be lost. Lost explanations are counted.
//
// Decisions wait for a short time, or until there are many, and are then stored as one record. The
// ExplanationLog keeps the newest records, up to a size. An empty snapshot marks where the kept records begin,
// and the journal removes the records before it. A new term first asks for the number of the last
// record. The sizes of the records of earlier terms are read later: when the term has stored some
// bytes, or has lasted a while.
//
// One request to the journal is in progress at a time. The driver calls [ExplanationLog.Next] at every tick.
type ExplanationLog struct {
	limits ExplanationLimits
	term   sharding.Term // 0: no term has begun, nothing is stored

	waiting [][]byte  // explanations, oldest first, without the ones of the request in progress
	bytes   int       // the size of waiting
	since   time.Time // from when on the oldest waiting explanation counts as waiting
	dropped uint64    // dropped explanations that no record counts yet
	lost    uint64    // how many explanations this process has dropped in all

	number    uint64             // the number of the newest request
	request   ExplanationRequest // the request in progress; nil: none
	retryAt   time.Time          // the next request is not made before
	measureAt time.Time          // after MeasureExplanations has failed, it is not tried again before

	located  bool                // last is known
	last     uint64              // the number of the last record
	doubt    ExplanationRecord   // a record that may be stored, because its outcome is not known; zero: none
	measured bool                // records has all records, including earlier terms
	began    time.Time           // when the term began
	endAt    time.Time           // when the term ends at the latest, because Flush was called; zero: it was not
	records  []ExplanationRecord // oldest first
	stored   int                 // the size of records in bytes
}

// ExplanationLimits bound an ExplanationLog.
type ExplanationLimits struct {
	// MaxBytes bounds the size of the records in the journal. Default 32 MiB: about 100,000
	// explanations.
	MaxBytes int
	// MaxWaiting bounds the size of the explanations that wait to be stored. If they are larger, the
	// oldest ones are dropped. Default 4 MiB: explanations about 10,000 shards at once.
	MaxWaiting int
	// BatchBytes is the size at which waiting explanations are stored without waiting for more. Default
	// 128 KiB: such a write takes no longer than a write of facts.
	BatchBytes int
	// BatchWait is the time that an explanation waits for others. Default 1 s: a crash may lose the explanations of
	// that time.
	BatchWait time.Duration
	// RetryPause is the time until a request that has failed is made again. Default 1 s.
	RetryPause time.Duration
	// MeasureBytes and MeasureAfter say when the records of earlier terms are measured: when
	// this term has stored so many bytes, or has lasted so long. Default 1 MiB and 1 min, so that
	// nothing is measured during a take-over.
	MeasureBytes int
	MeasureAfter time.Duration
	// FlushWait bounds the time that a coordinator that stops waits until its last explanations are stored. The next
	// coordinator becomes active only then. Default 2 s: time to repeat a request that has failed. A journal that
	// answers takes a few milliseconds.
	FlushWait time.Duration
}

// DefaultExplanationLimits returns the defaults named at the fields.
func DefaultExplanationLimits() ExplanationLimits {
	return ExplanationLimits{
		MaxBytes: 32 << 20, MaxWaiting: 4 << 20, BatchBytes: 128 << 10, BatchWait: time.Second, RetryPause: time.Second,
		MeasureBytes: 1 << 20, MeasureAfter: time.Minute, FlushWait: 2 * time.Second,
	}
}

// ExplanationRecord is one record of the log.
type ExplanationRecord struct {
	Seq   uint64
	Bytes int
}

// ExplanationRequest is a request of an ExplanationLog to the journal. The answer has the same Number.
type ExplanationRequest interface{ number() uint64 }

// The requests.
type (
	// LocateExplanations asks for the number of the last record; answered by [ExplanationLog.Located].
	LocateExplanations struct{ Number uint64 }
	// AppendExplanations stores explanations as one record; answered by [ExplanationLog.Stored]. Dropped is the
	// number of explanations that were dropped since the last record.
	AppendExplanations struct {
		Number       uint64
		Term         sharding.Term
		Seq          uint64
		Explanations [][]byte
		Dropped      uint64
	}
	// MeasureExplanations asks for the sizes of all records; answered by [ExplanationLog.Measured].
	MeasureExplanations struct{ Number uint64 }
	// CutExplanations removes the records up to Seq; answered by [ExplanationLog.CutDone].
	CutExplanations struct {
		Number uint64
		Term   sharding.Term
		Seq    uint64
	}
)

func (q LocateExplanations) number() uint64  { return q.Number }
func (q AppendExplanations) number() uint64  { return q.Number }
func (q MeasureExplanations) number() uint64 { return q.Number }
func (q CutExplanations) number() uint64     { return q.Number }

// NewExplanationLog returns a log that stores nothing.
func NewExplanationLog(limits ExplanationLimits) *ExplanationLog {
	return &ExplanationLog{limits: limits}
}

// Begin begins a term.
func (l *ExplanationLog) Begin(term sharding.Term, now time.Time) {
	*l = ExplanationLog{limits: l.limits, number: l.number, lost: l.lost, term: term, began: now}
}

// End ends the term. Waiting explanations are dropped. The request in progress may still take effect.
func (l *ExplanationLog) End() {
	*l = ExplanationLog{limits: l.limits, number: l.number, lost: l.lost + uint64(len(l.waiting))}
}

// Flush has the waiting explanations stored at once. The term ends when they are, or after
// [ExplanationLimits.FlushWait]. Until then it must be possible to store something in this term.
func (l *ExplanationLog) Flush(now time.Time) {
	if l.term == 0 { //mutant:true explanations-flush
		l.End()
		return
	}
	l.endAt = now.Add(l.limits.FlushWait)
}

// Ended reports whether no term is in progress: nothing more will be stored.
func (l *ExplanationLog) Ended() bool { return l.term == 0 }

// Add takes an explanation in its stored form.
func (l *ExplanationLog) Add(now time.Time, d []byte) {
	if l.term == 0 {
		return
	}
	if len(l.waiting) == 0 {
		l.since = now
	}
	l.waiting, l.bytes = append(l.waiting, d), l.bytes+len(d)
	l.bound()
}

// bound drops the oldest waiting explanations if there are too many.
func (l *ExplanationLog) bound() {
	// Invariant: explanations take a limited space, in memory and in the journal.
	// Guarded by: `coordinator.ExplanationLog`: `bound` drops the oldest that wait, `cut` removes the oldest that are
	// stored.
	// Mutants: explanations-waiting, explanations-bounded
	for l.bytes > l.limits.MaxWaiting { //mutant:false explanations-waiting
		l.bytes -= len(l.waiting[0])
		l.waiting[0], l.waiting = nil, l.waiting[1:]
		l.dropped++
		l.lost++
	}
}

// Next returns the next request to the journal; nil: none is to be made now.
func (l *ExplanationLog) Next(now time.Time) ExplanationRequest {
	if l.flushing() && (!now.Before(l.endAt) || l.request == nil && len(l.waiting) == 0) {
		l.End()
	}
	if l.term == 0 || l.request != nil || now.Before(l.retryAt) {
		return nil
	}
	l.number++
	l.request = l.next(now)
	return l.request
}

func (l *ExplanationLog) flushing() bool { return !l.endAt.IsZero() }

func (l *ExplanationLog) next(now time.Time) ExplanationRequest {
	due := len(l.waiting) > 0 && (l.bytes >= l.limits.BatchBytes || now.Sub(l.since) >= l.limits.BatchWait || l.flushing())
	switch {
	case !l.flushing() && l.stored > l.limits.MaxBytes: //mutant:false explanations-bounded
		return CutExplanations{Number: l.number, Term: l.term, Seq: l.cut()}
	case due && !l.located:
		return LocateExplanations{Number: l.number}
	case due:
		a := AppendExplanations{Number: l.number, Term: l.term, Seq: l.last + 1, Dropped: l.dropped}
		n, bytes := 0, 0
		for ; n < len(l.waiting) && bytes < l.limits.BatchBytes; n++ {
			bytes += len(l.waiting[n])
		}
		a.Explanations, l.waiting, l.bytes = l.waiting[:n:n], l.waiting[n:], l.bytes-bytes
		l.dropped = 0
		return a
	case !l.measured && l.located && !now.Before(l.measureAt) && (l.stored >= l.limits.MeasureBytes || now.Sub(l.began) >= l.limits.MeasureAfter):
		return MeasureExplanations{Number: l.number}
	}
	return nil
}

// cut returns the number of the last record to remove. That leaves an eighth of MaxBytes free. The last record is
// kept.
func (l *ExplanationLog) cut() uint64 {
	left := l.stored
	for i, rec := range l.records {
		if left -= rec.Bytes; left <= l.limits.MaxBytes/8*7 || i == len(l.records)-2 {
			return rec.Seq
		}
	}
	return l.records[0].Seq
}

// answered ends the request in progress, and returns it. If the request has another number, answered
// does nothing and returns nil.
func (l *ExplanationLog) answered(number uint64) ExplanationRequest {
	if l.request == nil || l.request.number() != number {
		return nil
	}
	request := l.request
	l.request = nil
	return request
}

// Located answers LocateExplanations; ok is false if the number is not known.
func (l *ExplanationLog) Located(now time.Time, number, last uint64, ok bool) {
	if l.answered(number) == nil {
		return
	}
	if !ok {
		l.retryAt = now.Add(l.limits.RetryPause)
		return
	}
	l.located, l.last = true, last
	if l.doubt.Seq != 0 && l.doubt.Seq <= last {
		l.keep(l.doubt)
	}
	l.doubt = ExplanationRecord{}
}

// Stored answers AppendExplanations.
func (l *ExplanationLog) Stored(now time.Time, number uint64, verdict sharding.Verdict) {
	request := l.answered(number)
	if request == nil {
		return
	}
	a := request.(AppendExplanations)
	if verdict != sharding.Durable {
		// The record may be stored nevertheless. If its explanations are stored twice, that does no
		// harm, because explanations are numbered.
		//
		// Invariant: each explanation is shown by `roost shard show` until it is old, or is counted as dropped.
		// Guarded by: `coordinator.ExplanationLog` keeps explanations in memory until they are known to be stored
		// (method `Waiting` returns them). If the outcome of an append is not known, method `Stored` looks the last
		// record up again. When a coordinator stops, method `Flush` stores its last explanations.
		// Mutants: explanations-located, explanations-under-way, explanations-flush
		l.located, l.retryAt = false, now.Add(l.limits.RetryPause) //mutant:true explanations-located false
		l.doubt = ExplanationRecord{a.Seq, sizeOf(a.Explanations)}
		l.waiting, l.dropped = slices.Concat(a.Explanations, l.waiting), l.dropped+a.Dropped
		l.bytes += sizeOf(a.Explanations)
		l.bound()
		return
	}
	l.last, l.since = a.Seq, now
	l.keep(ExplanationRecord{a.Seq, sizeOf(a.Explanations)})
}

// keep adds a record to those that are stored.
func (l *ExplanationLog) keep(rec ExplanationRecord) {
	l.records, l.stored = append(l.records, rec), l.stored+rec.Bytes
}

func sizeOf(explanations [][]byte) (n int) {
	for _, d := range explanations {
		n += len(d)
	}
	return n
}

// Measured answers MeasureExplanations with all records; ok is false if they could not be read.
func (l *ExplanationLog) Measured(now time.Time, number uint64, records []ExplanationRecord, ok bool) {
	if l.answered(number) == nil {
		return
	}
	if !ok {
		l.measureAt = now.Add(l.limits.MeasureAfter)
		return
	}
	l.measured, l.records, l.stored = true, records, 0
	for _, rec := range records {
		l.stored += rec.Bytes
	}
}

// CutDone answers CutExplanations.
func (l *ExplanationLog) CutDone(now time.Time, number uint64, verdict sharding.Verdict) {
	request := l.answered(number)
	if request == nil {
		return
	}
	if verdict != sharding.Durable {
		l.retryAt = now.Add(l.limits.RetryPause)
		return
	}
	for len(l.records) > 0 && l.records[0].Seq <= request.(CutExplanations).Seq {
		l.stored -= l.records[0].Bytes
		l.records = l.records[1:]
	}
}

// Waiting returns the explanations that are not known to be stored, oldest first. It also returns how
// many explanations this process has dropped.
func (l *ExplanationLog) Waiting() (explanations [][]byte, dropped uint64) {
	if a, ok := l.request.(AppendExplanations); ok { //mutant:false explanations-under-way
		explanations = a.Explanations
	}
	return slices.Concat(explanations, l.waiting), l.lost
}
