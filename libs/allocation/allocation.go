package allocation

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Status is the membership status of a region's node, as far as placement is
// concerned.
type Status uint8

// The statuses. Up is the zero value, as most regions have it.
const (
	Up Status = iota
	Joining
	WeaklyUp
	Leaving
	Exiting
	Down
)

// String returns the status in words.
func (s Status) String() string {
	switch s {
	case Up:
		return "up"
	case Joining:
		return "joining"
	case WeaklyUp:
		return "weakly-up"
	case Leaving:
		return "leaving"
	case Exiting:
		return "exiting"
	case Down:
		return "down"
	}
	return "invalid"
}

// Going reports whether a node with this status is about to leave or is gone.
func (s Status) Going() bool { return s == Leaving || s == Exiting || s == Down }

// Region is one region that hosts the view's entity type.
type Region struct {
	Node sharding.NodeID
	// Name is the name that operators use for the region. Unlike Node it survives a restart.
	Name string
	// Zone is the region's location, such as an availability zone; "": it did not say.
	Zone string
	// Version is the application's version; "": it did not say. Versions have no order.
	Version string
	Status  Status
	// Unreachable means that a failure detector suspects the region.
	Unreachable bool
	// Cordoned means that an operator wants the region to get no more shards. It keeps
	// those that it has.
	Cordoned bool
	// Capacity is the largest number of shards, of all types, that the region wants; 0:
	// it did not say.
	Capacity int
	// Total is the number of shards, of all types, that the region owns or is about to own, and Load the
	// sum of their known loads.
	Total int
	Load  Load
	// Processors is the number of processors that the region's process may use.
	Processors Processors
	// Reads are the forms of the type that the region reads; see [View.Forms].
	Reads sharding.FormSet
	// Shards are the shards of the view's type that the region owns or is
	// about to own, in the order in which they were allocated to it.
	Shards []sharding.ShardID
}

// Processors are the processors of a region's process.
type Processors struct {
	All int     // that it may use; 0: not known
	GC  float64 // the part of them that collects garbage
}

// candidate reports whether a strategy may give a shard to the region.
func (r *Region) candidate() bool { return !r.Status.Going() && !r.Unreachable }

// label names the region for people.
func (r *Region) label() string {
	if r.Name == "" {
		return r.Node.String()
	}
	return r.Name
}

// Load is the load of a shard, or of all shards of a region. Rates are smoothed.
type Load struct {
	Processors   float64 // time of handlers, in seconds per second: see sharding.Load
	Commands     float64 // per second
	Waiting      float64 // commands that wait in mailboxes: see sharding.Load.Counted
	JournalBytes float64 // written per second
	Entities     float64 // in memory
	Bytes        float64 // of them, in memory
}

// LoadOf returns what was measured, as strategies count it.
func LoadOf(l sharding.Load) Load {
	return Load{
		Processors: float64(l.HandlerMicros) / 1e6, Commands: float64(l.MilliCommands) / 1000, Waiting: float64(l.MilliWaiting) / 1000,
		JournalBytes: float64(l.JournalBytes), Entities: float64(l.Entities), Bytes: float64(l.Bytes),
	}
}

// Plus returns the sum of two loads.
func (l Load) Plus(o Load) Load {
	return Load{l.Processors + o.Processors, l.Commands + o.Commands, l.Waiting + o.Waiting, l.JournalBytes + o.JournalBytes, l.Entities + o.Entities, l.Bytes + o.Bytes}
}

// Minus returns the difference of two loads. None of its parts is below 0: reports of
// regions and of their shards are not of the same moment.
func (l Load) Minus(o Load) Load {
	return Load{
		max(0, l.Processors-o.Processors), max(0, l.Commands-o.Commands), max(0, l.Waiting-o.Waiting), max(0, l.JournalBytes-o.JournalBytes),
		max(0, l.Entities-o.Entities), max(0, l.Bytes-o.Bytes),
	}
}

// ShardLoad is the known load of a shard.
type ShardLoad struct {
	Load
	// Cooling means that the shard has moved less than [Config.LoadCooldown] ago. It does
	// not move again because of its load.
	Cooling bool
}

