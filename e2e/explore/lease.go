package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
)

// leaseWorld is two candidates and the store of the record.
type leaseWorld struct {
	bound   Bound
	now     time.Time
	holders [2]*lease.Holder
	ids     [2]sharding.NodeID
	late    [2]bool   // time has gone on since its last tick
	asked   [2]uint64 // the last request, which alone is waited for
	record  lease.Record
	terms   []sharding.Term // acquired, in order
	net     []letter
	why     string
}

// letter is a request to the store, or its answer.
type letter struct {
	who    int
	uid    sharding.NodeUID // answers to a former incarnation are lost
	get    *lease.Get
	swap   *lease.Swap
	answer lease.Input
}

func (l *letter) String() string {
	switch {
	case l.get != nil:
		return fmt.Sprintf("%d#%x get %d", l.who, l.uid, l.get.Request)
	case l.swap != nil:
		return fmt.Sprintf("%d#%x swap %+v", l.who, l.uid, *l.swap)
	}
	return fmt.Sprintf("%d#%x answer %+v", l.who, l.uid, l.answer)
}

func newLeaseWorld(b Bound) *leaseWorld {
	w := &leaseWorld{bound: b, now: start}
	for i := range w.holders {
		w.begin(i, sharding.NodeUID(i+1))
	}
	for i := range w.holders {
		w.step(i, lease.Tick{})
	}
	return w
}

func (w *leaseWorld) begin(i int, uid sharding.NodeUID) {
	c := lease.DefaultConfig()
	c.Self, c.Seed, c.Rank, c.Jitter = sharding.NodeID{Addr: fmt.Sprintf("c%d", i), UID: uid}, uint64(uid), i, 0
	h, err := lease.NewHolder(c)
	if err != nil {
		panic(err)
	}
	w.holders[i], w.ids[i], w.late[i] = h, c.Self, true
}

func (w *leaseWorld) step(i int, in lease.Input) {
	w.late[i] = false
	for _, o := range w.holders[i].Step(w.now, in, nil) {
		switch o := o.(type) {
		case lease.Get:
			w.asked[i] = o.Request
			w.net = append(w.net, letter{who: i, uid: w.ids[i].UID, get: &o})
		case lease.Swap:
			w.asked[i] = o.Request
			w.net = append(w.net, letter{who: i, uid: w.ids[i].UID, swap: &o})
		case lease.Acquired:
			if n := len(w.terms); n > 0 && o.Term <= w.terms[n-1] {
				w.fail("term %d is acquired after term %d", o.Term, w.terms[n-1])
			}
			w.terms = append(w.terms, o.Term)
		}
	}
	if err := w.holders[i].Check(); err != nil {
		w.fail("%v", err)
	}
	w.valid()
}

func (w *leaseWorld) valid() {
	t0, ok0 := w.holders[0].Valid(w.now)
	t1, ok1 := w.holders[1].Valid(w.now)
	if ok0 && ok1 {
		w.fail("both hold the lease, in terms %d and %d", t0, t1)
	}
}

func (w *leaseWorld) fail(format string, args ...any) {
	if w.why == "" {
		w.why = fmt.Sprintf(format, args...)
	}
}

func (w *leaseWorld) broken() string { return w.why }

// deliver lets a letter arrive.
func (w *leaseWorld) deliver(l letter) {
	switch {
	case l.get != nil:
		l.answer = lease.Got{Request: l.get.Request, Record: w.record}
		l.get = nil
		w.net = append(w.net, l)
	case l.swap != nil:
		o := lease.Conflict
		if w.record.Version == l.swap.Old && w.record.Term <= l.swap.New.Term {
			w.record, o = l.swap.New, lease.Done
		}
		l.answer = lease.Swapped{Request: l.swap.Request, Outcome: o}
		l.swap = nil
		w.net = append(w.net, l)
	case w.ids[l.who].UID == l.uid:
		w.step(l.who, l.answer)
	}
}

// void: nobody waits for the letter's answer, and the store does not change.
func (w *leaseWorld) void(l letter) bool {
	if l.uid != w.ids[l.who].UID {
		return l.swap == nil
	}
	switch a := l.answer.(type) {
	case lease.Got:
		return a.Request != w.asked[l.who]
	case lease.Swapped:
		return a.Request != w.asked[l.who]
	}
	return l.get != nil && l.get.Request != w.asked[l.who] ||
		l.swap != nil && (l.swap.Old < w.record.Version || l.swap.New.Term < w.record.Term) && l.swap.Request != w.asked[l.who]
}

func (w *leaseWorld) moves() []move {
	var list []move
	add := func(fault bool, name string, do func(*leaseWorld)) {
		if fault && w.bound.Faults == 0 {
			return
		}
		list = append(list, move{name, func(s state) {
			n := s.(*leaseWorld)
			if fault {
				n.bound.Faults--
			}
			do(n)
			n.net = slices.DeleteFunc(n.net, n.void)
		}})
	}
	for i, l := range w.net {
		take := func(n *leaseWorld) { n.net = slices.Delete(n.net, i, i+1) }
		add(false, "arrives: "+l.String(), func(n *leaseWorld) { take(n); n.deliver(l) })
		add(true, "doubled: "+l.String(), func(n *leaseWorld) { n.deliver(l) })
	}
	for i := range w.holders {
		if w.late[i] {
			add(false, fmt.Sprintf("tick of %d", i), func(n *leaseWorld) { n.step(i, lease.Tick{}) })
		}
		add(true, fmt.Sprintf("crash of %d", i), func(n *leaseWorld) {
			n.begin(i, n.ids[i].UID+2)
		})
	}
	for _, d := range []time.Duration{time.Second, 3 * time.Second} {
		if w.bound.Timeouts > 0 {
			add(false, "time passes: "+d.String(), func(n *leaseWorld) {
				n.bound.Timeouts--
				n.now = n.now.Add(d)
				n.late = [2]bool{true, true}
				n.valid()
			})
		}
	}
	return list
}

func (w *leaseWorld) clone() state {
	c := *w
	c.net, c.terms = slices.Clone(w.net), slices.Clone(w.terms)
	for i, h := range w.holders {
		c.holders[i] = h.Clone()
	}
	return &c
}

func (w *leaseWorld) appendState(b []byte) []byte {
	b = fmt.Appendf(b, "%d %d %v %+v %v\n", w.bound.Faults, w.bound.Timeouts, w.late, w.record, w.terms)
	for i, h := range w.holders {
		b = fmt.Appendf(b, "%v ", w.ids[i])
		b = h.AppendState(w.now, b)
	}
	letters := make([]string, len(w.net))
	for i := range w.net {
		letters[i] = w.net[i].String()
	}
	slices.Sort(letters)
	return fmt.Appendf(b, "%q", letters)
}

// start is when every search begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
