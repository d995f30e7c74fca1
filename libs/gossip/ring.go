package gossip

import (
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// ringHash is the place of a node on the ring of observers, as in Akka.
func ringHash(u sharding.NodeUID) uint32 { return uint32(u) ^ uint32(u>>32) }

// distance is the clockwise distance between two nodes; ties are in the order of nodes.
func distance(from, to sharding.NodeID) uint64 {
	d := uint64(ringHash(to.UID) - ringHash(from.UID))
	if d == 0 && to.Compare(from) < 0 {
		return 1 << 32 // all the way round
	}
	return d
}

// receivers are the members that a node watches: the next k reachable members,
// clockwise on a ring of all members, and the unreachable ones between them.
// Unreachable members do not count towards k, so that all of them have observers
// left, however many neighbours die. In a cluster with no more than k others it
// is all of them.
//
// The ring and its rules are Akka's (HeartbeatNodeRing).
func (s *State) receivers(self sharding.NodeID, k int, suspects []suspect) []sharding.NodeID {
	if len(s.Members) <= k+1 {
		var all []sharding.NodeID
		for _, m := range s.Members {
			if m.Node != self {
				all = append(all, m.Node)
			}
		}
		slices.SortFunc(all, sharding.NodeID.Compare)
		return all
	}
	next := nearest{from: self, most: k}
	var silent []place
	for _, m := range s.Members {
		for len(suspects) > 0 && byUID(suspects[0].node, m.Node) < 0 {
			suspects = suspects[1:] // both are sorted by uid
		}
		switch {
		case m.Node == self:
		case len(suspects) > 0 && suspects[0].node == m.Node && suspects[0].forCluster != Reachable:
			silent = append(silent, place{distance(self, m.Node), m.Node})
		default:
			next.offer(m.Node)
		}
	}
	// Unreachable members beyond the last reachable one are left to others.
	chosen := slices.Clone(next.places)
	for _, p := range silent {
		if n := len(next.places); n < k || n > 0 && placeOrder(p, next.places[n-1]) < 0 {
			chosen = append(chosen, p)
		}
	}
	slices.SortFunc(chosen, placeOrder)
	var out []sharding.NodeID
	reachable := 0
	for _, p := range chosen {
		if reachable == k {
			break
		}
		switch _, ok := slices.BinarySearchFunc(next.places, p, placeOrder); {
		case ok:
			reachable++
			out = append(out, p.node)
		case len(out) < k:
			out = append(out, p.node)
		}
	}
	slices.SortFunc(out, sharding.NodeID.Compare)
	return out
}

// ringEnd is the distance of the last receiver. Members beyond it do not affect
// the receivers. There is no end if fewer than k of them are reachable.
func ringEnd(self sharding.NodeID, k int, receivers []sharding.NodeID, suspects []suspect) uint64 {
	end, reachable := uint64(0), 0
	for _, n := range receivers {
		end = max(end, distance(self, n))
		if suspected(suspects, n).forCluster == Reachable {
			reachable++
		}
	}
	if reachable < k {
		return math.MaxUint64
	}
	return end
}

// place is a node and its distance on the ring.
type place struct {
	distance uint64
	node     sharding.NodeID
}

func placeOrder(a, b place) int {
	switch {
	case a.distance < b.distance:
		return -1
	case a.distance > b.distance:
		return 1
	}
	return a.node.Compare(b.node)
}

// nearest keeps the first few nodes clockwise, in order, without sorting them
// all.
type nearest struct {
	from   sharding.NodeID
	most   int
	places []place
}

func (x *nearest) offer(n sharding.NodeID) {
	p := place{distance(x.from, n), n}
	if have := len(x.places); have == x.most && (have == 0 || placeOrder(p, x.places[have-1]) >= 0) {
		return
	}
	i, _ := slices.BinarySearchFunc(x.places, p, placeOrder)
	x.places = slices.Insert(x.places, i, p)
	x.places = x.places[:min(len(x.places), x.most)]
}
