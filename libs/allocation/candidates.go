package allocation

import (
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Broken are the constraints that a choice does not keep because no other region could
// serve the shard.
type Broken uint8

// The constraints, the most important one first.
const (
	BrokenCapacity Broken = 1 << iota
	BrokenPin
	BrokenCordon
	BrokenZone
)

// Constraints are all constraints, the most important one first.
var Constraints = [...]Broken{BrokenCapacity, BrokenPin, BrokenCordon, BrokenZone}

var constraintNames = [len(Constraints)]string{"capacity", "pin", "cordon", "zone"}

// String lists the constraints.
func (b Broken) String() string {
	var names []string
	for i, name := range constraintNames {
		if b&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// Candidates returns the view with those regions only that may be given a shard, which none of them has.
// All of them are up and reachable and read everything that may be stored in the shard; if there are none,
// no region can serve it. Of these regions those are kept, one constraint after the other, that
//
//  1. have fewer shards than their capacity,
//  2. have the name that the shard is pinned to,
//  3. are not cordoned,
//  4. are in a zone with less than its share of the type's shards.
//
// A constraint that none of the remaining regions keeps is ignored, and returned. So a
// constraint is broken only if a more important one would be broken otherwise, or the shard
// would not be served at all.
//
// The share of a zone is its regions' part of the capacity of all regions of the view that are up. If one
// of these has not said its capacity, it is their part of the number of regions, but a region counts for no
// more shards than its capacity: the others divide the rest.
func Candidates(v View, shard sharding.ShardID) (View, Broken) {
	b := survey(v, 1)
	indexes, broken := b.candidates(shard, make([]int, 0, len(v.Regions)))
	return b.narrowed(indexes, make([]Region, 0, len(indexes))), broken
}

// zone is a board's knowledge of the regions of one zone.
type zone struct {
	shards int // of the type, with regions that are up
	weight int // of these regions
}

// board is a view that changes as shards move.
type board struct {
	View
	zones   []zone
	zoneOf  []int // by the index of the region; nil: all are in one zone
	weights int   // of all zones
	shards  int   // of the type
	ready   int   // regions that are up and reachable
}

// up reports whether the region may be given shards at all.
func (r *Region) up() bool {
	// Invariant: a shard goes only to a region that is up and reachable, and that reads what may be stored in the
	// shard. Among these regions, one that satisfies the constraints zone, cordon, pin and capacity is chosen. If no
	// such region satisfies all of them, the zone is given up first, then the cordon, then the pin, and the capacity
	// last.
	// Guarded by: `allocation.Candidates` is used for every choice. `allocation.CheckPlan` checks the same with other
	// code.
	// Mutants: candidate-status, candidate-unreachable, candidate-reads, constraint-capacity, constraint-pin,
	// constraint-cordon, constraint-zone, share-capacity, check-status, check-reads, check-capacity, check-pin,
	// check-cordon, check-zone, check-share
	//mutant:true candidate-status r.Status == Up
	//mutant:true candidate-unreachable !r.Unreachable
	return r.Status == Up && !r.Unreachable
}

// newBoard returns a board with regions of its own. The lists of shards are copied when they
// change.
func newBoard(v View) *board {
	v.Regions = slices.Clone(v.Regions)
	for i := range v.Regions {
		v.Regions[i].Shards = slices.Clip(v.Regions[i].Shards)
	}
	return survey(v, 0)
}

// survey returns a board that must not be changed. So many shards come to the regions, and are not in
// the view.
func survey(v View, coming int) *board {
	b := &board{View: v, zones: make([]zone, 1)}
	if slices.ContainsFunc(v.Regions, func(r Region) bool { return r.Zone != v.Regions[0].Zone }) {
		b.zoneOf = make([]int, len(v.Regions))
		byName := map[string]int{v.Regions[0].Zone: 0}
		for i := range v.Regions {
			z, found := byName[v.Regions[i].Zone]
			if !found {
				z = len(b.zones)
				byName[v.Regions[i].Zone] = z
				b.zones = append(b.zones, zone{})
			}
			b.zoneOf[i] = z
		}
	}
	for i := range b.Regions {
		r := &b.Regions[i]
		b.shards += len(r.Shards)
		if r.up() {
			b.ready++
			b.zones[b.zone(i)].shards += len(r.Shards)
		}
	}
	b.weigh(coming)
	return b
}

// weigh computes the weights of the zones, which determine their shares.
func (b *board) weigh(coming int) {
	if len(b.zones) == 1 {
		return
	}
	all, said := coming, make([]int, 0, len(b.Regions)) // shards of all types; the capacities that are known
	for i := range b.Regions {
		r := &b.Regions[i]
		all += max(r.Total, len(r.Shards))
		if r.up() && r.Capacity > 0 {
			said = append(said, r.Capacity)
		}
	}
	// If all regions had the same number of shards, except those without room for so many, this number
	// would be left divided by free. The weights are numbers of shards, times free.
	left, free := all, b.ready
	if len(said) < b.ready { //mutant:false share-capacity
		slices.Sort(said)
		for _, capacity := range said {
			if capacity*free >= left {
				break
			}
			left, free = left-capacity, free-1
		}
	}
	b.weights = 0
	for z := range b.zones {
		b.zones[z].weight = 0
	}
	for i := range b.Regions {
		r := &b.Regions[i]
		if !r.up() {
			continue
		}
		weight := left
		if len(said) == b.ready {
			weight = r.Capacity
		} else if r.Capacity > 0 {
			weight = min(left, r.Capacity*free)
		}
		b.zones[b.zone(i)].weight += weight
		b.weights += weight
	}
}

// zone returns the index of a region's zone.
func (b *board) zone(region int) int {
	if b.zoneOf == nil {
		return 0
	}
	return b.zoneOf[region]
}

// indexOf returns the index of a region, or -1.
func (b *board) indexOf(node sharding.NodeID) int {
	if node.IsZero() {
		return -1
	}
	return slices.IndexFunc(b.Regions, func(r Region) bool { return r.Node == node })
}

// lift takes a shard of a region off the board: the region counts without it. Its list has the right
// length then, but not the right shards. To correct it takes time, and most shards that are lifted are
// put back, see [board.restore]; for one that is not, see [board.drop].
func (b *board) lift(region int, s sharding.ShardID) {
	r := &b.Regions[region]
	r.Shards = r.Shards[:len(r.Shards)-1]
	r.Total--
	r.Load = r.Load.Minus(b.loadOf(s).Load)
	b.tally(region, -1)
}

// drop corrects the list of a region whose shard at a place has been lifted; was is the region before.
func (b *board) drop(region int, was Region, place int) {
	b.Regions[region].Shards = slices.Concat(was.Shards[:place], was.Shards[place+1:])
}

// restore undoes a lift; was is the region before it.
func (b *board) restore(region int, was Region) {
	b.Regions[region] = was
	b.tally(region, 1)
}

// give appends a shard to a region's list.
func (b *board) give(region int, s sharding.ShardID) {
	r := &b.Regions[region]
	r.Shards = append(r.Shards, s)
	r.Total++
	r.Load = r.Load.Plus(b.loadOf(s).Load)
	b.tally(region, 1)
}

// tally counts a shard that has come or gone.
func (b *board) tally(region, by int) {
	b.shards += by
	if b.Regions[region].up() {
		b.zones[b.zone(region)].shards += by
	}
}

// allowed returns how many shards of the type a zone may have, if the type has n.
func (b *board) allowed(zone, n int) int {
	weights := max(1, b.weights) // 0 if there are no shards
	return (b.zones[zone].weight*n + weights - 1) / weights
}

// OverShare returns how many shards of the type zones have beyond their share, see [Candidates].
func OverShare(v View) (n int) {
	b := survey(v, 0)
	if b.ready == 0 || len(b.zones) == 1 {
		return 0
	}
	for z := range b.zones {
		n += max(0, b.zones[z].shards-b.allowed(z, b.shards))
	}
	return n
}

// candidates returns the indexes of the regions that may be given a shard which is not on the
// board, see [Candidates]. They are appended to buf[:0].
func (b *board) candidates(s sharding.ShardID, buf []int) ([]int, Broken) {
	list, forms := buf[:0], b.formsOf(s)
	for i := range b.Regions {
		r := &b.Regions[i]
		if r.up() && r.Reads.Contains(forms) { //mutant:true candidate-reads r.Reads.Contains(forms)
			list = append(list, i)
		}
	}
	var broken Broken
	keep := func(constraint Broken, keeps func(int) bool) {
		if !slices.ContainsFunc(list, keeps) {
			broken |= constraint
			return
		}
		list = slices.DeleteFunc(list, func(i int) bool { return !keeps(i) })
	}
	if len(list) == 0 {
		return list, 0
	}
	//mutant:skip constraint-capacity
	keep(BrokenCapacity, func(i int) bool { return b.Regions[i].Capacity == 0 || b.Regions[i].Total < b.Regions[i].Capacity })
	if pin := b.Pins[s]; pin != "" {
		//mutant:skip constraint-pin
		keep(BrokenPin, func(i int) bool { return b.Regions[i].Name == pin })
	}
	//mutant:skip constraint-cordon
	keep(BrokenCordon, func(i int) bool { return !b.Regions[i].Cordoned })
	if len(b.zones) > 1 {
		//mutant:skip constraint-zone
		keep(BrokenZone, func(i int) bool { return b.zones[b.zone(i)].shards < b.allowed(b.zone(i), b.shards+1) })
	}
	return list, broken
}

// narrowed returns the view with some of its regions only. They are appended to buf[:0].
func (b *board) narrowed(indexes []int, buf []Region) View {
	v := b.View
	v.ofShards, v.ofRegions = b.shards, b.ready
	v.Regions = buf[:0]
	for _, i := range indexes {
		v.Regions = append(v.Regions, b.Regions[i])
	}
	return v
}

// constrained reports whether constraints or forms may keep a shard from a region that is
// up. Then it is not enough to compare numbers.
func (v *View) constrained() bool {
	all, known := sharding.FormSet(""), map[sharding.FormSet]bool{}
	for _, forms := range v.Forms {
		if !known[forms] {
			known[forms] = true
			all = all.Union(forms)
		}
	}
	return len(v.Pins) > 0 || slices.ContainsFunc(v.Regions, func(r Region) bool {
		return r.Cordoned || r.Capacity > 0 || r.Zone != v.Regions[0].Zone || !r.Status.Going() && !r.Reads.Contains(all)
	})
}
