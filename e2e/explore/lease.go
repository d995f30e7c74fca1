package explore

import (
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
)

// The parts of a leaseWorld: two candidates, then the store.
const (
	recordPart       = 2
	ofAll      parts = 1<<0 | 1<<1 | 1<<recordPart
)

// leaseWorld is the world of the lease scope: two candidates, and the store of the record.
type leaseWorld struct {
	candidates [2]*candidate
	*recordStore
	sent []*message // by the move that is being made
	why  string     // which promise the move has broken; empty: none

	ticks   [2]*move
	crashes [2]*move
	others  []*move // time passes; the last one: the record is lost
}

// candidate is one process that wants the lease.
type candidate struct {
	holder *lease.Holder
	id     sharding.NodeID
	now    time.Time
	late   bool   // time has passed since its last step
	asked  uint64 // the number of its last request; it waits for no other answer
	// renewed is true if the store has lost its record, and a later Swap of this candidate has
	// succeeded.
	renewed bool
}

func (c *candidate) clone() part {
	d := *c
	d.holder = c.holder.Clone()
	return &d
}

func (c *candidate) appendState(b []byte) []byte {
	b = fmt.Appendf(b, "%v %t %d %t ", c.id, c.late, c.asked, c.renewed)
	return c.holder.AppendState(c.now, b)
}

// recordStore keeps the record of the lease, and what the checks must know.
type recordStore struct {
	record lease.Record
	terms  []sharding.Term // the terms that were acquired, in order
	// lost is true if the store has lost its record. The candidate that held the lease then
	// continues, and another one may acquire it too. So after the loss the checks are about
	// candidates that have renewed the lease in the new record, and about no others.
	lost bool
}

func (s *recordStore) clone() part {
	d := *s
	d.terms = append([]sharding.Term(nil), s.terms...)
	return &d
}

func (s *recordStore) appendState(b []byte) []byte { return fmt.Appendf(b, "%+v", *s) }

// replace performs a Swap and returns the answer.
func (s *recordStore) replace(o lease.Swap) lease.Swapped {
	if !s.record.Replaceable(o.Old, o.New) {
		return lease.Swapped{Request: o.Request, Outcome: lease.Conflict}
	}
	s.record = o.New
	return lease.Swapped{Request: o.Request, Outcome: lease.Done}
}

// refuses reports whether a Swap is refused now and at any later time. A refused Swap can
// succeed later only if the record is lost in between, and if the Swap expects no record.
func (s *recordStore) refuses(o lease.Swap) bool {
	return !s.record.Replaceable(o.Old, o.New) && (s.lost || o.Old.Version > 0)
}

// letter is a request to the store, or the answer to one.
type letter struct {
	who     int              // the candidate that has sent the request
	uid     sharding.NodeUID // of its incarnation; an answer to an earlier one is ignored
	request uint64
	swap    *lease.Swap // nil: this is a Get, or an answer
}

func newLeaseWorld() *leaseWorld {
	w := &leaseWorld{recordStore: &recordStore{}}
	for i := range w.candidates {
		w.candidates[i] = &candidate{now: start}
		w.begin(i, sharding.NodeUID(i+1))
		w.ticks[i] = &move{name: fmt.Sprintf("tick of %d", i), uses: ofAll, do: func() { w.step(i, lease.Tick{}) }}
		w.crashes[i] = &move{name: fmt.Sprintf("crash of %d", i), fault: true, uses: 1 << i, do: func() { w.begin(i, w.candidates[i].id.UID+2) }}
	}
	for _, d := range []time.Duration{time.Second, 3 * time.Second} {
		w.others = append(w.others, &move{name: "time passes: " + d.String(), timeout: true, uses: ofAll, do: func() {
			for _, c := range w.candidates {
				c.now, c.late = c.now.Add(d), true
			}
			w.checkHolders()
		}})
	}
	w.others = append(w.others, &move{name: "the record is lost", fault: true, uses: 1 << recordPart, do: func() {
		w.record, w.lost, w.terms = lease.Record{}, true, nil
	}})
	for i := range w.candidates {
		w.step(i, lease.Tick{})
	}
	return w
}

func (w *leaseWorld) load(_ int, all [maxParts]part) {
	w.sent, w.why = nil, ""
	for i := range w.candidates {
		w.candidates[i], _ = all[i].(*candidate)
	}
	w.recordStore, _ = all[recordPart].(*recordStore)
}

func (w *leaseWorld) unload() (all [maxParts]part, sent []*message, why string) {
	for i, c := range w.candidates {
		if c != nil {
			all[i] = c
		}
	}
	if w.recordStore != nil {
		all[recordPart] = w.recordStore
	}
	return all, w.sent, w.why
}

