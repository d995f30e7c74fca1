package leasetest

import (
	"context"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
)

const tick = 50 * time.Millisecond

// lab runs Holders that compete for a lease in a store, in virtual time. The store
// answers within the tick.
type lab struct {
	t     *testing.T
	store lease.Backend
	now   time.Time
	all   []*candidate
	uid   sharding.NodeUID
	top   sharding.Term
}

type candidate struct {
	h        *lease.Holder
	self     sharding.NodeID
	term     sharding.Term
	until    time.Time // zero: does not hold the lease
	acquired int
	observed lease.Observed
	lost     int
	released bool

	paused bool // it receives nothing while time passes
	cut    bool // its requests do not reach the store
	mute   bool // it does not receive the answers to its swaps
}

func newLab(t *testing.T, s lease.Backend, n int) *lab {
	l := &lab{t: t, store: s, now: time.Unix(1_000_000, 0)}
	for i := range n {
		l.all = append(l.all, l.candidate(i))
	}
	return l
}

func (l *lab) candidate(i int) *candidate {
	l.uid++
	c := lease.DefaultConfig()
	c.Self = sharding.NodeID{Addr: addr(i), UID: l.uid}
	c.Rank = i
	h, err := lease.NewHolder(c)
	if err != nil {
		l.t.Fatal(err)
	}
	return &candidate{h: h, self: c.Self}
}

// restart replaces a candidate by a new process at the same address.
func (l *lab) restart(i int) { l.all[i] = l.candidate(i) }

func (l *lab) run(d time.Duration) {
	l.t.Helper()
	for end := l.now.Add(d); l.now.Before(end); l.now = l.now.Add(tick) {
		for _, c := range l.all {
			if !c.paused {
				l.step(c, lease.Tick{})
			}
		}
	}
}

func (l *lab) step(c *candidate, in lease.Input) {
	l.t.Helper()
	for _, o := range c.h.Step(l.now, in, nil) {
		switch o := o.(type) {
		case lease.Get:
			l.get(c, o)
		case lease.Swap:
			l.swap(c, o)
		case lease.Acquired:
			if o.Term <= l.top {
				l.t.Fatalf("%v acquired term %d after term %d", c.self, o.Term, l.top)
			}
			l.top = o.Term
			c.acquired++
			c.term, c.until = o.Term, o.Until
		case lease.Renewed:
			c.until = o.Until
		case lease.Lost:
			c.until = time.Time{}
			c.lost++
		case lease.Observed:
			c.observed = o
		case lease.Released:
			c.released = true
		}
	}
	if err := c.h.Check(); err != nil {
		l.t.Fatal(err)
	}
	l.exclusive()
}

func (l *lab) get(c *candidate, o lease.Get) {
	if c.cut {
		l.step(c, lease.Got{Request: o.Request, Failed: true})
		return
	}
	r, err := l.store.Get(context.Background(), "lab")
	if err != nil {
		l.t.Fatal(err)
	}
	l.step(c, lease.Got{Request: o.Request, Record: r})
}

func (l *lab) swap(c *candidate, o lease.Swap) {
	outcome := lease.Unknown
	if !c.cut {
		ok, err := l.store.Swap(context.Background(), "lab", o.Old, o.New)
		if err != nil {
			l.t.Fatal(err)
		}
		outcome = lease.Conflict
		if ok {
			outcome = lease.Done
		}
	}
	if !c.mute {
		l.step(c, lease.Swapped{Request: o.Request, Outcome: outcome})
	}
}

// holds reports whether the candidate may act now.
func (l *lab) holds(c *candidate) bool { return l.now.Before(c.until) }

func (l *lab) exclusive() {
	l.t.Helper()
	var owner *candidate
	for _, c := range l.all {
		if !l.holds(c) {
			continue
		}
		if owner != nil {
			l.t.Fatalf("%v in term %d and %v in term %d may act at the same time", owner.self, owner.term, c.self, c.term)
		}
		owner = c
	}
}

// owner returns the candidate that holds the lease, which must be exactly one.
func (l *lab) owner() int {
	l.t.Helper()
	owner := -1
	for i, c := range l.all {
		if l.holds(c) {
			owner = i
		}
	}
	if owner < 0 {
		l.t.Fatal("no candidate holds the lease")
	}
	return owner
}

func oneWinner(t *testing.T, h Harness) {
	l := newLab(t, h.Backend, 4)
	l.run(5 * time.Second)
	if o := l.owner(); o != 0 {
		t.Errorf("candidate %d holds, want the first in line", o)
	}
	for i, c := range l.all {
		if want := max(0, 1-i); c.acquired != want || c.lost != 0 {
			t.Errorf("candidate %d acquired %d times and lost %d times", i, c.acquired, c.lost)
		}
		if c.observed.Holder != l.all[0].self || c.observed.Term != 1 {
			t.Errorf("candidate %d sees %+v active, want %v", i, c.observed, l.all[0].self)
		}
	}
}

