package allocation

import (
	"math"
	"strconv"

	"github.com/roost-cluster/roost/libs/sharding"
)

// ConsistentHashing allocates a shard by its index to the next region on a ring of virtual nodes. So shards
// with the same index are at the same region, whatever their type: if entities of several types share
// something, such as a customer, they are in one place if their ids go to the same index. When regions come
// or go, few other shards move. It is the consistent hashing strategy of Akka, with a bound for one region:
// if a shard's region has no room, the shard continues to the next one.
type ConsistentHashing struct {
	VirtualNodes  int     // of each region, see Config
	BoundedLoad   float64 // above the average, see Config; 0: no bound
	AbsoluteLimit int     // shards per round, see Config
}

func hashKey(s sharding.ShardID) uint32 { return hashText(strconv.FormatUint(uint64(s.Index), 10)) }

// bound is the largest number of shards of the type for one region.
func (s ConsistentHashing) bound(shards, regions int) int {
	// Invariant: the place of a region on the ring does not give the region many more shards of a type than other
	// regions have.
	// Mutants: hash-bound
	if s.BoundedLoad == 0 { //mutant:true hash-bound
		return math.MaxInt
	}
	return int(math.Ceil((1 + s.BoundedLoad) * float64(shards) / float64(max(1, regions))))
}

// Allocate picks the first region on the ring that has room.
func (s ConsistentHashing) Allocate(v View, shard sharding.ShardID) sharding.NodeID {
	shards, regions := v.ofShards, v.ofRegions
	if regions == 0 {
		for i := range v.Regions {
			shards += len(v.Regions[i].Shards)
			if v.Regions[i].candidate() {
				regions++
			}
		}
	}
	key, most := hashKey(shard), s.bound(shards+1, regions)
	var found, full sharding.NodeID
	var near, nearFull uint32
	for i := range v.Regions {
		r := &v.Regions[i]
		if !r.candidate() {
			continue
		}
		switch d := distance(r, key, s.VirtualNodes); {
		case len(r.Shards) >= most:
			if full.IsZero() || d < nearFull {
				full, nearFull = r.Node, d
			}
		case found.IsZero() || d < near:
			found, near = r.Node, d
		}
	}
	if found.IsZero() {
		return full
	}
	return found
}

// Rebalance returns the shards that are not at the first region on the ring that has room,
// region by region.
func (s ConsistentHashing) Rebalance(v View, inFlight []sharding.ShardID) []sharding.ShardID {
	if !v.Settled() {
		return nil
	}
	var moves []sharding.ShardID
	var buf []int
	b, moving, ring := newBoard(v), setOf(inFlight), newRing(v.Regions, s.VirtualNodes)
	allowed := make([]bool, len(b.Regions))
	for owner := range b.Regions {
		stay := 0 // its shards that have stayed are the first of its list
		for _, sh := range v.Regions[owner].Shards {
			if len(moves)+len(inFlight) >= s.AbsoluteLimit {
				return moves
			}
			if moving[sh] {
				stay++
				continue
			}
			was := b.Regions[owner]
			b.lift(owner, sh)
			buf, _ = b.candidates(sh, buf)
			clear(allowed)
			for _, i := range buf {
				allowed[i] = true
			}
			key, most := hashKey(sh), s.bound(b.shards+1, b.ready)
			to := walk(ring, key, func(i int) bool { return allowed[i] && len(b.Regions[i].Shards) < most })
			if to < 0 {
				to = walk(ring, key, func(i int) bool { return allowed[i] })
			}
			if to < 0 || to == owner {
				b.restore(owner, was)
				stay++
				continue
			}
			b.drop(owner, was, stay)
			b.give(to, sh)
			moves = append(moves, sh)
		}
	}
	return moves
}
