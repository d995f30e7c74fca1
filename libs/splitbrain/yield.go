package splitbrain

import (
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/mutant"
)

// yield is what a resolver remembers about the lease of its own node, while
// somebody is unreachable.
type yield struct {
	// fell is since when this node has held the lease in a minority; zero: it
	// does not, or keeps it.
	fell time.Time
	// keeps: whoever acquires the lease in a minority keeps it. Nobody on the
	// other side took it, although they had a head start.
	keeps bool
	// given is until when the lease that this node gave up would have lasted: it
	// may not have been told yet that it does not hold it any more.
	given time.Time
}

// yields reports whether this node should give the lease up now: it held it when
// it fell into a minority, has been there for the time of YieldLeaseAfter, and
// others can take over.
//
// The lease must not move to another side once its own has decided by it, or
// both stay. Who decides for a side does so StableAfter after the last change at
// the earliest, or when it has been unstable for too long; so nothing is given up
// from halfway to there on. That leaves time for all of a side to know of it.
func (r *Resolver) yields(now time.Time, v *gossip.View, s *sides) bool {
	y := &r.yield
	holding := v.Lease.Holder == v.Self && now.Before(v.Lease.Until) && v.Lease.Until.After(y.given)
	candidates := s.any(func(i int) bool { return s.unreachable[i] && s.counts(i, who{role: r.cfg.LeaseRole}) })
	switch {
	case !candidates || !inMinority(s, ""):
		*y = yield{given: y.given}
	case !holding:
		y.fell, y.keeps = time.Time{}, true
	case y.fell.IsZero() && !y.keeps:
		y.fell = now
	}
	after := r.cfg.yieldAfter()
	if after == 0 || y.fell.IsZero() || now.Sub(y.fell) < after || r.soonDecided(now, after) {
		return false
	}
	*y = yield{keeps: true, given: v.Lease.Until}
	return true
}

// soonDecided tells that somebody on this side may be about to decide by the lease.
func (r *Resolver) soonDecided(now time.Time, after time.Duration) bool {
	if mutant.On("split-yield-late") {
		return false
	}
	more := r.cfg.unstableAfter()
	return now.Sub(r.changed) > (after+r.cfg.StableAfter)/2 ||
		more > 0 && !r.unsettled.IsZero() && now.Sub(r.unsettled) > r.cfg.StableAfter+more/2
}
