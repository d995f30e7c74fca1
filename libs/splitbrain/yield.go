package splitbrain

import (
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
)

// yield is a resolver's memory of the lease of its own node, while any member is unreachable.
type yield struct {
	// minoritySince is the time since which this node has held the lease in a
	// minority; zero: it does not, or keeps the lease.
	minoritySince time.Time
	// keeps is true if the lease is not given up: a node that acquires it in a minority keeps it, because
	// the other side did not take it in spite of its head start.
	keeps bool
	// givenUpUntil is the expiry of the lease that this node gave up. Until then
	// the view may still name this node as the holder.
	givenUpUntil time.Time
}

// yields reports whether this node should give the lease up now: it held it when
// it fell into a minority, has been there for the time of YieldLeaseAfter, and
// others can take over.
//
// The lease must not move to another side once its own side has decided by it, or
// both stay. A side decides at the earliest StableAfter after the last change, or
// when it has been unstable for too long. So the lease is not given up any more
// from halfway to that time on, which leaves time for the whole side to learn of
// it.
func (r *Resolver) yields(now time.Time, v *gossip.View, s *sides) bool {
	y := &r.yield
	holding := v.Lease.Holder == v.Self && now.Before(v.Lease.Until) && v.Lease.Until.After(y.givenUpUntil)
	candidates := s.anyMember(func(i int) bool { return s.unreachable[i] && s.counts(i, filter{role: r.cfg.LeaseRole}) })
	switch {
	case !candidates || !inMinority(s, ""):
		*y = yield{givenUpUntil: y.givenUpUntil}
	case !holding:
		y.minoritySince, y.keeps = time.Time{}, true
	case y.minoritySince.IsZero() && !y.keeps:
		y.minoritySince = now
	}
	after := r.cfg.yieldAfter()
	if after == 0 || y.minoritySince.IsZero() || now.Sub(y.minoritySince) < after || r.decisionNear(now, after) {
		return false
	}
	*y = yield{keeps: true, givenUpUntil: v.Lease.Until}
	return true
}

// decisionNear reports whether this side may be about to decide by the lease.
func (r *Resolver) decisionNear(now time.Time, after time.Duration) bool {
	//mutant:do split-yield-late return false
	more := r.cfg.unstableAfter()
	return now.Sub(r.changedAt) > (after+r.cfg.StableAfter)/2 ||
		more > 0 && !r.unstableSince.IsZero() && now.Sub(r.unstableSince) > r.cfg.StableAfter+more/2
}
