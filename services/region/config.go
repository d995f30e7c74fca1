package region

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/routetable"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// Config configures the cores of a region.
type Config struct {
	Self sharding.NodeID
	Name string // the name of the node, for people
	// Version is the application version of the binary, or empty.
	Version string
	// ShardCores is how many shard cores share the shards: 1 to [MaxShardCores], and
	// not more than the limits allow, see [Config.FitShardCores]. Default 1.
	ShardCores int
	// Turn holds the hosted types and the limits of entity execution. TotalCommands,
	// TotalBytes, TotalLoads and the limit of a type's Passivation are limits of the region,
	// however many shard cores there are. Each shard core has an equal part of these limits:
	// a type's Passivation, TotalResultBytes, RecentIDs, WaitingTurns and Hot. Each shard core has
	// at least ResultBytes of TotalResultBytes, at least one of WaitingTurns, and at least 64
	// entries of Hot. The half-life of Hot is LoadHalfLife.
	Turn turn.Config
	// Wakeups bounds and times the firings of wake-ups. Each shard core has an equal part of
	// Wakes, FailingWakes, BlockedWakes and Firings.
	Wakeups wakeup.Config
	// Purge bounds and times the purges of deleted entities, for all shard cores together.
	Purge purge.Config
	// Sends bounds and times the delivery of sends. Each shard core has an equal part of Sends,
	// Bytes, Deliveries and DeadLetters.
	Sends outbox.Config
	// Starts bounds and paces the starts of remembered entities. Each shard core has an equal part
	// of Wakes, Limit and Failing. If the rate is constant, all shard cores together keep the rate.
	Starts wakeup.StartConfig
	// Watch times the watch of the route table.
	Watch routetable.WatchConfig
	// BufferCommands and BufferBytes bound the commands that wait for the claim of one
	// shard. A claim takes one commit. These commands also count in the limits of Turn for
	// all entities. Defaults 1,000 and 8 MiB.
	BufferCommands int
	BufferBytes    int
	// Replies bounds the memory of replies that are expected or not yet sent. Commands
	// beyond this bound wait with their connection, see [replies.Queue].
	Replies replies.Config
	// KeptWait is how long a moved shard waits for the states of its entities, if its type is
	// volatile and keeps states on moves. After this time, the entities begin empty. Default
	// 1 s: commands wait for the same time, and the coordinator waits only for its HostTimeout
	// of 2 s.
	KeptWait time.Duration
	// KeptBytes bounds the states that the region keeps for the next owners of all shards. Each
	// shard core has an equal part of this bound. The region keeps a state for LeaveTimeout at
	// most. Turn bounds the states of one shard. Default 256 MiB: a region that leaves has freed
	// more memory.
	KeptBytes int
	// Resend is the pause before an unanswered message to the coordinator, or an
	// unanswered claim, is repeated. Default 200 ms.
	Resend time.Duration
	// SuccessorTimeout is how long a region that has released a shard sends HostShard to the
	// successor, if the region hears nothing of the shard. Default 20 s: a region that leaves
	// stays for this time. By then, a coordinator takes care of the shard.
	SuccessorTimeout time.Duration
	// JournalPatience is how long the journal may leave commits, or loads, unanswered. After
	// this time, the region reports that it is cut off, and its journaled shards move. 0: the
	// region never reports. Default 5 s: a failover of the database's network takes less time,
	// and most clients wait longer.
	JournalPatience time.Duration
	// JournalTestAfter is how long no operation may succeed before the region tests the journal.
	// It is also the pause between two reports. At most half of JournalPatience. Default 1 s.
	JournalTestAfter time.Duration
	// JournalRecovery is how long the journal must answer again before the region
	// is given shards. Default 10 s: a connection that comes and goes must not
	// move shards back and forth.
	JournalRecovery time.Duration
	// LoadInterval is the time between two reports of the loads of the shards, and between two
	// measurements of the loads. 0: the region measures nothing. Default 5 s: a move because of
	// load should be right for minutes.
	LoadInterval time.Duration
	// LoadHalfLife is the half-life of measurements: in the rates that are reported, a measurement
	// of this age has half the weight of a new measurement. Default 15 s: a burst of a few seconds
	// moves nothing, and half a minute shows a lasting change.
	LoadHalfLife time.Duration
	// LoadShards is how many shards a report lists one by one: the shards with the most load. A report also
	// lists shards that were among them before, and no longer are, so it lists at most twice as many.
	// Default 256: some more than move at a time. Such a report has 100 kB.
	LoadShards int
	// LoadFull is the number of reports after which a report has all loads, even if the coordinator
	// has taken all reports since the last full report. Default 10.
	LoadFull int
	// The region sends Zone, Labels (sorted by name) and Capacity when it registers, see
	// control.Register. Default none.
	Zone     string
	Labels   []control.Label
	Capacity uint32
	// Crash is how the process that ran before this one has ended, and when; zero: that is not known.
	Crash Crash
	// InspectRows and InspectBytes bound the answer to an operator's question, such as what
	// keeps failing. InspectText bounds each message in the answer, in bytes. Defaults 1,000,
	// 2 MiB and 500: an operator reads no longer page, and 2 MiB are half of the longest answer
	// of a peer.
	InspectRows, InspectBytes, InspectText int
	// InspectLook bounds how many entities a shard core looks at in one step for a list of entities. The
	// step ends after the shard in which the bound was reached. InspectTime is how long a region makes such
	// a list. Then it answers with what it has found, and where the list continues. Defaults 10,000, about a
	// millisecond, and 200 ms, well below coordinator.query_timeout.
	InspectLook int
	InspectTime time.Duration
	// LeaveTimeout is how long a leaving region waits for its shards to be
	// handed off. It covers one drain and the coordinator's slack. Default 20 s.
	LeaveTimeout time.Duration
}

