package allocation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
)

// The names of the strategies.
const (
	NameLeastShards       = "least-shards"
	NameThreshold         = "threshold"
	NameConsistentHashing = "consistent-hashing"
	NameExternal          = "external"
	NameLoad              = "load"
)

// Names lists the strategies that [New] knows.
var Names = []string{NameLeastShards, NameThreshold, NameConsistentHashing, NameExternal, NameLoad}

// ErrConfig is wrapped by every error about a Config.
var ErrConfig = errors.New("bad allocation config")

// Config names a strategy and has the limits of all of them; each uses its own.
// Its tags are settings of the coordinator, see package setting.
type Config struct {
	// Strategy is one of the names above. Default least-shards.
	Strategy string `key:"strategy" help:"strategy that decides which region gets a shard, and which shards move. least-shards: evens out the numbers of shards. threshold: evens out the numbers too, but moves a few shards at a time. consistent-hashing: puts shards of all types with the same index on one region. load: evens out the load that shards cause. external: a program decides, by pinning shards"`
	// Own holds custom strategies, by the further names that Strategy may have. The program of a
	// coordinator registers them; they are not configured.
	Own map[string]Strategy
	// OwnFailed is called when one of Own has panicked, or has chosen a region that it was not shown. It may
	// be called by several goroutines. nil: failures are not reported.
	OwnFailed func(strategy, what string)
	// RelativeLimit is the largest part of a type's shards that LeastShards
	// moves in one round, in (0, 1]. Default 0.25: a fourth region has its share
	// in one round.
	RelativeLimit float64 `key:"relative_limit" range:">0..1" help:"with least-shards, the largest part (above 0, at most 1) of a type's shards that moves in one round"`
	// AbsoluteLimit is the largest number of shards of a type that LeastShards,
	// ConsistentHashing and LeastLoad move in one round. Default 256: a round of hand-offs stays short however
	// many shards there are.
	AbsoluteLimit int `key:"absolute_limit" range:"1.." unit:"shards" help:"with least-shards, consistent-hashing and load, the most shards of a type that move for balance in one round"`
	// Threshold is the difference in shards that the strategy of that name
	// tolerates, and the most it moves at once. Default 1.
	Threshold int `key:"threshold" range:"1.." unit:"shards" help:"with threshold, the largest difference in shards between two regions that the strategy tolerates. The number is also the most shards of a type that begin to move at once"`
	// MaxSimultaneous is the number of shards of a type that Threshold keeps
	// on the move. Default 3.
	MaxSimultaneous int `key:"max_simultaneous" range:"1.." unit:"shards" help:"with threshold, the most shards of a type that are moving at a time"`

	// VirtualNodes is the number of points that each region has on the ring of ConsistentHashing.
	// Default 100: the parts of regions then differ by a tenth; with the 10 of Akka, by a third.
	VirtualNodes int `key:"virtual_nodes" range:"1..10000" why:"each of them is computed whenever a shard is allocated" unit:"points" help:"with consistent-hashing, the number of points that each region has on the ring. With more points, the regions have more equal parts, but each choice of a region is slower" expert:"true"`
	// BoundedLoad is the excess over the average number of a type's shards that a region may get by
	// ConsistentHashing, as a part of the average, in [0, 10]; 0: there is no bound. Default 0.25:
	// few shards are not at their first region, and none has much more than the others.
	BoundedLoad float64 `key:"bounded_load" range:"0..10" help:"with consistent-hashing, how far the shards of a type at one region may exceed the average, as a part of the average (0.25: by a quarter). The next region on the ring gets further shards. 0: not limited, so that shards with the same index are always at one region" expert:"true"`

	// LoadTolerance is the load above the average that a region may have before LeastLoad moves
	// shards, as a part of the average, in (0, 10]. Default 0.1: finer than measured loads of
	// shards hold for the next minute.
	LoadTolerance float64 `key:"tolerance" range:">0..10" help:"with load, how far the load of a region may exceed the average before shards move, as a part of the average (0.1: by a tenth)"`
	// LoadHysteresis is the distance below the tolerated load that a region is brought to, as a
	// part of the average, in [0, LoadTolerance]. Default 0.05: half of the tolerance is left for
	// changes.
	LoadHysteresis float64 `key:"hysteresis" range:"0.." help:"with load, how far below the tolerated load the strategy brings an overloaded region, as a part of the average. At most {.tolerance}" expert:"true"`
	// LoadFloor is the load above the average, in processors, that is always tolerated.
	// Default 0.05: an idle cluster is left alone, whatever part of nearly nothing a
	// region has.
	LoadFloor float64 `key:"floor" range:"0..1000000" unit:"processors" help:"with load, the load above the average that the strategy always tolerates" expert:"true"`
	// LoadCooldown is the time that a shard that has moved does not move again because of its load.
	// Default 5 min: a new owner's caches are warm and its load is measured, and no shard follows a
	// load that comes and goes.
	LoadCooldown time.Duration `key:"cooldown" range:"0.." help:"with load, minimum time between the arrival of a shard at a region and its next move because of load. For the same time after a coordinator has become active, no shard moves because of load" expert:"true"`
	// LoadMoveMiB is the largest size of entities in memory whose shards, of one type, are on the move
	// at a time when the strategy adds a shard to them. A shard may move alone whatever its size.
	// Default 1024: what is loaded again in a few seconds.
	LoadMoveMiB int `key:"move_mib" range:"1.." unit:"MiB" help:"with load, the strategy moves a further shard of a type only if the entities in memory of all its shards on the move then have at most this size. A single shard may move whatever its size" expert:"true"`
	// LoadCommand is the processor time that a command costs besides its handler.
	// Default 20 µs: what routing, its record and its answer take.
	LoadCommand time.Duration `key:"command_cost" range:"0.." help:"with load, the processor time that each command counts in addition to the time of its handler" expert:"true"`
	// LoadJournalMiB is the number of processors that 1 MiB per second of journal counts as.
	// Default 0.01: 100 MiB/s are as much as a processor.
	LoadJournalMiB float64 `key:"journal_weight" range:"0..1000000" unit:"processors" help:"with load, the number of processors as which 1MiB of journal records per second counts" expert:"true"`
	// LoadEntities is the number of processors that a million entities in memory count as. Default
	// 0.1.
	LoadEntities float64 `key:"entity_weight" range:"0..1000000" unit:"processors" help:"with load, the number of processors as which a million entities in memory count" expert:"true"`
	// LoadGiB is the number of processors that 1 GiB of entities in memory counts as. Default 0.25:
	// machines have about 4 GiB for each processor.
	LoadGiB float64 `key:"memory_weight" range:"0..1000000" unit:"processors" help:"with load, the number of processors as which 1GiB of entities in memory counts. Only entities that report their size count" expert:"true"`
	// LoadWaiting is the number of processors that a command waiting in a mailbox counts as. Default 0.1: handlers
	// show that a region is busy, and its queue by how much it is too busy. Below four fifths of the processors
	// hardly a command waits, so that nothing changes. Just below all of them, about ten commands wait for each
	// running one, which then counts twice. More are not counted, see sharding.Load.Counted.
	LoadWaiting float64 `key:"waiting_weight" range:"0..1000000" unit:"processors" help:"with load, the number of processors as which a command that waits in a mailbox counts, for at most ten waiting commands per processor of other load. Such load makes shards leave a region, but they go only to regions with less other load. 0: not counted" expert:"true"`
	// LoadGC is the part of the processor time of garbage collection that a region's shards cannot use. Default 0:
	// between two collections it is measured too roughly for regions that collect rarely.
	LoadGC float64 `key:"gc_weight" range:"0..1" help:"with load, the part of the processors collecting garbage that is subtracted from a region's processors. At most half of the region's processors are subtracted. 1: all that collect garbage. 0: none" expert:"true"`
}

