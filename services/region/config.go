package region

import (
	"errors"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/routetable"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// Config configures the cores of a region. Its keys are complete: it has the prefixes of the settings of the
// libraries that a region is made of.
type Config struct {
	Self sharding.NodeID
	Name string // the name of the node, for people
	// Version is the application version of the binary, or empty.
	Version string
	// ShardCores is the number of shard cores that share the shards: 1 to [MaxShardCores], and not
	// more than the limits allow, see [Config.FitShardCores]. Default 1.
	ShardCores int `key:"region.shard_cores" unit:"shard cores" range:"1..64" help:"number of shard cores, among which the shards of this process are divided. The default is a quarter of the processors, at least 1 and at most 64. A shard core does the work outside of entities (admission, mailboxes, deduplication, gates) for its shards, in one thread at a time. More than one core helps only if this work keeps many processors busy. All cores share the limits of the region. If the share of one core would be less than 5 commands, 10MiB of commands or 5 loads, the region uses fewer cores" expert:"true"`
	// Turn holds the hosted types and the limits of entity execution. TotalCommands,
	// TotalBytes, TotalLoads and the limit of a type's Passivation are limits of the region,
	// however many shard cores there are. Each shard core has an equal part of these limits:
	// a type's Passivation, TotalResultBytes, RecentIDs, WaitingTurns and Hot. Each shard core has
	// at least ResultBytes of TotalResultBytes, at least one of WaitingTurns, and at least 64
	// entries of Hot. The half-life of Hot is LoadHalfLife.
	Turn turn.Config `key:"region"`
	// Wakeups bounds and times the firings of wake-ups. Each shard core has an equal part of
	// Wakes, FailingWakes, BlockedWakes and Firings.
	Wakeups wakeup.Config `key:"region.reminders" expert:"true"`
	// Purge bounds and times the purges of deleted entities, for all shard cores together.
	Purge purge.Config `key:"region.purge" expert:"true"`
	// Sends bounds and times the delivery of sends. Each shard core has an equal part of Sends,
	// Bytes, Deliveries and DeadLetters.
	Sends outbox.Config `key:"region.sends"`
	// Starts bounds and paces the starts of remembered entities. Each shard core has an equal part
	// of Wakes, Limit and Failing. If the rate is constant, all shard cores together keep the rate.
	Starts wakeup.StartConfig `key:"region.remember"`
	// Watch times the watch of the route table.
	Watch routetable.WatchConfig
	// BufferCommands and BufferBytes bound the commands that wait for the claim of one
	// shard. A claim takes one commit. These commands also count in the limits of Turn for
	// all entities. Defaults 1,000 and 8 MiB.
	BufferCommands int `range:"1.."`
	BufferBytes    int `range:"1.."`
	// Replies bounds the memory of replies that are expected or not yet sent. Commands
	// beyond this bound wait with their connection, see [replies.Queue].
	Replies replies.Config `key:"region" expert:"true"`
	// KeptWait is the time that a moved shard waits for the states of its entities, if its type is
	// volatile and keeps states on moves. After this time, the entities begin empty. Default 1 s:
	// commands wait for the same time, and the coordinator waits only for its HostTimeout of 2 s.
	KeptWait time.Duration `key:"region.kept_wait" range:">0..1500ms" why:"a shard that is not served for longer goes to another region" help:"for volatile types with KeepOnMoves: longest wait of a moved shard, and of its commands, for the states that the previous owner kept. After this time, the entities begin empty" expert:"true"`
	// KeptBytes bounds the states that the region keeps for the next owners of all shards. Each
	// shard core has an equal part of this bound. The region keeps a state for LeaveTimeout at
	// most. Turn bounds the states of one shard. Default 256 MiB: a region that leaves has freed
	// more memory.
	KeptBytes setting.Bytes `key:"region.kept_bytes" range:">0" help:"for volatile types with KeepOnMoves: the largest total size of the states that this region keeps for the next owners of its shards. The region keeps a state until the next owner fetches it, but at most for region.leave_timeout. If there is no room for the states of a shard, its entities begin empty at the next owner" expert:"true"`
	// Resend is the pause before an unanswered message to the coordinator, or an
	// unanswered claim, is repeated. Default 200 ms.
	Resend time.Duration `range:">0"`
	// SuccessorTimeout is the time that a region that has released a shard sends HostShard to the
	// successor, if the region learns nothing about the shard. Default 20 s: a region that leaves
	// stays for this time. By then, a coordinator takes care of the shard.
	SuccessorTimeout time.Duration
	// JournalPatience is the longest time that the journal may leave commits, or loads, unanswered.
	// After this time, the region reports that it is cut off, and its journaled shards move. 0: the
	// region never reports. Default 5 s: a failover of the database's network takes less time, and
	// most clients wait longer.
	JournalPatience time.Duration `key:"journal.patience" range:"0.." help:"longest time that the journal may leave commits, or loads, unanswered. After this time, the region counts as cut off from the journal: the region is not ready, and its journaled shards move to other regions. 0: the region never counts as cut off"`
	// JournalTestAfter is the time without a successful operation before the region tests the
	// journal. It is also the pause between two reports. If it is more than half of
	// JournalPatience, that is used instead: one lost answer must not look like silence. Default
	// 1 s.
	JournalTestAfter time.Duration `range:">0"`
	// JournalRecovery is the time that the journal must answer again before the region is given
	// shards. Default 10 s: a connection that comes and goes must not move shards back and forth.
	JournalRecovery time.Duration `key:"journal.recovery" range:">0" help:"time that the journal must answer again before a region that was cut off from the journal is given shards again" expert:"true"`
	// LoadInterval is the time between two reports of the loads of the shards, and between two
	// measurements of the loads. 0: the region measures nothing. Default 5 s: a move because of
	// load should be right for minutes.
	LoadInterval time.Duration `key:"region.load_interval" range:"0..20s" why:"a report counts for a minute, and two may get lost" help:"time between two reports of the load of this region's shards (handler time, memory and so on). Coordinators with allocation.strategy load, and roost cluster status, use the reports. 0: the region neither measures nor reports load. See docs/running/placement.md" expert:"true"`
	// LoadHalfLife is the half-life of measurements: in the rates that are reported, a measurement
	// of this age has half the weight of a new measurement. Default 15 s: a burst of a few seconds
	// moves nothing, and half a minute shows a lasting change.
	LoadHalfLife time.Duration `key:"region.load_half_life" range:">0" help:"half-life of load measurements. In the reported rates of a shard, a measurement of this age has half the weight of a new measurement" expert:"true"`
	// LoadShards is the number of shards that a report lists one by one: the shards with the most load. A
	// report also lists shards that were among them before, and no longer are, so it lists at most twice as
	// many. Default 256: some more than move at a time. Such a report has 100 kB.
	LoadShards int `range:"1.."`
	// LoadFull is the number of reports after which a report has all loads, even if the coordinator
	// has taken all reports since the last full report. Default 10.
	LoadFull int `range:"1.."`
	// The region sends Zone, Labels (sorted by name) and Capacity when it registers, see
	// control.Register. Default none.
	Zone     string
	Labels   []control.Label
	Capacity uint32 `key:"region.capacity" unit:"shards" range:"0..1000000" help:"the most shards, of all types together, that this region should have. The region is given more shards only if no other region has room for them. If all regions have a capacity, zones share the shards of a type in proportion to the capacities of their regions. 0: the number of shards is not limited"`
	// Crash is how the process that ran before this one has ended, and when; zero: that is not known.
	Crash Crash
	// InspectRows and InspectBytes bound the answer to an operator's question, such as what
	// keeps failing. InspectText bounds each message in the answer, in bytes. Defaults 1,000,
	// 2 MiB and 500: an operator reads no longer page, and 2 MiB are half of the longest answer
	// of a peer.
	InspectRows  int `range:"1.."`
	InspectBytes int `range:"1.."`
	InspectText  int `range:"1.."`
	// InspectLook bounds the entities that a shard core looks at in one step for a list of entities. The
	// step ends after the shard in which the bound was reached. InspectTime bounds the time that a region
	// makes such a list. Then it answers with the entities found so far, and the position at which the list
	// continues. Defaults 10,000, about a millisecond, and 200 ms, well below coordinator.query_timeout.
	InspectLook int           `range:"1.."`
	InspectTime time.Duration `range:">0"`
	// LeaveTimeout is the time that a leaving region waits for its shards to be handed off. It
	// covers one drain and the coordinator's slack. Default 20 s.
	LeaveTimeout time.Duration `key:"region.leave_timeout" help:"longest time that a stopping region waits until its shards have been handed off. After this time, the region stops even if it still has shards"`
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

// MaxShardCores is the largest number of shard cores of a region.
const MaxShardCores = 64

// CoreOf returns the index of a shard's core: the shard's index modulo the number of cores. In the same way,
// the lane of a shard on a link is the shard's index modulo the number of lanes. So the commands of one lane
// are for few cores, and the commands of one type are for all cores.
func (c *Config) CoreOf(id sharding.ShardID) int { return int(id.Index % uint32(c.ShardCores)) }

// largestCommand is more bytes than any command takes with its names and ids.
const largestCommand = 2 * sharding.MaxPayload

// budgets returns the bounds that the shard cores share, as they are divided at the beginning.
func (c *Config) budgets() [resources]budget {
	return [resources]budget{
		ResourceCommands: newBudget(ordinary(c.Turn.TotalCommands), c.ShardCores, 1),
		ResourceBytes:    newBudget(ordinary(int(c.Turn.TotalBytes)), c.ShardCores, largestCommand),
		ResourceLoads:    newBudget(ordinary(c.Turn.TotalLoads), c.ShardCores, 1),
	}
}

// ordinary returns the part of a bound that is not reserved for commands with a chain.
func ordinary(total int) int { return total - total/turn.ReservedShare }

// reserves returns the part of each reserve that each shard core has.
func (c *Config) reserves() [resources]int {
	part := func(total int) int { return total / turn.ReservedShare / c.ShardCores }
	return [resources]int{
		ResourceCommands: part(c.Turn.TotalCommands), ResourceBytes: part(int(c.Turn.TotalBytes)), ResourceLoads: part(c.Turn.TotalLoads),
	}
}

// mostShardCores returns the number of shard cores that can share the limits of Turn for all
// entities: one for every five commands and loads, and for the bytes of the five largest commands.
// With more, a core could do little in addition to one large command.
func (c *Config) mostShardCores() int {
	return min(MaxShardCores, mostCores(ordinary(c.Turn.TotalCommands), 1), mostCores(ordinary(int(c.Turn.TotalBytes)), largestCommand), mostCores(ordinary(c.Turn.TotalLoads), 1))
}

// FitShardCores lowers ShardCores to what the limits of Turn for all entities allow: a small limit
// does not become a mistake because the machine has many processors.
func (c *Config) FitShardCores() {
	if c.ShardCores <= MaxShardCores { // otherwise it is a mistake
		c.ShardCores = min(c.ShardCores, c.mostShardCores())
	}
}

// journalTestAfter returns JournalTestAfter, or half of JournalPatience if that is less.
func (c *Config) journalTestAfter() time.Duration {
	if c.JournalPatience == 0 {
		return c.JournalTestAfter
	}
	return min(c.JournalTestAfter, c.JournalPatience/2)
}

// Validate refuses a configuration that cannot work, naming every setting and field. It does not look at Self, which a
// process knows later than its settings.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	bad := func(key setting.Key, format string, args ...any) {
		errs = append(errs, setting.Errorf(key, format, args...))
	}
	if most := c.mostShardCores(); c.ShardCores > most && c.ShardCores <= MaxShardCores {
		bad("region.shard_cores", "is %d, must be at most %d, among which %s, %s and %s can be divided", c.ShardCores, most, setting.Key("region.commands"), setting.Key("region.command_bytes"), setting.Key("region.loads"))
	}
	if c.SuccessorTimeout < c.Resend {
		errs = append(errs, errors.New("region: SuccessorTimeout must not be below Resend"))
	}
	if c.LeaveTimeout <= c.Turn.DrainTimeout {
		bad("region.leave_timeout", "is %s, must be above %s (%s), or leaving cuts drains short", c.LeaveTimeout, setting.Key("region.drain_timeout"), c.Turn.DrainTimeout)
	}
	return errors.Join(errs...)
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
	w := c.Wakeups.Derived()
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