// Crash is how a process of the region has ended, and when.
type Crash struct {
	control.Crash
	At time.Time
}

// DefaultConfig returns the configuration of a region that hosts the given types.
func DefaultConfig(self sharding.NodeID, name string, types ...turn.Type) Config {
	return Config{
		Self:           self,
		Name:           name,
		ShardCores:     1,
		Turn:           turn.DefaultConfig(types...),
		Wakeups:        wakeup.DefaultConfig(),
		Purge:          purge.DefaultConfig(),
		Sends:          outbox.DefaultConfig(),
		Starts:         wakeup.DefaultStartConfig(),
		Watch:          routetable.DefaultWatchConfig(),
		BufferCommands: 1000,
		BufferBytes:    8 << 20,
		Replies:        replies.DefaultConfig(),
		KeptWait:       time.Second,
		KeptBytes:      256 << 20,
		Resend:         200 * time.Millisecond,
		InspectRows:    1000,
		InspectBytes:   2 << 20,
		InspectText:    500,
		InspectLook:    10_000,
		InspectTime:    200 * time.Millisecond,
		LeaveTimeout:   20 * time.Second,

		SuccessorTimeout: 20 * time.Second,

		JournalPatience:  5 * time.Second,
		JournalTestAfter: time.Second,
		JournalRecovery:  10 * time.Second,

		LoadInterval: 5 * time.Second,
		LoadHalfLife: 15 * time.Second,
		LoadShards:   256,
		LoadFull:     10,
	}
}

// MaxKeptWait is the longest KeptWait. If a region does not serve a shard within two seconds, a
// coordinator gives the shard to another region. The states that the first region has fetched are
// then lost.
const MaxKeptWait = 1500 * time.Millisecond

// MaxLoadInterval is the longest LoadInterval. For a coordinator, a report counts for a minute
// (coordinator.Config.LoadReport). Two reports may get lost in this time.
const MaxLoadInterval = 20 * time.Second

// MaxShardCores is the largest number of shard cores of a region.
const MaxShardCores = 64

// CoreOf returns the index of the shard core to which a shard belongs: the shard's index modulo the number of
// cores. In the same way, the lane of a shard on a link is the shard's index modulo the number of lanes. So
// the commands of one lane are for few cores, and the commands of one type are for all cores.
func (c *Config) CoreOf(id sharding.ShardID) int { return int(id.Index % uint32(c.ShardCores)) }

// largestCommand is more bytes than any command takes with its names and ids.
const largestCommand = 2 * sharding.MaxPayload

// budgets returns the bounds that the shard cores share, as they are divided at the beginning.
func (c *Config) budgets() [resources]budget {
	return [resources]budget{
		ResourceCommands: newBudget(ordinary(c.Turn.TotalCommands), c.ShardCores, 1),
		ResourceBytes:    newBudget(ordinary(c.Turn.TotalBytes), c.ShardCores, largestCommand),
		ResourceLoads:    newBudget(ordinary(c.Turn.TotalLoads), c.ShardCores, 1),
	}
}

// ordinary returns the part of a bound that is not reserved for commands with a chain.
func ordinary(total int) int { return total - total/turn.ReservedShare }

// reserves returns the part of each reserve that each shard core has.
func (c *Config) reserves() [resources]int {
	part := func(total int) int { return total / turn.ReservedShare / c.ShardCores }
	return [resources]int{
		ResourceCommands: part(c.Turn.TotalCommands), ResourceBytes: part(c.Turn.TotalBytes), ResourceLoads: part(c.Turn.TotalLoads),
	}
}

// mostShardCores is how many shard cores can share the limits of Turn for all entities:
// one for every five commands and loads, and for the bytes of the five largest commands.
// With more a core could do little beside one large command.
func (c *Config) mostShardCores() int {
	return min(MaxShardCores, mostCores(ordinary(c.Turn.TotalCommands), 1), mostCores(ordinary(c.Turn.TotalBytes), largestCommand), mostCores(ordinary(c.Turn.TotalLoads), 1))
}