func nextInLine(t *testing.T, h Harness) {
	l := newLab(t, h.Backend, 3)
	l.run(time.Second)
	l.all[0].paused = true
	l.step(l.all[1], lease.SetRank{Rank: 1})
	l.step(l.all[2], lease.SetRank{Rank: 0})
	l.run(4 * time.Second)
	if o := l.owner(); o != 2 {
		t.Errorf("candidate %d holds, want the one that became first in line", o)
	}
}

func termsRise(t *testing.T, h Harness) {
	l := newLab(t, h.Backend, 2)
	for range 4 { // the process at the same address crashes and comes back
		l.run(4 * time.Second)
		l.restart(l.owner())
	}
	l.run(4 * time.Second)
	if l.top < 5 {
		t.Errorf("the term is %d after 5 acquisitions", l.top)
	}
	if r := get(t, h.Backend, "lab"); r.Term != l.top {
		t.Errorf("the record has term %d, the holder %d", r.Term, l.top)
	}
}

func expiry(t *testing.T, h Harness) {
	l := newLab(t, h.Backend, 2)
	l.run(time.Second)
	l.all[0].cut = true
	l.run(2 * time.Second)
	if l.all[0].lost != 1 {
		t.Error("cut off from the store, the holder did not lose the lease in 2 s")
	}
	l.run(2 * time.Second)
	if o := l.owner(); o != 1 {
		t.Errorf("candidate %d holds, want the other one", o)
	}
	l.all[0].cut = false
	l.run(4 * time.Second)
	if o := l.owner(); o != 1 || l.all[0].acquired != 1 {
		t.Errorf("candidate %d holds, want the one that had it", o)
	}
}

func pause(t *testing.T, h Harness) {
	l := newLab(t, h.Backend, 2)
	l.run(time.Second)
	l.all[0].paused = true
	l.run(10 * time.Second)
	if o := l.owner(); o != 1 {
		t.Fatalf("candidate %d holds, want the one that is awake", o)
	}
	if _, ok := l.all[0].h.Valid(l.now); ok {
		t.Error("the paused holder believes in its lease before it receives anything")
	}
	l.all[0].paused = false
	l.step(l.all[0], lease.Tick{})
	if l.all[0].lost != 1 {
		t.Error("the paused holder is not told that it lost the lease")
	}
	l.run(3 * time.Second)
	if o := l.owner(); o != 1 {
		t.Errorf("candidate %d holds, want the one that had it", o)
	}
}

func lostReplies(t *testing.T, h Harness) {
	l := newLab(t, h.Backend, 2)
	l.all[0].mute = true
	l.run(200 * time.Millisecond) // it acquires the lease and does not learn that
	l.all[0].mute = false
	l.run(2 * time.Second)
	if o := l.owner(); o != 0 || l.top != 1 {
		t.Fatalf("candidate %d holds in term %d, want the first in its first term", o, l.top)
	}
	for range 10 { // every other renewal has no answer
		l.all[0].mute = true
		l.run(500 * time.Millisecond)
		l.all[0].mute = false
		l.run(time.Second)
	}
	if o := l.owner(); o != 0 || l.top != 1 || l.all[0].lost != 0 {
		t.Errorf("candidate %d holds in term %d, after %d losses; want the first in its first term", o, l.top, l.all[0].lost)
	}
}

func release(t *testing.T, h Harness) {
	l := newLab(t, h.Backend, 2)
	l.run(time.Second)
	l.step(l.all[0], lease.Release{})
	if c := l.all[0]; !c.released || c.lost != 1 {
		t.Errorf("after the release: released %v, lost %d times", c.released, c.lost)
	}
	l.run(time.Second) // well within the TTL
	if o := l.owner(); o != 1 || l.top != 2 {
		t.Errorf("candidate %d holds in term %d, want the other one in term 2", o, l.top)
	}
}

func raise(t *testing.T, h Harness) {
	l := newLab(t, h.Backend, 2)
	l.run(time.Second)
	l.step(l.all[0], lease.RaiseTerm{Above: 70})
	if l.top != 71 || l.all[0].term != 71 {
		t.Errorf("raised to term %d, want 71", l.top)
	}
	l.all[0].paused = true
	l.run(5 * time.Second)
	if o := l.owner(); o != 1 || l.top != 72 {
		t.Errorf("candidate %d holds in term %d, want the other one in term 72", o, l.top)
	}
}
