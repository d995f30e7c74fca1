package allocation

import (
	"cmp"
	"math"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// LeastLoad allocates a shard to the region with the least load, and moves shards off regions whose
// load is above the average by more than a tolerance. Load is counted in processors; other measures
// are converted, see Config. A region's load is the load of its shards of all types, divided by the
// region's processors, see [Weights.Divisor]. The average is the load of all regions, divided by
// all their processors.
//
// It moves no more than that takes: a region within the tolerance is left alone, and a
// busier one is brought down by a little more (Hysteresis), so that it does not exceed the
// tolerance again at once. Of its shards those move that relieve it most for what their move
// costs, and none of them twice within the cool-down. The cost of a move is the time in which
// the entities are loaded again. Shards whose load is not known are allocated by number.
//
// Commands wait, and garbage is collected, because a region is busy. Such load does not move with a
// shard: it appears at the next region that is too busy. So this load decides which regions are
// relieved, but a shard never goes to a region that would then have as much work as its owner has,
// see [Weights.Work].
type LeastLoad struct {
	Tolerance     float64 // part of the average, see Config
	Hysteresis    float64 // part of the average, see Config
	Floor         float64 // processors, see Config
	Weights       Weights
	MoveMiB       int // of entities in memory that move at a time, see Config
	AbsoluteLimit int // shards per round, see Config
}

// Weights convert other loads to processors.
type Weights struct {
	Command    float64 // per command per second
	JournalMiB float64 // per MiB written per second
	Entities   float64 // per million entities in memory
	GiB        float64 // per GiB of entities in memory
	Waiting    float64 // per command that waits in a mailbox
	GC         float64 // per processor that collects garbage, see Divisor
}

const mebi = 1 << 20

// Cost returns a load in processors.
func (w Weights) Cost(l Load) float64 { return w.Work(l) + w.Waiting*l.Waiting }

// Work returns the part of a load, in processors, that goes with a shard to its next region: all but the
// waiting.
func (w Weights) Work(l Load) float64 {
	return l.Processors + w.Command*l.Commands + w.JournalMiB*l.JournalBytes/mebi + w.Entities*l.Entities/1e6 + w.GiB*l.Bytes/(1024*mebi)
}

// maxGC is the largest part of a region's processors that garbage collection takes away. The runtime may
// use all of them for a moment, and the region must still be comparable.
const maxGC = 0.5

// Divisor returns the number of processors that a region has for its shards. The load of the region is divided by it.
func (w Weights) Divisor(p Processors) float64 {
	// Invariant: the load of each region can be compared, whatever the region reports of its processors. A region that
	// reports no number counts as the smallest.
	// Mutants: load-unknown-processors, load-gc-bound
	if p.All <= 0 { //mutant:false load-unknown-processors
		p.All = 1
	}
	taken := w.GC * p.GC
	if taken > maxGC { //mutant:false load-gc-bound
		taken = maxGC
	}
	return float64(p.All) * (1 - taken)
}

// moveTime estimates, in seconds, how long the entities of a shard are not served when it
// moves, all of them together: the handoff, and loading each entity again with its bytes.
func moveTime(l Load) float64 { return 0.01 + 50e-6*l.Entities + l.Bytes/(100*mebi) }

// order returns an order of the regions by their load with the given shard, which none of them has.
func (s LeastLoad) order(shard Load) func(a, b *Region) int {
	cost := s.Weights.Cost(shard)
	with := func(r *Region) float64 { return (s.Weights.Cost(r.Load) + cost) / s.Weights.Divisor(r.Processors) }
	return func(a, b *Region) int { return cmp.Or(cmp.Compare(with(a), with(b)), Compare(a, b)) }
}

// Allocate picks the region with the least load, or, for a shard whose load is not known, the
// one with the fewest shards.
func (s LeastLoad) Allocate(v View, shard sharding.ShardID) sharding.NodeID {
	load := v.loadOf(shard).Load
	if s.Weights.Cost(load) == 0 {
		return mostSuitable(v)
	}
	return best(v, s.order(load))
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
	cost, work, divisors, processors := 0.0, 0.0, 0.0, 0.0
	for i := range r.Regions {
		region := &r.Regions[i]
		r.divisors = append(r.divisors, s.Weights.Divisor(region.Processors))
		if region.up() {
			owners = append(owners, i)
			cost += s.Weights.Cost(region.Load)
			work += s.Weights.Work(region.Load)
			divisors += r.divisors[i]
			processors += processorsOf(region)
		}
	}
	if len(owners) == 0 {
		return nil
	}
	r.mean = cost / divisors
	r.step, r.workStep = s.Hysteresis*r.mean, s.Hysteresis*work/processors
	//mutant:do load-hysteresis r.step = 0
	// The busiest region first. A region may have become too busy on the way, because it
	// has taken a shard that fitted nowhere.
	excess := func(i int) float64 { return r.loadAt(i) - r.most(i) }
	for len(owners) > 0 {
		busiest := slices.MaxFunc(owners, func(a, b int) int { return cmp.Compare(excess(a), excess(b)) })
		if excess(busiest) <= 0 {
			break
		}
		r.relieve(busiest)
		owners = slices.DeleteFunc(owners, func(i int) bool { return i == busiest })
	}
	return r.moves
}

// relief is one round of moves for load. Loads of regions are per processor.
type relief struct {
	LeastLoad
	*board
	divisors       []float64                 // by the index of the region
	mean           float64                   // load of all regions
	step, workStep float64                   // by how much less load, and work, is wanted
	moving         map[sharding.ShardID]bool // in flight, or moved by this round
	left           int                       // shards that may still move
	bytes          float64                   // of those that do, or are in flight
	moves          []sharding.ShardID
	buf            []int
}

func (r *relief) loadAt(region int) float64 {
	return r.Weights.Cost(r.Regions[region].Load) / r.divisors[region]
}

// most returns the load that is tolerated at a region.
func (r *relief) most(region int) float64 {
	return max(r.mean*(1+r.Tolerance), r.mean+r.Floor/r.divisors[region])
}

// wanted returns the load that a region is brought down to.
func (r *relief) wanted(region int) float64 { return r.most(region) - r.step }

// relieve moves shards off a region.
func (r *relief) relieve(owner int) {
	var movable []sharding.ShardID
	stays, divisor := r.loadAt(owner), r.divisors[owner]
	for _, s := range r.Regions[owner].Shards {
		// Invariant: plans by load do not follow a load that comes and goes. After a shard has come to its owner, load
		// does not move the shard for a while. After a coordinator has become active, load moves no shard for a while.
		// Mutants: load-cooldown, load-hysteresis, check-cooling, load-cooling
		if !r.moving[s] && r.costOf(s) > 0 && !r.loadOf(s).Cooling { //mutant:true load-cooldown !r.loadOf(s).Cooling
			movable = append(movable, s)
			stays -= r.costOf(s) / divisor
		}
	}
	wanted := r.wanted(owner)
	// Several shards that fit nowhere: if they alone are too much, all but the largest may
	// have to go to regions that then have too much themselves, before these are filled with
	// others.
	slices.SortStableFunc(movable, func(a, b sharding.ShardID) int { return cmp.Compare(r.costOf(a), r.costOf(b)) })
	large, _ := slices.BinarySearchFunc(movable, r.room(), func(s sharding.ShardID, room float64) int {
		return cmp.Or(cmp.Compare(r.costOf(s), room), -1)
	})
	for _, s := range movable[large:] {
		stays += r.costOf(s) / divisor
	}
	for _, s := range movable[large:max(large, len(movable)-1)] {
		if stays > r.most(owner) && r.try(owner, s, r.better(owner)) {
			stays -= r.costOf(s) / divisor
		}
	}
	// Those that relieve it most for what their move costs, as long as they fit.
	value := func(s sharding.ShardID) float64 { return r.costOf(s) / moveTime(r.loadOf(s).Load) }
	slices.SortStableFunc(movable, func(a, b sharding.ShardID) int { return cmp.Compare(value(b), value(a)) })
	for _, s := range movable {
		if r.loadAt(owner)-r.costOf(s)/divisor >= wanted {
			r.try(owner, s, r.wanted)
		}
	}
	// Single shards that each help: the closer to the excess, the better.
	excess := (r.loadAt(owner) - wanted) * divisor
	distance := func(s sharding.ShardID) float64 { return math.Abs(r.costOf(s) - excess) }
	slices.SortStableFunc(movable, func(a, b sharding.ShardID) int { return cmp.Compare(distance(a), distance(b)) })
	for _, s := range movable {
		if r.loadAt(owner) > r.most(owner) {
			r.try(owner, s, r.better(owner))
		}
	}
}

func (r *relief) costOf(s sharding.ShardID) float64 { return r.Weights.Cost(r.loadOf(s).Load) }

// better returns the load that the other region of a move may have in the end if that is to be
// better than what the owner has now.
func (r *relief) better(owner int) func(int) float64 {
	load := r.loadAt(owner)
	limit := load - max(r.step, r.Floor/r.divisors[owner], load/1000)
	return func(int) float64 { return limit }
}

// room returns the cost of the largest shard that fits anywhere.
func (r *relief) room() float64 {
	room := math.Inf(-1)
	for i := range r.Regions {
		if r.Regions[i].up() {
			room = max(room, (r.wanted(i)-r.loadAt(i))*r.divisors[i])
		}
	}
	return room
}

// try moves a shard if the load of its new region does not exceed a limit then, and reports
// whether it did.
func (r *relief) try(owner int, s sharding.ShardID, limit func(region int) float64) bool {
	l := r.loadOf(s)
	if r.moving[s] || r.left <= 0 || r.bytes > 0 && r.bytes+l.Bytes > float64(r.MoveMiB)*mebi {
		return false
	}
	was := r.Regions[owner]
	r.lift(owner, s)
	r.buf, _ = r.candidates(s, r.buf)
	to := r.best(r.buf, r.order(l.Load))
	if to < 0 || to == owner || r.loadAt(to)+r.costOf(s)/r.divisors[to] > limit(to) || !r.less(l.Load, &was, &r.Regions[to]) {
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

// less reports whether a region that gets a shard then has less work, per processor, than the owner of the
// shard has.
func (r *relief) less(shard Load, owner, to *Region) bool {
	// Invariant: moves because of load end although commands wait, and garbage is collected, wherever there
	// is most work. Each move lowers the work of the busier of its two regions, and the other one stays below that.
	// Mutants: load-less-work
	before, after := r.Weights.Work(owner.Load)/processorsOf(owner), (r.Weights.Work(to.Load)+r.Weights.Work(shard))/processorsOf(to)
	return after < before && after <= before-r.workStep //mutant:true load-less-work
}

// processorsOf returns the number of processors of a region, with those that collect garbage.
func processorsOf(r *Region) float64 { return Weights{}.Divisor(r.Processors) }
