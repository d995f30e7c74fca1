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

// leaseWorld is two candidates and the store of the record.
type leaseWorld struct {
	candidates [2]*candidate
	*recordStore
	sent []*message
	why  string

	ticks   [2]*move
	crashes [2]*move
	others  []*move
}

// candidate is one process that wants the lease.
type candidate struct {
	holder *lease.Holder
	id     sharding.NodeID
	now    time.Time
	late   bool   // time has gone on since its last tick
	asked  uint64 // the last request, which alone is waited for
	// renewed: a write that was sent after the store had lost the record held.
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

// recordStore keeps the record, and what it saw.
type recordStore struct {
	record lease.Record
	terms  []sharding.Term // acquired, in order
	// lost: the store has forgotten its record. What was acquired before cannot
	// be told from what is acquired now, so that from here on only those count
	// who have renewed.
	lost bool
}

func (s *recordStore) clone() part {
	d := *s
	d.terms = append([]sharding.Term(nil), s.terms...)
	return &d
}

func (s *recordStore) appendState(b []byte) []byte { return fmt.Appendf(b, "%+v", *s) }

// replace does a Swap, and answers it.
func (s *recordStore) replace(o lease.Swap) lease.Swapped {
	if !s.record.Replaceable(o.Old, o.New) {
		return lease.Swapped{Request: o.Request, Outcome: lease.Conflict}
	}
	s.record = o.New
	return lease.Swapped{Request: o.Request, Outcome: lease.Done}
}

// refuses reports whether the Swap is refused now and forever. What the record does
// not yield to it never will, unless it is lost yet.
func (s *recordStore) refuses(o lease.Swap) bool {
	return !s.record.Replaceable(o.Old, o.New) && (s.lost || o.Old.Version > 0)
}

// letter is a request to the store, or its answer.
type letter struct {
	who     int
	uid     sharding.NodeUID // answers to a former incarnation are lost
	request uint64
	swap    *lease.Swap // on its way to the store
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
			w.valid()
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

func (w *leaseWorld) begin(i int, uid sharding.NodeUID) {
	c := lease.DefaultConfig()
	c.Self, c.Seed, c.Rank, c.Jitter = sharding.NodeID{Addr: fmt.Sprintf("c%d", i), UID: uid}, uint64(uid), i, 0
	h, err := lease.NewHolder(c)
	if err != nil {
		panic(err)
	}
	w.candidates[i] = &candidate{holder: h, id: c.Self, now: w.candidates[i].now, late: true}
}

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
			after := w.lost
			text := fmt.Sprintf("%v swap %+v, lost %t", c.id, o, after)
			w.send(text, letter{who: i, uid: c.id.UID, request: o.Request, swap: &o}, 1<<recordPart|1<<i, func() lease.Input {
				return w.swap(i, c.id.UID, o, after)
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
	w.valid()
}

// send sends a request to the store, whose answer is on its way then. Both may
// be doubled.
func (w *leaseWorld) send(text string, l letter, uses parts, do func() lease.Input) {
	arrive := func() {
		in := do()
		w.under(fmt.Sprintf("%d#%x answer %+v", l.who, l.uid, in), letter{who: l.who, uid: l.uid, request: l.request}, ofAll, func() {
			if w.candidates[l.who].id.UID == l.uid {
				w.step(l.who, in)
			}
		})
	}
	w.under(text, l, uses, arrive)
}

func (w *leaseWorld) under(text string, l letter, uses parts, do func()) {
	m := &message{text: text, void: l.void}
	m.moves = []*move{
		{name: "arrives: " + text, takes: m, uses: uses, do: do},
		{name: "doubled: " + text, fault: true, uses: uses, do: do},
	}
	w.sent = append(w.sent, m)
}

func (w *leaseWorld) swap(who int, uid sharding.NodeUID, o lease.Swap, after bool) lease.Input {
	in := w.replace(o)
	if c := w.candidates[who]; in.Outcome == lease.Done && after && c.id.UID == uid {
		c.renewed = true
	}
	return in
}

func (w *leaseWorld) acquired(i int, term sharding.Term) {
	if w.lost && !w.candidates[i].renewed {
		return
	}
	if n := len(w.terms); n > 0 && term <= w.terms[n-1] {
		w.fail("term %d is acquired after term %d", term, w.terms[n-1])
	}
	w.terms = append(w.terms, term)
}

func (w *leaseWorld) valid() {
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

// void: nobody waits for the letter's answer, and the store does not change.
func (l *letter) void(e *engine, s *state) bool {
	c := e.parts[l.who][s.parts[l.who]].(*candidate)
	if c.id.UID == l.uid && c.asked == l.request {
		return false
	}
	return l.swap == nil || recordIn(e, s).refuses(*l.swap)
}
