package allocation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Status is the membership status of a region's node, as far as placement is
// concerned.
type Status uint8

// Up is the zero value, so that a view of a calm cluster need not name it.
const (
	Up Status = iota
	Joining
	WeaklyUp
	Leaving
	Exiting
	Down
)

// String is the status in words.
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

// Going reports whether a node of this status is on its way out.
func (s Status) Going() bool { return s == Leaving || s == Exiting || s == Down }

// Region is one region that hosts the view's entity type.
type Region struct {
	Node   sharding.NodeID
	Status Status
	// Unreachable says that the region is suspected to be gone.
	Unreachable bool
	// Version is the version of the user's application in the region.
	Version Version
	// Shards are the shards of the view's type that the region owns or is
	// about to own, in the order in which they were allocated to it.
	Shards []sharding.ShardID
}

// candidate reports whether a shard may be given to the region.
func (r *Region) candidate() bool { return !r.Status.Going() && !r.Unreachable }

// View is what a strategy may know about one entity type.
type View struct {
	// Regions that host the type. Their order decides ties.
	Regions []Region
	// Unsettled forbids any rebalance for a reason that the regions do not
	// show, such as another member that is joining or unreachable.
	Unsettled bool
}

// Settled reports whether a rebalance makes sense at all: there is a region, all
// regions run the same app version (in a rolling update everything moves
// anyway), none is unreachable (its shards are about to be placed anew) or
// still joining (it is about to change the average), and the caller has no
// reason of its own. Every strategy asks this first.
func (v View) Settled() bool {
	if v.Unsettled || len(v.Regions) == 0 {
		return false
	}
	for i := range v.Regions {
		r := &v.Regions[i]
		if r.Unreachable || r.Status == Joining || r.Status == WeaklyUp {
			return false
		}
		if r.Version.Compare(v.Regions[0].Version) != 0 {
			return false
		}
	}
	return true
}

// Strategy decides where shards go. Both functions are pure: same arguments,
// same answer; they neither change nor keep their arguments.
type Strategy interface {
	// Allocate picks the region for a shard that has none. The zero NodeID
	// says that no region of the view can take it; ask again when the view has
	// changed. Regions that are leaving, down or unreachable are never picked.
	// A caller that wants the shard elsewhere leaves a region out of the view.
	Allocate(view View, shard sharding.ShardID) sharding.NodeID
	// Rebalance picks shards to hand off, to be allocated anew as soon as they
	// have stopped. inFlight are the shards of the type that are already on
	// the move (handing off or starting); none of them is returned.
	Rebalance(view View, inFlight []sharding.ShardID) []sharding.ShardID
}

// The names of the strategies.
const (
	NameLeastShards = "least-shards"
	NameThreshold   = "threshold"
)

// ErrConfig is wrapped by every refusal of a Config or a version.
var ErrConfig = errors.New("bad allocation config")

// Config names a strategy and holds the limits of all of them; each reads its own.
// Errors name the keys that the coordinator has for the fields.
type Config struct {
	// Strategy is one of the names above. Default least-shards.
	Strategy string `key:"allocation.strategy" help:"what decides which shards move: least-shards, or threshold, which moves a few at a time"`
	// RelativeLimit is the largest part of a type's shards that LeastShards
	// moves in one round, in (0, 1]. Default 0.25: a fourth region has its share
	// in one round.
	RelativeLimit float64 `key:"allocation.relative_limit" help:"with least-shards, the largest part of a type's shards that moves in one round"`
	// AbsoluteLimit is the largest number of shards of a type that LeastShards
	// moves in one round. Default 256: a round of hand-offs stays short however
	// many shards there are.
	AbsoluteLimit int `key:"allocation.absolute_limit" unit:"shards" help:"with least-shards, the most shards of a type that move in one round"`
	// Threshold is the difference in shards that the strategy of that name
	// tolerates, and the most it moves at once. Default 1.
	Threshold int `key:"allocation.threshold" unit:"shards" help:"with threshold, the difference between two regions that is tolerated, and the most shards of a type that begin to move at once"`
	// MaxSimultaneous is the number of shards of a type that Threshold keeps
	// on the move. Default 3.
	MaxSimultaneous int `key:"allocation.max_simultaneous" unit:"shards" help:"with threshold, the most shards of a type that are on the move"`
}

// DefaultConfig returns the defaults named at the fields.
func DefaultConfig() Config {
	return Config{Strategy: NameLeastShards, RelativeLimit: 0.25, AbsoluteLimit: 256, Threshold: 1, MaxSimultaneous: 3}
}

// Validate names every key whose value makes no sense, and what would.
func (c Config) Validate() error {
	var errs []error
	if c.Strategy != NameLeastShards && c.Strategy != NameThreshold {
		errs = append(errs, fmt.Errorf("%w: allocation.strategy is %q; use %q or %q", ErrConfig, c.Strategy, NameLeastShards, NameThreshold))
	}
	if !(c.RelativeLimit > 0 && c.RelativeLimit <= 1) {
		errs = append(errs, fmt.Errorf("%w: allocation.relative_limit is %v, must be above 0 and at most 1", ErrConfig, c.RelativeLimit))
	}
	for _, f := range []struct {
		key   string
		value int
	}{
		{"allocation.absolute_limit", c.AbsoluteLimit}, {"allocation.threshold", c.Threshold},
		{"allocation.max_simultaneous", c.MaxSimultaneous},
	} {
		if f.value < 1 {
			errs = append(errs, fmt.Errorf("%w: %s is %d, must be at least 1", ErrConfig, f.key, f.value))
		}
	}
	return errors.Join(errs...)
}

// New makes the strategy that a config names. It is the one place where they are
// listed.
func New(c Config) (Strategy, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Strategy == NameThreshold {
		return Threshold{Threshold: c.Threshold, MaxSimultaneous: c.MaxSimultaneous}, nil
	}
	return LeastShards{RelativeLimit: c.RelativeLimit, AbsoluteLimit: c.AbsoluteLimit}, nil
}

// Compare orders two regions by suitability, negative if a is better. When
// their statuses differ, only leaving or not decides: two different healthy
// statuses are equal whatever the shard counts (a region that is not Up yet is
// neither preferred nor avoided).
func Compare(a, b *Region) int {
	if a.Status != b.Status {
		return compareBool(a.Status.Going(), b.Status.Going())
	}
	return cmp.Or(b.Version.Compare(a.Version), cmp.Compare(len(a.Shards), len(b.Shards)))
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

// bySuitability lists the regions best first; equal ones keep their order.
func bySuitability(regions []Region) []*Region {
	sorted := make([]*Region, len(regions))
	for i := range regions {
		sorted[i] = &regions[i]
	}
	slices.SortStableFunc(sorted, Compare)
	return sorted
}

// mostSuitable is the allocation that all strategies here share.
func mostSuitable(v View) sharding.NodeID {
	var best *Region
	for i := range v.Regions {
		r := &v.Regions[i]
		if r.candidate() && (best == nil || Compare(r, best) < 0) {
			best = r
		}
	}
	if best == nil {
		return sharding.NodeID{}
	}
	return best.Node
}
