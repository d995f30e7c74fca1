package allocation

import (
	"cmp"
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// LeastLoad allocates a shard to the region with the least load, and moves shards off regions whose
// load is above the average by more than a tolerance. Load is counted in processors; other measures
// are converted, see Config. A region's load is the load of its shards of all types.
//
// It moves no more than that takes: a region within the tolerance is left alone, and a
// busier one is brought down by a little more (Hysteresis), so that it does not exceed the
// tolerance again at once. Of its shards those move that relieve it most for what their move
// costs, and none of them twice within the cool-down. The cost of a move is the time in which
// the entities are loaded again. Shards whose load is not known are allocated by number.
type LeastLoad struct {
	Tolerance     float64 // part of the average, see Config
	Hysteresis    float64 // part of the average, see Config
	Floor         float64 // processors, see Config
	Weights       Weights
	MoveMiB       int // of entities in memory that move at a time, see Config
	AbsoluteLimit int // shards per round, see Config
}

// Weights say how many processors other loads are equal to.
type Weights struct {
	Command    float64 // per command per second
	JournalMiB float64 // per MiB written per second
	Entities   float64 // per million entities in memory
	GiB        float64 // per GiB of entities in memory
}

const mebi = 1 << 20

// Cost returns a load in processors.
func (w Weights) Cost(l Load) float64 {
	return l.Processors + w.Command*l.Commands + w.JournalMiB*l.JournalBytes/mebi + w.Entities*l.Entities/1e6 + w.GiB*l.Bytes/(1024*mebi)
}

// moveTime estimates, in seconds, how long the entities of a shard are not served when it
// moves, all of them together: the handoff, and loading each entity again with its bytes.
func moveTime(l Load) float64 { return 0.01 + 50e-6*l.Entities + l.Bytes/(100*mebi) }

func (s LeastLoad) compare(a, b *Region) int {
	return cmp.Or(cmp.Compare(s.Weights.Cost(a.Load), s.Weights.Cost(b.Load)), Compare(a, b))
}

// Allocate picks the region with the least load, or, for a shard whose load is not known, the
// one with the fewest shards.
func (s LeastLoad) Allocate(v View, shard sharding.ShardID) sharding.NodeID {
	if s.Weights.Cost(v.loadOf(shard).Load) == 0 {
		return mostSuitable(v)
	}
	return best(v, s.compare)
}

// ByLoad reports that shards move because of their loads, see [ByLoad].
func (s LeastLoad) ByLoad() bool { return true }

// Rebalance returns the shards that bring regions down to the tolerated load.
func (s LeastLoad) Rebalance(v View, inFlight []sharding.ShardID) []sharding.ShardID {
	if len(v.ShardLoads) == 0 || !v.Settled() {
		return nil
	}
	r := relief{LeastLoad: s, board: newBoard(v), moving: setOf(inFlight), left: s.AbsoluteLimit - len(inFlight)}
	for _, sh := range inFlight {
		r.bytes += v.loadOf(sh).Bytes
	}
	var owners []int
	total := 0.0
	for i := range r.Regions {
		if r.Regions[i].up() {
			owners = append(owners, i)
			total += r.loadAt(i)
		}
	}
	mean := total / float64(max(1, len(owners)))
	r.most = max(mean*(1+s.Tolerance), mean+s.Floor)
	r.step = s.Hysteresis * mean
	//mutant:do load-hysteresis r.step = 0
	// The busiest region first. A region may have become too busy on the way, because it
	// has taken a shard that fitted nowhere.
	for len(owners) > 0 {
		busiest := slices.MaxFunc(owners, func(a, b int) int { return cmp.Compare(r.loadAt(a), r.loadAt(b)) })
		if r.loadAt(busiest) <= r.most {
			break
		}
		r.relieve(busiest)
		owners = slices.DeleteFunc(owners, func(i int) bool { return i == busiest })
	}
	return r.moves
}

// relief is one round of moves for load.
type relief struct {
	LeastLoad
	*board
	moving     map[sharding.ShardID]bool // in flight, or moved by this round
	most, step float64                   // the load that is tolerated, and how much less is wanted
	left       int                       // shards that may still move
	bytes      float64                   // of those that do, or are in flight
	moves      []sharding.ShardID
	buf        []int
}

func (r *relief) loadAt(region int) float64 { return r.Weights.Cost(r.Regions[region].Load) }

// relieve moves shards off a region.
func (r *relief) relieve(owner int) {
	var movable []sharding.ShardID
	stays := r.loadAt(owner)
	for _, s := range r.Regions[owner].Shards {
		// Invariant: plans by load do not follow a load that comes and goes. After a shard has come to its owner, load
		// does not move the shard for a while. After a coordinator has become active, load moves no shard for a while.
		// Mutants: load-cooldown, load-hysteresis, check-cooling, load-cooling
		if !r.moving[s] && r.costOf(s) > 0 && !r.loadOf(s).Cooling { //mutant:true load-cooldown !r.loadOf(s).Cooling
			movable = append(movable, s)
			stays -= r.costOf(s)
		}
	}
	wanted := r.most - r.step
	// Several shards that fit nowhere: if they alone are too much, all but the largest may
	// have to go to regions that then have too much themselves, before these are filled with
	// others.
	slices.SortStableFunc(movable, func(a, b sharding.ShardID) int { return cmp.Compare(r.costOf(a), r.costOf(b)) })
	room := wanted - r.least()
	large, _ := slices.BinarySearchFunc(movable, room, func(s sharding.ShardID, room float64) int {
		return cmp.Or(cmp.Compare(r.costOf(s), room), -1)
	})
	for _, s := range movable[large:] {
		stays += r.costOf(s)
	}
	for _, s := range movable[large:max(large, len(movable)-1)] {
		if stays > r.most && r.try(owner, s, r.better(owner)) {
			stays -= r.costOf(s)
		}
	}
	// Those that relieve it most for what their move costs, as long as they fit.
	value := func(s sharding.ShardID) float64 { return r.costOf(s) / moveTime(r.loadOf(s).Load) }
	slices.SortStableFunc(movable, func(a, b sharding.ShardID) int { return cmp.Compare(value(b), value(a)) })
	for _, s := range movable {
		if r.loadAt(owner)-r.costOf(s) >= wanted {
			r.try(owner, s, wanted)
		}
	}
	// Single shards that each help: the closer to the excess, the better.
	excess := r.loadAt(owner) - wanted
	distance := func(s sharding.ShardID) float64 { return math.Abs(r.costOf(s) - excess) }
	slices.SortStableFunc(movable, func(a, b sharding.ShardID) int { return cmp.Compare(distance(a), distance(b)) })
	for _, s := range movable {
		if r.loadAt(owner) > r.most {
			r.try(owner, s, r.better(owner))
		}
	}
}

func (r *relief) costOf(s sharding.ShardID) float64 { return r.Weights.Cost(r.loadOf(s).Load) }

// better is the load that the other region of a move may have in the end if that is to be
// better than what the owner has now.
func (r *relief) better(owner int) float64 {
	load := r.loadAt(owner)
	return load - max(r.step, r.Floor, load/1000)
}

// least is the lowest load of a region.
func (r *relief) least() float64 {
	least := math.Inf(1)
	for i := range r.Regions {
		if r.Regions[i].up() {
			least = min(least, r.loadAt(i))
		}
	}
	return least
}

// try moves a shard if the load of its new region does not exceed a limit then, and reports
// whether it did.
func (r *relief) try(owner int, s sharding.ShardID, limit float64) bool {
	l := r.loadOf(s)
	if r.moving[s] || r.left <= 0 || r.bytes > 0 && r.bytes+l.Bytes > float64(r.MoveMiB)*mebi {
		return false
	}
	was := r.Regions[owner]
	r.lift(owner, s)
	r.buf, _ = r.candidates(s, r.buf)
	to := r.best(r.buf, r.compare)
	if to < 0 || to == owner || r.loadAt(to)+r.costOf(s) > limit {
		r.restore(owner, was)
		return false
	}
	r.drop(owner, was, slices.Index(was.Shards, s))
	r.give(to, s)
	r.moving[s] = true
	r.left--
	r.bytes += l.Bytes
	r.moves = append(r.moves, s)
	return true
}