// FitShardCores lowers ShardCores to what the limits of Turn for all entities allow: a
// small limit is no mistake because the machine has many processors.
func (c *Config) FitShardCores() { c.ShardCores = min(c.ShardCores, c.mostShardCores()) }

// Validate refuses a configuration that cannot work, naming every field.
func (c *Config) Validate() error {
	var errs []error
	if c.Self.Addr == "" || c.Self.UID == 0 {
		errs = append(errs, errors.New("region: Self needs an address and a uid"))
	}
	if most := c.mostShardCores(); c.ShardCores < 1 || c.ShardCores > most {
		errs = append(errs, fmt.Errorf("region: ShardCores is %d, must be 1 to %d: at most %d, and not more than TotalCommands, TotalBytes and TotalLoads allow", c.ShardCores, most, MaxShardCores))
	}
	if c.BufferCommands <= 0 || c.BufferBytes <= 0 {
		errs = append(errs, errors.New("region: BufferCommands and BufferBytes must be above 0"))
	}
	if c.KeptWait <= 0 || c.KeptWait > MaxKeptWait || c.KeptBytes <= 0 {
		errs = append(errs, fmt.Errorf("region: KeptWait is %s, must be above 0 and at most %s, and KeptBytes must be above 0", c.KeptWait, MaxKeptWait))
	}
	if c.InspectRows <= 0 || c.InspectBytes <= 0 || c.InspectText <= 0 || c.InspectLook <= 0 || c.InspectTime <= 0 {
		errs = append(errs, errors.New("region: InspectRows, InspectBytes, InspectText, InspectLook and InspectTime must be above 0"))
	}
	if c.Resend <= 0 || c.SuccessorTimeout < c.Resend {
		errs = append(errs, errors.New("region: Resend must be above 0, and SuccessorTimeout not below it"))
	}
	if c.JournalPatience < 0 || c.JournalTestAfter <= 0 || c.JournalRecovery <= 0 {
		errs = append(errs, errors.New("region: JournalPatience must not be negative, JournalTestAfter and JournalRecovery must be above 0"))
	} else if c.JournalPatience > 0 && 2*c.JournalTestAfter > c.JournalPatience {
		errs = append(errs, fmt.Errorf("region: JournalTestAfter %s must be at most half of JournalPatience %s, or one lost answer looks like silence", c.JournalTestAfter, c.JournalPatience))
	}
	if c.LoadInterval < 0 || c.LoadInterval > MaxLoadInterval {
		errs = append(errs, fmt.Errorf("region: LoadInterval is %s, must be 0 (nothing is measured) to %s", c.LoadInterval, MaxLoadInterval))
	}
	if c.LoadHalfLife <= 0 || c.LoadShards <= 0 || c.LoadFull <= 0 {
		errs = append(errs, errors.New("region: LoadHalfLife, LoadShards and LoadFull must be above 0"))
	}
	if c.LeaveTimeout <= c.Turn.DrainTimeout {
		errs = append(errs, fmt.Errorf("region: LeaveTimeout %s must be above DrainTimeout %s, or leaving cuts drains short", c.LeaveTimeout, c.Turn.DrainTimeout))
	}
	return errors.Join(append(errs, c.Replies.Validate(), c.Watch.Validate(), c.Turn.Validate(), c.Wakeups.Validate(), c.Purge.Validate(), c.Starts.Validate(), c.Sends.Validate())...)
}

// passivationOfCore is the strategy for the entities of one type in a shard core. Each core
// has an equal part of the limit.
func (c *Config) passivationOfCore(s passivation.Strategy) passivation.Strategy {
	if s.Limit > 0 {
		s.Limit = max(1, s.Limit/c.ShardCores)
	}
	return s
}

// wakeupsOfCore is the part of Wakeups that a shard core has.
func (c *Config) wakeupsOfCore(index int) wakeup.Config {
	w := c.Wakeups
	w.FailingWakes = max(1, w.FailingWakes/c.ShardCores)
	w.BlockedWakes = max(1, w.BlockedWakes/c.ShardCores)
	w.Wakes = max(w.FailingWakes+w.BlockedWakes+w.Page, w.Wakes/c.ShardCores)
	w.Firings = max(1, w.Firings/c.ShardCores)
	w.Seed += uint64(index)
	return w
}

// startsOfCore is the part of Starts that a shard core has.
func (c *Config) startsOfCore(index int) wakeup.StartConfig {
	s := c.Starts
	s.Limit, s.Failing = max(1, s.Limit/c.ShardCores), max(1, s.Failing/c.ShardCores)
	s.Wakes = max(s.Page, s.Wakes/c.ShardCores)
	s.Frequency *= time.Duration(c.ShardCores)
	s.Seed += uint64(index)
	return s
}
