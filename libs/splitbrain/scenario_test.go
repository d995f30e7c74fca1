package splitbrain

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
)

// scenarios are the cases of single rules.
var scenarios = map[string]func() error{
	"only the leader decides": func() error {
		x := newScene(3, DefaultConfig(), []int{0, 0, 1})
		x.pass(1, 30*time.Second)
		if x.downed {
			return fmt.Errorf("a node decides that is not the leader")
		}
		x.pass(0, 30*time.Second)
		return x.want(true)
	},
	"a change starts the clock anew": func() error {
		x := newScene(3, DefaultConfig(), []int{0, 0, 1})
		x.pass(0, 15*time.Second)
		x.w.o = matrix{}
		x.pass(0, 5*time.Second)
		x.w.o = clean([]int{0, 0, 1})
		x.pass(0, 15*time.Second)
		if x.downed {
			return fmt.Errorf("downed 15 s after a change")
		}
		x.pass(0, 6*time.Second)
		return x.want(true)
	},
	"other links heal and break just before a decision": func() error {
		for ms := time.Duration(3000); ms <= 6000; ms += 100 {
			if err := healAndDivide(ms * time.Millisecond); err != nil {
				return fmt.Errorf("after %d ms: %w", ms, err)
			}
		}
		return nil
	},
	"my own pause does not count as time": func() error {
		x := newScene(3, DefaultConfig(), []int{0, 0, 1})
		x.pass(0, 5*time.Second)
		x.now, x.paused = x.now.Add(time.Minute), time.Minute
		x.pass(0, 10*time.Second)
		if x.downed {
			return fmt.Errorf("downed after 15 s and a pause")
		}
		x.pass(0, 6*time.Second)
		return x.want(true)
	},
	"a lease that is over says nothing": func() error {
		x := newScene(3, LeaseConfig("seer"), []int{0, 0, 1})
		x.w.holder, x.lasts = 2, -time.Second // it has died
		x.pass(0, time.Minute)
		if x.downed {
			return fmt.Errorf("goes because of a lease that is over")
		}
		x.w.holder, x.lasts = 1, time.Second // a standby on this side acquired it
		x.pass(0, time.Second)
		return x.want(true)
	},
	"regions alone wait, and go in the end": func() error {
		x := newScene(4, LeaseConfig("seer"), []int{0, 0, 1, 0})
		x.w.holder = -1
		x.pass(2, 5*time.Minute)
		if x.downed {
			return fmt.Errorf("regions go as soon as there is no coordinator")
		}
		x.pass(2, 30*time.Second)
		return x.want(true)
	},
	"regions leave it to the coordinator": func() error {
		x := newScene(4, LeaseConfig("seer"), []int{1, 0, 0, 0})
		x.w.holder, x.lasts = 0, time.Second
		x.pass(2, 10*time.Minute)
		if x.downed {
			return fmt.Errorf("a region decides with a coordinator")
		}
		x.pass(1, 30*time.Second) // the first of its side, and the lease is held elsewhere
		return x.want(true)
	},
	"two crashes, one after the other": func() error {
		for _, c := range []Config{DefaultConfig(), LeaseConfig("seer")} {
			x := newScene(5, c, []int{0, 1, 2, 0, 0})
			x.w.old, x.w.holder, x.lasts = true, 0, time.Second
			x.w.alive &^= 0b110
			x.pass(0, 30*time.Second)
			if x.down != 0b110 {
				return fmt.Errorf("%s: %05b are downed", c.Strategy, x.down)
			}
		}
		return nil
	},
	"the lease goes to the larger side": func() error {
		x := newScene(5, LeaseConfig("seer"), []int{0, 1, 1, 0, 1})
		x.w.holder, x.lasts = 0, time.Second
		x.pass(0, 4900*time.Millisecond)
		if x.yielded != 0 {
			return fmt.Errorf("gives the lease up at once")
		}
		x.pass(0, time.Second)
		if x.yielded != 1 {
			return fmt.Errorf("keeps the lease in a minority")
		}
		x.w.holder = 1
		x.pass(0, 10*time.Second)
		if x.downed || x.yielded != 1 {
			return fmt.Errorf("anybody downed: %v, yielded %d times", x.downed, x.yielded)
		}
		x.pass(0, 10*time.Second)
		if x.down != 0b01001 { // the holder is on the other side, so this one goes
			return fmt.Errorf("%05b are downed", x.down)
		}
		return nil
	},
	"who acquired the lease in a minority keeps it": func() error {
		x := newScene(5, LeaseConfig("seer"), []int{0, 1, 1, 0, 1})
		x.w.holder, x.lasts = 0, time.Second
		x.pass(0, 6*time.Second)
		x.w.holder = -1
		x.pass(0, 3*time.Second)
		x.w.holder = 0 // no other node took it
		x.pass(0, 10*time.Second)
		if x.downed || x.yielded != 1 {
			return fmt.Errorf("anybody downed: %v, yielded %d times", x.downed, x.yielded)
		}
		x.pass(0, 2*time.Second)
		if x.down != 0b10110 {
			return fmt.Errorf("%05b are downed", x.down)
		}
		return nil
	},
	"the lease stays where no other node could take it": func() error {
		for _, c := range []struct {
			parts []int
			yield Span
		}{
			{[]int{0, 0, 1, 1, 1}, On}, // the others have no candidate
			{[]int{0, 1, 0, 0, 1}, On}, // this is the larger side
			{[]int{0, 1, 1, 0, 1}, 0},  // it is not to yield
		} {
			cfg := LeaseConfig("seer")
			cfg.YieldLeaseAfter = c.yield
			x := newScene(5, cfg, c.parts)
			x.w.members[4].Roles = nil
			x.w.moved = x.w.members
			x.w.holder, x.lasts = 0, time.Second
			x.pass(0, 19*time.Second)
			if x.yielded != 0 {
				return fmt.Errorf("yielded with %v and %v", c.parts, c.yield)
			}
			x.pass(0, 2*time.Second)
			if err := x.want(true); err != nil {
				return err
			}
		}
		return nil
	},
	"a lease that was given up is not gone by": func() error {
		x := newScene(5, LeaseConfig("seer"), []int{0, 1, 1, 0, 1})
		x.w.holder, x.until = 0, began.Add(time.Minute) // it is never told
		x.pass(0, 30*time.Second)
		if x.yielded != 1 || x.downed {
			return fmt.Errorf("yielded %d times, anybody downed: %v", x.yielded, x.downed)
		}
		return nil
	},
	"nothing is given up shortly before a decision": func() error {
		x := newScene(5, LeaseConfig("seer"), []int{0, 0, 0, 0, 1})
		x.w.holder, x.lasts = 0, time.Second
		for range 5 { // unstable for 25 s
			x.w.o = clean([]int{0, 0, 0, 0, 1})
			x.pass(0, 3*time.Second)
			x.w.o = clean([]int{0, 0, 0, 1, 1})
			x.pass(0, 2*time.Second)
		}
		x.w.o = clean([]int{0, 1, 1, 0, 1})
		x.pass(0, 9*time.Second)
		if x.yielded != 0 || x.downed {
			return fmt.Errorf("yielded %d times, anybody downed: %v", x.yielded, x.downed)
		}
		x.pass(0, 2*time.Second)
		return x.want(true)
	},
	"unstable for too long: by lease": func() error {
		x := newScene(3, LeaseConfig("seer"), []int{0, 0, 1})
		x.w.holder, x.lasts = 0, time.Second
		for range 10 {
			x.pass(0, 3*time.Second)
			x.w.o = clean([]int{0, 1, 1})
			x.pass(0, 3*time.Second)
			x.w.o = clean([]int{0, 0, 1})
		}
		return x.want(true)
	},
}