// View is the information that a strategy has about one entity type.
type View struct {
	// Type is the type. Its hash decides which of several equal regions is the first, so
	// that types with few shards do not meet on one region. Without it, ties are broken by
	// the order of Regions.
	Type sharding.EntityType
	// Regions are those that host the type, in a fixed order. Each shard is listed once: at
	// the region that owns it, or that it is on its way to.
	Regions []Region
	// Unsettled forbids any rebalance for a reason that the regions do not
	// show, such as another member that is joining or unreachable, or a rollout.
	Unsettled bool
	// Forms are, by the index of the shard, the forms in which something may be stored in
	// it. Only a region that reads all of them can serve it. Nil: no forms matter.
	Forms []sharding.FormSet
	// Pins are the regions, by name, that shards are wanted at.
	Pins map[sharding.ShardID]string
	// ShardLoads are the known loads, by the index of the shard. Nil: too little is known to move anything
	// because of it.
	ShardLoads []ShardLoad

	// The shards and the candidates of the view that [Candidates] has narrowed.
	ofShards, ofRegions int
}

// formsOf returns the forms in which something may be stored in a shard.
func (v *View) formsOf(s sharding.ShardID) sharding.FormSet {
	if int(s.Index) < len(v.Forms) {
		return v.Forms[s.Index]
	}
	return ""
}

// loadOf returns the known load of a shard.
func (v *View) loadOf(s sharding.ShardID) ShardLoad {
	if int(s.Index) < len(v.ShardLoads) {
		return v.ShardLoads[s.Index]
	}
	return ShardLoad{}
}

// first returns the index of the region that wins ties, of n regions.
func (v *View) first(n int) int {
	if v.Type == "" || n == 0 {
		return 0
	}
	return int(sharding.EntityID(v.Type).Hash() % uint64(n))
}

// Settled reports whether a rebalance makes sense: there is a region; none is unreachable
// (its shards are about to be allocated again) or still joining (the average is about to
// change); and Unsettled is not set. Every strategy must check this first.
func (v View) Settled() bool {
	if v.Unsettled || len(v.Regions) == 0 {
		return false
	}
	for i := range v.Regions {
		r := &v.Regions[i]
		if r.Unreachable || r.Status == Joining || r.Status == WeaklyUp {
			return false
		}
	}
	return true
}

// Strategy decides where shards go. Its methods must be pure functions: they return the
// same result for the same arguments, and neither change nor keep them.
type Strategy interface {
	// Allocate returns the region for a shard that has none. The zero NodeID
	// means that no region of the view can take it; the caller must try again when
	// the view has changed. Regions that are leaving, down or unreachable are never
	// returned. To avoid a region, the caller leaves it out of the view, as [Candidates]
	// does: a strategy need not know the constraints.
	Allocate(view View, shard sharding.ShardID) sharding.NodeID
	// Rebalance returns shards to hand off, which are then allocated again, in this order.
	// inFlight are the shards of the type that are already moving (handing off
	// or starting); none of them is returned.
	Rebalance(view View, inFlight []sharding.ShardID) []sharding.ShardID
}

// ByLoad is implemented by strategies whose Rebalance goes by the loads of shards. If ByLoad returns
// true, the reason of their moves is the load. So a shard does not move within the cool-down, and
// nothing moves until all loads are known.
type ByLoad interface {
	Strategy
	ByLoad() bool
}

// Compare orders two regions by suitability, negative if a is better. When
// their statuses differ, only leaving or not decides: two different healthy
// statuses are equal whatever the shard counts (a region that is not Up yet is
// neither preferred nor avoided). Of two regions with equally many shards of the type, the
// one with fewer shards of all types is better.
func Compare(a, b *Region) int {
	if a.Status != b.Status {
		return compareBool(a.Status.Going(), b.Status.Going())
	}
	return cmp.Or(cmp.Compare(len(a.Shards), len(b.Shards)), cmp.Compare(a.Total, b.Total))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// bySuitability lists the regions that stay, best first; equal ones keep their order.
func bySuitability(regions []Region) []*Region {
	sorted := make([]*Region, 0, len(regions))
	for i := range regions {
		if !regions[i].Status.Going() {
			sorted = append(sorted, &regions[i])
		}
	}
	slices.SortStableFunc(sorted, Compare)
	return sorted
}

// mostSuitable is the allocation that the strategies share which count shards.
func mostSuitable(v View) sharding.NodeID { return best(v, Compare) }

// best returns the candidate that comes first in an order of suitability.
func best(v View, compare func(a, b *Region) int) sharding.NodeID {
	var found *Region
	n, first := len(v.Regions), v.first(len(v.Regions))
	for i := range n {
		r := &v.Regions[(first+i)%n]
		if r.candidate() && (found == nil || compare(r, found) < 0) {
			found = r
		}
	}
	if found == nil {
		return sharding.NodeID{}
	}
	return found.Node
}

// setOf returns shards as a set.
func setOf(shards []sharding.ShardID) map[sharding.ShardID]bool {
	set := make(map[sharding.ShardID]bool, len(shards))
	for _, s := range shards {
		set[s] = true
	}
	return set
}
