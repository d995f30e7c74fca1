package splitbrain

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Resolver is a [gossip.Downing] that keeps at most one side of a partition.
// Make one with [New].
type Resolver struct {
	cfg      Config
	strategy strategy

	members      []sight // as shown last, sorted by node
	observations []gossip.Observation
	// changed is when members, or who observes whom as unreachable, changed last.
	changed time.Time
	// unsettled is since when observations have kept coming; zero while nobody
	// is unreachable who is not down or exiting.
	unsettled time.Time
	// waiting is since when the lease is asked for in vain; zero: it is not.
	waiting time.Time
	yield   yield
	paused  time.Duration
}

// sight is what of a member starts the clock of stable-after anew.
type sight struct {
	node        sharding.NodeID
	status      gossip.Status
	unreachable bool
}

// Decide implements [gossip.Downing].
func (r *Resolver) Decide(now time.Time, v gossip.View) gossip.Decision {
	if !v.InCluster {
		return gossip.Decision{}
	}
	r.awake(v.Paused)
	s := newSides(&v)
	r.look(now, s, v.Observations)
	if !s.any(func(i int) bool { return s.unreachable[i] && s.downable(i) }) {
		r.unsettled = time.Time{}
	}
	if !s.any(func(i int) bool { return s.unreachable[i] && s.members[i].Status != gossip.Down }) {
		r.waiting, r.yield = time.Time{}, yield{given: r.yield.given}
		return gossip.Decision{}
	}
	stable := now.Sub(r.changed) >= r.cfg.StableAfter || mutant.On("split-stable-after")
	more := r.cfg.unstableAfter()
	unstable := more > 0 && !r.unsettled.IsZero() && now.Sub(r.unsettled) > r.cfg.StableAfter+more && !mutant.On("split-unstable")
	if r.cfg.Strategy == leaseMajorityName {
		return r.byLease(now, &v, s, stable || unstable)
	}
	switch {
	case unstable: // on every node: nobody knows any more who leads
		return r.act(now, s, downAll, "unstable for too long")
	case stable && (v.Leader == v.Self || mutant.On("split-leader")):
		return r.act(now, s, r.strategy.decide(s), "")
	}
	return gossip.Decision{}
}

// byLease decides once it is known on which side the lease is held. Members
// that cannot see it wait for one that can; where there is none, or the lease
// is nobody's, they wait for the time of LeasePatience, and go.
func (r *Resolver) byLease(now time.Time, v *gossip.View, s *sides, due bool) gossip.Decision {
	if r.yields(now, v, s) {
		return gossip.Decision{YieldLease: true, Reason: "in a minority for " + r.cfg.yieldAfter().String() + ", and the other side has candidates"}
	}
	judge := s.judge(r.cfg.LeaseRole)
	if !due || !judge.IsZero() && judge != v.Self {
		r.waiting = time.Time{}
		return gossip.Decision{}
	}
	a := r.strategy.decide(s)
	switch r.holder(now, v.Lease, s) {
	case ours:
		r.waiting = time.Time{}
		return r.act(now, s, a, "the lease is held on this side")
	case theirs:
		r.waiting = time.Time{}
		return r.act(now, s, reversed(a), "the lease is held on another side")
	}
	if r.waiting.IsZero() {
		r.waiting = now
	}
	if now.Sub(r.waiting) < r.cfg.LeasePatience || v.Self != judge && v.Self != v.Leader {
		return gossip.Decision{}
	}
	return r.act(now, s, reversed(a), "nobody on this side could see the lease for "+r.cfg.LeasePatience.String())
}

// act names who goes. Then all clocks start anew.
func (r *Resolver) act(now time.Time, s *sides, a action, why string) gossip.Decision {
	d := gossip.Decision{Down: s.nodes(r.strategy, a), Reason: r.cfg.Strategy + ": " + actionNames[a]}
	if why != "" {
		d.Reason += ", " + why
	}
	if len(d.Down) > 0 {
		r.changed, r.unsettled, r.waiting = now, time.Time{}, time.Time{}
	}
	return d
}

// awake takes the time off in which this process was paused: it says nothing
// about how stable the others are.
func (r *Resolver) awake(paused time.Duration) {
	gap := paused - r.paused
	r.paused = paused
	if mutant.On("split-own-pause") {
		return
	}
	for _, t := range []*time.Time{&r.changed, &r.unsettled, &r.waiting, &r.yield.fell} {
		if !t.IsZero() {
			*t = t.Add(gap)
		}
	}
}

// look compares what is shown with what was shown last. Members that join,
// leave or are removed change nothing about who is on which side.
func (r *Resolver) look(now time.Time, s *sides, obs []gossip.Observation) {
	sights := make([]sight, len(s.members))
	changed := r.changed.IsZero()
	old := r.members
	for i := range s.members {
		m := &s.members[i]
		is := sight{m.Node, m.Status, s.unreachable[i]}
		for len(old) > 0 && old[0].node.Compare(is.node) < 0 {
			old = old[1:]
		}
		was := sight{node: is.node}
		if len(old) > 0 && old[0].node == is.node {
			was = old[0]
		}
		moved := is.status != was.status && (is.status == gossip.Up || is.status == gossip.Exiting || is.status == gossip.Down)
		changed = changed || moved || is.unreachable != was.unreachable
		sights[i] = is
	}
	if !slices.Equal(r.observations, obs) {
		// Also when the same members stay unreachable: a link that came back may
		// be the first sign of another partition, and what was true before it does
		// not fit to what others see after it.
		changed = changed || !mutant.On("split-observations")
		if r.unsettled.IsZero() {
			r.unsettled = now
		}
	}
	if changed {
		r.changed = now
	}
	r.members, r.observations = sights, slices.Clone(obs)
}

// String names the strategy with its settings: members with others are not let
// in.
func (r *Resolver) String() string { return r.cfg.String() }

// Clone implements [gossip.Downing].
func (r *Resolver) Clone() gossip.Downing {
	c := *r // the lists are replaced, never changed
	return &c
}

// AppendState implements [gossip.Downing].
func (r *Resolver) AppendState(b []byte, now time.Time) []byte {
	for _, t := range []time.Time{r.changed, r.unsettled, r.waiting, r.yield.fell, r.yield.given} {
		if t.IsZero() {
			b = append(b, 0)
			continue
		}
		b = binary.AppendVarint(append(b, 1), int64(t.Sub(now)))
	}
	b = append(b, 0)
	if r.yield.keeps {
		b[len(b)-1] = 1
	}
	node := func(n sharding.NodeID) {
		b = append(binary.AppendUvarint(b, uint64(len(n.Addr))), n.Addr...)
		b = binary.AppendUvarint(b, uint64(n.UID))
	}
	b = binary.AppendUvarint(b, uint64(len(r.members)))
	for _, m := range r.members {
		node(m.node)
		b = append(b, byte(m.status), 0)
		if m.unreachable {
			b[len(b)-1] = 1
		}
	}
	b = binary.AppendUvarint(b, uint64(len(r.observations)))
	for _, o := range r.observations {
		node(o.Observer)
		node(o.Subject)
	}
	return b
}