// scene shows resolvers of a small cluster what happens.
type scene struct {
	w       small
	r       map[int]*Resolver
	now     time.Time
	paused  time.Duration
	lasts   time.Duration // the lease, from now
	until   time.Time     // or until then
	downed  bool
	down    uint8 // whom
	yielded int
}

func newScene(n int, c Config, parts []int) *scene {
	x := &scene{w: smallCluster(n, c, true, -1), r: map[int]*Resolver{}, now: began}
	x.w.cfg.StableAfter = c.StableAfter
	x.w.alive, x.w.o = 1<<n-1, clean(parts)
	return x
}

// pass asks the resolver of node i every 100 ms.
func (x *scene) pass(i int, d time.Duration) {
	r := x.r[i]
	if r == nil {
		r = &Resolver{cfg: x.w.cfg, strategy: x.w.cfg.strategy()}
		x.r[i] = r
	}
	for end := x.now.Add(d); x.now.Before(end); x.now = x.now.Add(100 * time.Millisecond) {
		v := x.w.view(i)
		v.Paused = x.paused
		if !v.Lease.Holder.IsZero() {
			v.Lease = gossip.Lease{Holder: v.Lease.Holder, Until: x.now.Add(x.lasts)}
			if !x.until.IsZero() {
				v.Lease.Until = x.until
			}
		}
		d := r.Decide(x.now, v)
		if d.YieldLease {
			x.yielded++
		}
		for _, n := range d.Down {
			x.downed = true
			x.down |= 1 << (n.Addr[0] - 'a')
		}
	}
}

func (x *scene) want(downed bool) error {
	if x.downed != downed {
		return fmt.Errorf("anybody downed: %v", x.downed)
	}
	return nil
}

func TestScenarios(t *testing.T) {
	for name, run := range scenarios {
		if err := run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
