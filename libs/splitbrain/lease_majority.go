package splitbrain

import (
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
)

// leaseMajority keeps the side that holds the lease. Its decision is the one for
// that side; on other sides it is reversed.
type leaseMajority struct{}

func (leaseMajority) decide(s *sides) action {
	if s.anyIndirect() {
		return downIndirect
	}
	return downUnreachable
}

// reversed is the action of a side that does not hold the lease.
func reversed(a action) action {
	if a == downIndirect {
		return downIndirectReversed
	}
	return downReachable
}

// MinorityDelay is the head start of the majority for a free lease.
const MinorityDelay = 2 * time.Second

// LeaseRank returns the rank of a member among the members with the given role, which compete for the
// lease. The oldest has rank 0. Members that cannot be reached do not count for others, and neither does
// the last holder of the lease: when its lease is free, it has failed to renew it, often before any node
// suspects it. A node that is in no cluster is not a candidate; its rank is negative. A member waits
// rankDelay longer for a free lease than the one whose rank is lower by 1. In a minority, a member's rank
// is raised so far that it waits longer by at least [MinorityDelay], so that the larger side gets the
// lease.
func LeaseRank(v gossip.View, role string, self, holder sharding.NodeID, rankDelay time.Duration) int {
	if !v.InCluster {
		return -1
	}
	rank := v.Rank(role, self, holder)
	if InMinority(v, "") {
		rank += int(MinorityDelay/rankDelay) + 1
	}
	return rank
}

// InMinority reports whether less than half of the members with a role are
// reachable, or half of them without the one of the lowest address.
func InMinority(v gossip.View, role string) bool { return inMinority(newSides(&v), role) }

func inMinority(s *sides, role string) bool {
	counted := filter{role: role, leaving: true}
	here, there := s.count(false, counted), s.count(true, counted)
	lowest := s.first(counted, byAddress)
	return there > here || there == here && lowest >= 0 && s.unreachable[lowest]
}

// answer is the side that the holder of the lease is on.
type answer uint8

const (
	unknown answer = iota
	ours
	theirs
)

// holder says on which side the lease is held. That is unknown if the lease has
// expired or its holder is not a member here, because another node may be about to
// acquire it, and also if this node has just given it up.
func (r *Resolver) holder(now time.Time, l gossip.Lease, s *sides) answer {
	if l.Holder.IsZero() || !now.Before(l.Until) { //mutant:false split-lease-fresh !now.Before(l.Until)
		return unknown
	}
	if l.Holder == s.members[s.self].Node && !l.Until.After(r.yield.givenUpUntil) { //mutant:false split-lease-given
		return unknown
	}
	switch i := s.find(l.Holder); {
	case i < 0:
		return unknown
	case s.unreachable[i] || s.members[i].Status == gossip.Down:
		return theirs
	}
	return ours
}

// decider decides for its side by the lease: the first by address of the
// reachable members that can see it, those first that are up. The zero node: no
// such member is reachable.
func (s *sides) decider(role string) sharding.NodeID {
	for _, w := range []filter{{role: role, leaving: true}, {role: role, leaving: true, joining: true}} {
		for i := range s.members {
			if s.counts(i, w) && !s.unreachable[i] {
				return s.members[i].Node
			}
		}
	}
	return sharding.NodeID{}
}