// DefaultConfig returns the defaults named at the fields.
func DefaultConfig() Config {
	return Config{
		Strategy: NameLeastShards, RelativeLimit: 0.25, AbsoluteLimit: 256, Threshold: 1, MaxSimultaneous: 3,
		VirtualNodes: 100, BoundedLoad: 0.25,
		LoadTolerance: 0.1, LoadHysteresis: 0.05, LoadFloor: 0.05, LoadCooldown: 5 * time.Minute, LoadMoveMiB: 1024,
		LoadCommand: 20 * time.Microsecond, LoadJournalMiB: 0.01, LoadEntities: 0.1, LoadGiB: 0.25,
		LoadWaiting: 0.1,
	}
}

// Weights returns the weights that convert loads to processors.
func (c Config) Weights() Weights {
	return Weights{
		Command: c.LoadCommand.Seconds(), JournalMiB: c.LoadJournalMiB, Entities: c.LoadEntities, GiB: c.LoadGiB,
		Waiting: c.LoadWaiting, GC: c.LoadGC,
	}
}

// Validate returns an error that names every invalid key and how to correct it.
func (c Config) Validate() error {
	errs := []error{setting.Ranges(&c)}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	names := slices.Concat(Names, slices.Sorted(maps.Keys(c.Own)))
	if !slices.Contains(names, c.Strategy) {
		bad("strategy", "is %q; use one of %s", c.Strategy, strings.Join(names, ", "))
	}
	for _, name := range names[len(Names):] {
		switch {
		case name == "" || strings.ContainsAny(name, " ,=\t\n"):
			bad("strategy", "cannot name a strategy of this coordinator that is registered as %q; choose a name without spaces, commas and equals signs", name)
		case slices.Contains(Names, name):
			bad("strategy", "cannot name a strategy of this coordinator that is registered as %q, which is one of Roost's; choose another name", name)
		case c.Own[name] == nil:
			bad("strategy", "cannot name the strategy %q of this coordinator, which is nil; register a value", name)
		}
	}
	if !(c.LoadHysteresis <= c.LoadTolerance) {
		bad("hysteresis", "is %v, must be at most %s (%v): below the average there is no room", c.LoadHysteresis, setting.Key("tolerance"), c.LoadTolerance)
	}
	return setting.Wrap(ErrConfig, errors.Join(errs...))
}