// begin starts a new incarnation of a candidate.
func (w *leaseWorld) begin(i int, uid sharding.NodeUID) {
	c := lease.DefaultConfig()
	c.Self, c.Seed, c.Rank, c.Jitter = sharding.NodeID{Addr: fmt.Sprintf("c%d", i), UID: uid}, uint64(uid), i, 0
	h, err := lease.NewHolder(c)
	if err != nil {
		panic(err)
	}
	w.candidates[i] = &candidate{holder: h, id: c.Self, now: w.candidates[i].now, late: true}
}

// step steps the Holder of a candidate, sends its requests, and checks what it believes.
func (w *leaseWorld) step(i int, in lease.Input) {
	c := w.candidates[i]
	c.late = false
	for _, o := range c.holder.Step(c.now, in, nil) {
		switch o := o.(type) {
		case lease.Get:
			c.asked = o.Request
			text := fmt.Sprintf("%v get %d", c.id, o.Request)
			w.send(text, letter{who: i, uid: c.id.UID, request: o.Request}, 1<<recordPart, func() lease.Input {
				return lease.Got{Request: o.Request, Record: w.record}
			})
		case lease.Swap:
			c.asked = o.Request
			afterLoss := w.lost
			text := fmt.Sprintf("%v swap %+v, lost %t", c.id, o, afterLoss)
			w.send(text, letter{who: i, uid: c.id.UID, request: o.Request, swap: &o}, 1<<recordPart|1<<i, func() lease.Input {
				return w.swap(i, c.id.UID, o, afterLoss)
			})
		case lease.Acquired:
			w.acquired(i, o.Term)
			if !c.now.Before(o.Until) {
				w.fail("term %d is acquired until %v ago", o.Term, c.now.Sub(o.Until))
			}
		}
	}
	if err := c.holder.Check(); err != nil {
		w.fail("%v", err)
	}
	w.checkHolders()
}

// send sends a request to the store. When the request arrives, do performs it, and its result is
// sent back as the answer.
func (w *leaseWorld) send(text string, l letter, uses parts, do func() lease.Input) {
	arrive := func() {
		in := do()
		w.addMessage(fmt.Sprintf("%d#%x answer %+v", l.who, l.uid, in), letter{who: l.who, uid: l.uid, request: l.request}, ofAll, func() {
			if w.candidates[l.who].id.UID == l.uid {
				w.step(l.who, in)
			}
		})
	}
	w.addMessage(text, l, uses, arrive)
}

// addMessage sends a message that may arrive once, or twice by a fault. do is its effect.
func (w *leaseWorld) addMessage(text string, l letter, uses parts, do func()) {
	m := &message{text: text, void: l.void}
	m.moves = []*move{
		{name: "arrives: " + text, takes: m, uses: uses, do: do},
		{name: "doubled: " + text, fault: true, uses: uses, do: do},
	}
	w.sent = append(w.sent, m)
}

// swap performs a Swap that a candidate has sent. afterLoss is true if the store had lost its
// record by then.
func (w *leaseWorld) swap(who int, uid sharding.NodeUID, o lease.Swap, afterLoss bool) lease.Input {
	in := w.replace(o)
	if c := w.candidates[who]; in.Outcome == lease.Done && afterLoss && c.id.UID == uid {
		c.renewed = true
	}
	return in
}

// acquired checks that terms grow.
func (w *leaseWorld) acquired(i int, term sharding.Term) {
	if w.lost && !w.candidates[i].renewed {
		return
	}
	if n := len(w.terms); n > 0 && term <= w.terms[n-1] {
		w.fail("term %d is acquired after term %d", term, w.terms[n-1])
	}
	w.terms = append(w.terms, term)
}

// checkHolders checks that at most one candidate believes to hold the lease.
func (w *leaseWorld) checkHolders() {
	a, b := w.candidates[0], w.candidates[1]
	t0, ok0 := a.holder.Valid(a.now)
	t1, ok1 := b.holder.Valid(b.now)
	if ok0 && ok1 && (!w.lost || a.renewed && b.renewed) {
		w.fail("both hold the lease, in terms %d and %d", t0, t1)
	}
}

func (w *leaseWorld) fail(format string, args ...any) {
	if w.why == "" {
		w.why = fmt.Sprintf(format, args...)
	}
}

// moves implements world. The record is lost at most once, and not before there is one.
func (w *leaseWorld) moves(e *engine, s *state, list []*move) []*move {
	for i := range w.candidates {
		if e.parts[i][s.parts[i]].(*candidate).late {
			list = append(list, w.ticks[i])
		}
		list = append(list, w.crashes[i])
	}
	if r := recordIn(e, s); r.lost || r.record.Version == 0 {
		return append(list, w.others[:len(w.others)-1]...)
	}
	return append(list, w.others...)
}

// void reports whether the arrival of the letter can change nothing: no candidate waits for the
// answer, and the store does not change, now or later.
func (l *letter) void(e *engine, s *state) bool {
	c := e.parts[l.who][s.parts[l.who]].(*candidate)
	if c.id.UID == l.uid && c.asked == l.request {
		return false
	}
	return l.swap == nil || recordIn(e, s).refuses(*l.swap)
}
