package splitbrain

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Resolver is a [gossip.Downing] that keeps at most one side of a partition.
// Make one with [New].
type Resolver struct {
	cfg      Config
	strategy strategy

	members      []memberState // in the last view, sorted by node
	observations []gossip.Observation
	// changedAt is the time of the last change of members or observations.
	changedAt time.Time
	// unstableSince is the time since which observations have kept changing; zero
	// while all unreachable members are down or exiting.
	unstableSince time.Time
	// waitingSince is the time since which this node waits to learn who holds the
	// lease; zero: it does not.
	waitingSince time.Time
	yield        yield
	paused       time.Duration
}

// memberState is the part of a member whose changes restart StableAfter.
type memberState struct {
	node        sharding.NodeID
	status      gossip.Status
	unreachable bool
}

// Decide implements [gossip.Downing].
func (r *Resolver) Decide(now time.Time, v gossip.View) gossip.Decision {
	if !v.InCluster {
		return gossip.Decision{}
	}
	r.discountPause(v.Paused)
	s := newSides(&v)
	r.observe(now, s, v.Observations)
	if !s.anyMember(func(i int) bool { return s.unreachable[i] && s.downable(i) }) {
		r.unstableSince = time.Time{}
	}
	if !s.anyMember(func(i int) bool { return s.unreachable[i] && s.members[i].Status != gossip.Down }) {
		r.waitingSince, r.yield = time.Time{}, yield{givenUpUntil: r.yield.givenUpUntil}
		return gossip.Decision{}
	}
	stable := now.Sub(r.changedAt) >= r.cfg.StableAfter //mutant:true split-stable-after
	more := r.cfg.unstableAfter()
	//mutant:false split-unstable
	unstable := more > 0 && !r.unstableSince.IsZero() && now.Sub(r.unstableSince) > r.cfg.StableAfter+more
	if r.cfg.Strategy == leaseMajorityName {
		return r.byLease(now, &v, s, stable || unstable)
	}
	switch {
	case unstable: // on every node: perhaps the nodes do not agree on a leader
		return r.downBy(now, s, downAll, "unstable for too long")
	case stable && v.Leader == v.Self: //mutant:true split-leader v.Leader == v.Self
		return r.downBy(now, s, r.strategy.decide(s), "")
	}
	return gossip.Decision{}
}

// byLease decides once it is known on which side the lease is held. Members that
// cannot see the lease leave the decision to one that can. If there is none, or
// the lease has no holder, the side waits for LeasePatience and then goes.
func (r *Resolver) byLease(now time.Time, v *gossip.View, s *sides, due bool) gossip.Decision {
	if r.yields(now, v, s) {
		return gossip.Decision{YieldLease: true, Reason: "in a minority for " + r.cfg.yieldAfter().String() + ", and the other side has candidates"}
	}
	judge := s.decider(r.cfg.LeaseRole)
	if !due || !judge.IsZero() && judge != v.Self {
		r.waitingSince = time.Time{}
		return gossip.Decision{}
	}
	a := r.strategy.decide(s)
	switch r.holder(now, v.Lease, s) {
	case ours:
		r.waitingSince = time.Time{}
		return r.downBy(now, s, a, "the lease is held on this side")
	case theirs:
		r.waitingSince = time.Time{}
		return r.downBy(now, s, reversed(a), "the lease is held on another side")
	}
	if r.waitingSince.IsZero() {
		r.waitingSince = now
	}
	if now.Sub(r.waitingSince) < r.cfg.LeasePatience || v.Self != judge && v.Self != v.Leader {
		return gossip.Decision{}
	}
	return r.downBy(now, s, reversed(a), "no member on this side could see the lease for "+r.cfg.LeasePatience.String())
}

// downBy makes the decision for an action, and restarts all clocks if it downs any
// member.
func (r *Resolver) downBy(now time.Time, s *sides, a action, why string) gossip.Decision {
	d := gossip.Decision{Down: s.nodes(r.strategy, a), Reason: r.cfg.Strategy + ": " + actionNames[a]}
	if why != "" {
		d.Reason += ", " + why
	}
	if len(d.Down) > 0 {
		r.changedAt, r.unstableSince, r.waitingSince = now, time.Time{}, time.Time{}
	}
	return d
}

// discountPause subtracts the time that this process was paused: it shows nothing about the stability of
// the others.
func (r *Resolver) discountPause(paused time.Duration) {
	gap := paused - r.paused
	r.paused = paused
	//mutant:do split-own-pause return
	for _, t := range []*time.Time{&r.changedAt, &r.unstableSince, &r.waitingSince, &r.yield.minoritySince} {
		if !t.IsZero() {
			*t = t.Add(gap)
		}
	}
}

// observe compares the view with the last one. Members that join, leave or are
// removed do not affect the sides.
func (r *Resolver) observe(now time.Time, s *sides, obs []gossip.Observation) {
	sights := make([]memberState, len(s.members))
	changed := r.changedAt.IsZero()
	old := r.members
	for i := range s.members {
		m := &s.members[i]
		is := memberState{m.Node, m.Status, s.unreachable[i]}
		for len(old) > 0 && old[0].node.Compare(is.node) < 0 {
			old = old[1:]
		}
		was := memberState{node: is.node}
		if len(old) > 0 && old[0].node == is.node {
			was = old[0]
		}
		moved := is.status != was.status && (is.status == gossip.Up || is.status == gossip.Exiting || is.status == gossip.Down)
		changed = changed || moved || is.unreachable != was.unreachable
		sights[i] = is
	}
	if !slices.Equal(r.observations, obs) {
		// This also counts if the same members remain unreachable: a link that came
		// back may be the first sign of another partition, and the observations
		// before it do not match what others see after it.
		changed = true //mutant:skip split-observations
		if r.unstableSince.IsZero() {
			r.unstableSince = now
		}
	}
	if changed {
		r.changedAt = now
	}
	r.members, r.observations = sights, slices.Clone(obs)
}

// String names the strategy with its settings: nodes with different ones are not
// admitted.
func (r *Resolver) String() string { return r.cfg.String() }

// Clone implements [gossip.Downing].
func (r *Resolver) Clone() gossip.Downing {
	c := *r // the lists are replaced, never changed
	return &c
}

// AppendState implements [gossip.Downing].
func (r *Resolver) AppendState(b []byte, now time.Time) []byte {
	for _, t := range []time.Time{r.changedAt, r.unstableSince, r.waitingSince, r.yield.minoritySince, r.yield.givenUpUntil} {
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