// New returns the strategy that a config names. All strategies of Roost are listed here.
func New(c Config) (Strategy, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if own := c.Own[c.Strategy]; own != nil {
		return ownStrategy{own, c.Strategy, c.OwnFailed}, nil
	}
	switch c.Strategy {
	case NameThreshold:
		return Threshold{Threshold: c.Threshold, MaxSimultaneous: c.MaxSimultaneous}, nil
	case NameConsistentHashing:
		return ConsistentHashing{VirtualNodes: c.VirtualNodes, BoundedLoad: c.BoundedLoad, AbsoluteLimit: c.AbsoluteLimit}, nil
	case NameExternal:
		return External{}, nil
	case NameLoad:
		return LeastLoad{
			Tolerance: c.LoadTolerance, Hysteresis: c.LoadHysteresis, Floor: c.LoadFloor, Weights: c.Weights(),
			MoveMiB: c.LoadMoveMiB, AbsoluteLimit: c.AbsoluteLimit,
		}, nil
	}
	return LeastShards{RelativeLimit: c.RelativeLimit, AbsoluteLimit: c.AbsoluteLimit}, nil
}

// ownStrategy is a strategy of a program, with the name under which it is registered. Its faults do not end
// the coordinator, nor the next one, which would have the same strategy.
type ownStrategy struct {
	Strategy
	name   string
	failed func(strategy, what string)
}

// Allocate returns what the strategy chooses. If it panics, or chooses a region that is not in the
// view, the shard goes to the region with the fewest: being served comes first.
func (s ownStrategy) Allocate(v View, shard sharding.ShardID) (to sharding.NodeID) {
	defer func() {
		if fault := recover(); fault != nil {
			s.fail("it panicked when a region was to be chosen for %v: %v", shard, fault)
			to = mostSuitable(v)
		}
	}()
	to = s.Strategy.Allocate(v, shard)
	if !to.IsZero() && !slices.ContainsFunc(v.Regions, func(r Region) bool { return r.Node == to }) {
		s.fail("it chose %v for %v, which is not one of the given regions", to, shard)
		return mostSuitable(v)
	}
	return to
}

// Rebalance returns what the strategy names. If it panics, nothing moves.
func (s ownStrategy) Rebalance(v View, inFlight []sharding.ShardID) (shards []sharding.ShardID) {
	defer func() {
		if fault := recover(); fault != nil {
			s.fail("it panicked when it was to name the shards of %v that should move: %v", v.Type, fault)
			shards = nil
		}
	}()
	return s.Strategy.Rebalance(v, inFlight)
}

func (s ownStrategy) fail(format string, args ...any) {
	if s.failed != nil {
		s.failed(s.name, fmt.Sprintf(format, args...))
	}
}

// ByLoad returns the strategy's own answer; false if it panics.
func (s ownStrategy) ByLoad() (by bool) {
	defer func() {
		if fault := recover(); fault != nil {
			s.fail("it panicked when it was asked whether it goes by load: %v", fault)
		}
	}()
	return GoesByLoad(s.Strategy)
}

// GoesByLoad reports whether a strategy moves shards because of their loads, see [ByLoad].
func GoesByLoad(s Strategy) bool {
	by, says := s.(ByLoad)
	return says && by.ByLoad()
}

// NameOf returns the configured name of a strategy, or its type if it has none.
func NameOf(s Strategy) string {
	switch s := s.(type) {
	case ownStrategy:
		return s.name
	case LeastShards:
		return NameLeastShards
	case Threshold:
		return NameThreshold
	case ConsistentHashing:
		return NameConsistentHashing
	case External:
		return NameExternal
	case LeastLoad:
		return NameLoad
	}
	return fmt.Sprintf("%T", s)
}
