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
	Node   sharding.NodeID
	Status Status
	// Unreachable means that a failure detector suspects the region.
	Unreachable bool
	// Shards are the shards of the view's type that the region owns or is
	// about to own, in the order in which they were allocated to it.
	Shards []sharding.ShardID
}

// candidate reports whether a shard may be given to the region.
func (r *Region) candidate() bool { return !r.Status.Going() && !r.Unreachable }

// View is the information that a strategy has about one entity type.
type View struct {
	// Regions are those that host the type. Their order breaks ties.
	Regions []Region
	// Unsettled forbids any rebalance for a reason that the regions do not
	// show, such as another member that is joining or unreachable.
	Unsettled bool
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
	// returned. To avoid a region, the caller leaves it out of the view.
	Allocate(view View, shard sharding.ShardID) sharding.NodeID
	// Rebalance returns shards to hand off, which are then allocated again.
	// inFlight are the shards of the type that are already moving (handing off
	// or starting); none of them is returned.
	Rebalance(view View, inFlight []sharding.ShardID) []sharding.ShardID
}

// The names of the strategies.
const (
	NameLeastShards = "least-shards"
	NameThreshold   = "threshold"
)

// ErrConfig is wrapped by every error about a Config.
var ErrConfig = errors.New("bad allocation config")

// Config names a strategy and has the limits of all of them; each uses its own.
// Errors name the coordinator's configuration keys.
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

// Validate returns an error that names every invalid key and how to correct it.
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

// New returns the strategy that a config names. All strategies are listed here.
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
	return cmp.Compare(len(a.Shards), len(b.Shards))
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
