package coordinator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
	"github.com/roost-cluster/roost/services/coordinator/internal/quarantine"
)

// Config holds the limits of a [Machine]. Start from [DefaultConfig]. Its keys are complete.
type Config struct {
	// Strategy decides which region gets a shard and which shards move. Default: least shards,
	// at most a quarter of a type and 256 shards per round, so that a fourth
	// region has its share of 1024 shards in one round.
	Strategy allocation.Strategy
	// Strategies has, by type, the strategy of each type that has its own strategy. Default: none.
	Strategies map[sharding.EntityType]allocation.Strategy
	// MinRegions is the number of regions that must have registered in this term before the first
	// shard is allocated. Default 1. The limit holds a starting cluster back, but not a running
	// cluster: if a region of an earlier term registers again, allocation begins at once, even if
	// the region owns no shard.
	MinRegions int `key:"coordinator.min_regions" unit:"regions" range:"1.." help:"number of regions that must have registered before the coordinator allocates the first shard"`

	// RecoveryWait is the time that a coordinator of a new term waits for the owners that the facts
	// name. After this time, owners that have not registered count as lost. Default 2 s: several
	// heartbeats, and several attempts to register.
	RecoveryWait time.Duration `range:">0"`
	// Resend is the interval at which HostShard and HandOff are repeated.
	// Default 200 ms: a lost message costs no more than a fast failover.
	Resend time.Duration `range:">0"`
	// HostTimeout is the time that an owner has to claim a shard. After this time, the coordinator
	// allocates the shard elsewhere. If the next owner does not claim the shard either, the time
	// doubles, at most twice. Default 2 s.
	HostTimeout time.Duration `range:">0"`
	// HandoffTimeout is the time after which owners abandon turns that do not end
	// in a handoff. Default 10 s. The regions must have the same value.
	HandoffTimeout time.Duration `key:"coordinator.handoff_timeout" range:">0" help:"time that a region has to hand off a shard. Must be the same as region.drain_timeout"`
	// HandoffSlack is the time after HandoffTimeout that the coordinator waits before it moves a
	// journaled shard without ShardStopped. Default 2 s: the owner begins to count later, and its
	// answer takes time to arrive.
	HandoffSlack time.Duration `range:">0"`
	// JournalReport is the time that a JournalReport counts, the report of a region that it is cut
	// off from the journal. Default 5 s: several repeats may get lost.
	JournalReport time.Duration `range:">0"`
	// JournalFresh is the greatest age of the journal's last answer to this coordinator
	// at which shards of a cut-off region may move. Default 1 s: several requests fit
	// into it, and an operation may take longer before it fails.
	JournalFresh time.Duration `range:">0"`
	// UnhostedAfter is a time without any registered region that hosts a type. After
	// this time, the coordinator tells gateways. From then on, gateways refuse commands
	// of the type at once instead of at their deadline. Default 10 s: a lone region
	// restarts in less time.
	UnhostedAfter time.Duration `key:"coordinator.unhosted_after" range:">0" help:"if no region has hosted an entity type for this time, commands for the type are refused at once instead of at their deadline" expert:"true"`
	// RebalanceInterval is the time between two questions to the strategy. Default 500 ms.
	RebalanceInterval time.Duration `key:"coordinator.rebalance_interval" range:">0" help:"time between two decisions about which shards should move" expert:"true"`
	// LoadCooldown is the time that a shard does not move because of its load after it has come to
	// its owner, and after the beginning of a term. Default 5 min, as in package allocation.
	LoadCooldown time.Duration `range:"0.."`
	// LoadReport is the time that a region's report of its load counts. Default 1 min: several
	// reports may get lost.
	LoadReport time.Duration `range:">0"`
	// RolloutFreeze has two meanings. While regions of several versions are here, nothing
	// moves for balance for this time after a region has come or gone. And if no region
	// has had the target version for this time, and all regions have the same version,
	// that version becomes the target. Default 30 min: a platform takes less time from
	// one region to the next, and a canary still gets its share on the same day.
	RolloutFreeze time.Duration `range:">0"`
	// RolloutShare is the multiple of its fair share of a type's shards that a region of the target
	// version gets in a rollout before others are given shards too. Default 1.5: with one region
	// missing, the regions of the target version still take all shards of the next one that leaves.
	RolloutShare float64 `range:"1..1000" why:"below 1 no region of the target version may have its fair share"`
	// MaxVersions is the number of earlier versions of the application that are remembered, so that
	// a region of one of them does not become the target when it comes back. Default 64: more than
	// run side by side or are rolled back to.
	MaxVersions int `range:"1.."`
	// MaxLabels bounds the labels of one region. Default 64: operators need fewer.
	MaxLabels int `range:"1.."`
	// Config has the limits of handoffs, and the settings of the brake.
	budget.Config

	// WatchHold is the time that a watch waits for a change, or at a standby for the next active coordinator. Default
	// 1 s: watchers ask another coordinator after 2 s.
	WatchHold time.Duration `range:">0"`
	// LeaseEnd is the time before the end of another coordinator's lease when a standby begins to hold watches.
	// Default 500 ms: a quarter of the usual lease. The active coordinator usually renews it before.
	LeaseEnd time.Duration `range:">0"`
	// MaxWatches bounds the waiting watches; the oldest is answered early.
	// Default 4096.
	MaxWatches int `range:"1.."`
	// ChangeLog is the number of changes that are remembered for deltas; a watcher that is further
	// behind gets the full table. Default 65536.
	ChangeLog int `range:"1.."`

	// FactsPerRecord and RecordBytes bound a record of the fact stream. A fact that is larger
	// goes alone, and the facts of one request of an operator are never divided, see MaxPins.
	// Default 1024 and 1 MiB: one write of the journal, far below the largest operation that
	// it takes.
	FactsPerRecord int `range:"1.."`
	RecordBytes    int `range:"1.."`
	// CompactAfter is the number of facts after the mark of the stream before the table is
	// stored once more, to begin there; more for a table of more than half as many rows. Default
	// 4096: read in a few milliseconds.
	CompactAfter int `range:"1.."`
	// MaxHeld and MaxHeldBytes bound the outputs that wait until facts are stored.
	// Beyond a bound, the coordinator steps down. Defaults 1048576 and 256 MiB. If all
	// shards are allocated at once, they need half as many outputs.
	MaxHeld      int `range:"1.."`
	MaxHeldBytes int `range:"1.."`

	// RetryPause is the time until a request is repeated after the journal has refused
	// it or could not answer it. Default 100 ms.
	RetryPause time.Duration `range:">0"`
	// RetryPauseMax is the longest pause before a take-over that has failed begins anew. The pause is about RetryPause
	// after the first failure, and grows with each further one. Default 2 s: journal heartbeats of another cluster
	// are still seen in time.
	RetryPauseMax time.Duration `range:">0"`
	// TakeoverTimeout bounds each request of a take-over. If a request is not answered in
	// this time, the coordinator gives the request up, and begins the take-over anew.
	// Default 20 s: the coordinator can read the stream of a large table in this time.
	TakeoverTimeout time.Duration `range:">0"`

	// JournalHeartbeatInterval is the time between two journal heartbeats. Default 1 s.
	JournalHeartbeatInterval time.Duration `range:">0"`
	// JournalHeartbeatPatience is a time without heartbeats after which no cluster counts as
	// the user of a journal. It must be longer than a lease, because the record of a lease
	// may be lost while its holder still acts. Default 4 s.
	JournalHeartbeatPatience time.Duration `range:">0"`
	// SurveyInterval is the time between two surveys of a journal that may be
	// another cluster's. Default 500 ms.
	SurveyInterval time.Duration `range:">0"`

	// MaxTypes bounds the number of entity types. Default 256.
	MaxTypes int `range:"1.."`
	// MaxShards bounds the shards of all types together. Default 262144: about
	// 50 MB of table.
	MaxShards int `range:"1.."`
	// MaxCommands bounds the commands of one type. Default 1024.
	MaxCommands int `range:"1.."`
	// MaxUnknownFacts bounds the facts of later releases that the coordinator keeps. If there
	// are more, it drops the oldest. Default 4096: there should be fewer facts of kinds that
	// this release does not know.
	MaxUnknownFacts int `range:"1.."`
	// MaxCordons bounds the names of regions that operators have cordoned. Default 1024: more
	// than there are regions.
	MaxCordons int `range:"1.."`
	// MaxPins bounds the shards of one request to pin them. Default 4096: all of them are in
	// one record of the fact stream, and with the longest names and reasons they take 4 MB, a quarter of
	// the largest operation that the journal takes. All pins together are at most as many as there are shards.
	MaxPins int `range:"1.."`
	// BrokenInterval is the shortest time between two counts of the shards that break a constraint.
	// Default 5 s: a count looks at all regions of each type, and operators wait for minutes before
	// they look at the result.
	BrokenInterval time.Duration `range:">0"`
	// MaxWeighed bounds how many regions are weighed between two ticks for explanations, which list the
	// regions that might have got a shard: with 1,000 regions, 16 explanations have this list, and
	// with 10 regions 1,638. The first explanation always has it. Default 16384: so many take about
	// 10 ms, and thousands of shards may be allocated between two ticks while commands wait for them.
	MaxWeighed int `range:"1.."`
	// ReviewAtOnce is the largest number of shards for a review of all rows in the same Step as each
	// change of the membership. With more shards, the review runs at the next tick, for all changes
	// together. Default 16384: a review of these takes less than a millisecond, and a thousand regions
	// may register at the same moment.
	ReviewAtOnce int `range:"1.."`
	// MaxReason bounds, in bytes, the texts in which operators say who they are and why they
	// act. Default 256: a sentence.
	MaxReason int `range:"1.."`
	// QuarantineCrashes is the number of crashes of regions after which an entity that ran at each of
	// them is quarantined. 0: no entity is quarantined automatically. Default 2: one crash may have any
	// cause.
	QuarantineCrashes int `key:"coordinator.quarantine_after" unit:"crashes" range:"0.." help:"number of crashes of regions, with evidence that they were not killed from outside, after which an entity that ran at each of them is quarantined. 0: no entity is quarantined without an operator. See docs/running/repair.md"`
	// QuarantineWindow is the time within which these crashes count. Default 10 min: a platform may
	// start a process that has ended several times again only after five minutes.
	QuarantineWindow time.Duration `key:"coordinator.quarantine_window" range:">0" help:"time within which these crashes count. A suspect is forgotten if no region has ended for this time while it ran" expert:"true"`
	// CrashPatience is the time that a shard waits for the reports of its last owners, if they were lost one
	// after the other. If further owners are lost, it waits twice as long each time, up to 16 times as long.
	// Default 3 s: a platform starts a process that has ended again in less time, unless it ends again and
	// again.
	CrashPatience time.Duration `key:"coordinator.crash_patience" range:">0" help:"if coordinator.quarantine_after owners of a shard were lost, one soon after the other, the shard waits for this time at most until they have started again and say which entities ran. After each further loss it waits twice as long, up to 16 times this time. Then the next region gets the shard" expert:"true"`
	// MaxQuarantined bounds the suspects and quarantined entities together. Default 1000: an operator looks
	// at each of them.
	MaxQuarantined int `range:"1.."`
	// MaxForms bounds the forms in which one type is stored, over its whole life. Each form
	// takes a bit or two in every row. Default 1024: a new form every week for twenty years.
	MaxForms int `key:"coordinator.max_forms" unit:"forms" range:"1.." help:"the most forms in which the events of one entity type may be stored over the whole life of the type. A form is the name, version and fields of an event. The coordinator never forgets a form" expert:"true"`
}

// DefaultConfig returns the defaults named at the fields.
func DefaultConfig() Config {
	return Config{
		Config:                   budget.DefaultConfig(),
		Strategy:                 allocation.LeastShards{RelativeLimit: 0.25, AbsoluteLimit: 256},
		MinRegions:               1,
		RecoveryWait:             2 * time.Second,
		UnhostedAfter:            10 * time.Second,
		Resend:                   200 * time.Millisecond,
		HostTimeout:              2 * time.Second,
		HandoffTimeout:           10 * time.Second,
		HandoffSlack:             2 * time.Second,
		JournalReport:            5 * time.Second,
		JournalFresh:             time.Second,
		RebalanceInterval:        500 * time.Millisecond,
		LoadCooldown:             allocation.DefaultConfig().LoadCooldown,
		LoadReport:               time.Minute,
		RolloutFreeze:            30 * time.Minute,
		RolloutShare:             1.5,
		MaxVersions:              64,
		MaxLabels:                64,
		WatchHold:                time.Second,
		LeaseEnd:                 500 * time.Millisecond,
		MaxWatches:               4096,
		ChangeLog:                1 << 16,
		FactsPerRecord:           1024,
		RecordBytes:              1 << 20,
		CompactAfter:             4096,
		MaxHeld:                  1 << 20,
		MaxHeldBytes:             256 << 20,
		RetryPause:               100 * time.Millisecond,
		RetryPauseMax:            2 * time.Second,
		TakeoverTimeout:          20 * time.Second,
		JournalHeartbeatInterval: time.Second,
		JournalHeartbeatPatience: 4 * time.Second,
		SurveyInterval:           500 * time.Millisecond,
		MaxTypes:                 256,
		MaxShards:                1 << 18,
		MaxCommands:              1024,
		MaxCordons:               1024,
		MaxPins:                  4096,
		BrokenInterval:           5 * time.Second,
		MaxWeighed:               16384,
		ReviewAtOnce:             1 << 14,
		MaxReason:                256,
		QuarantineCrashes:        2,
		QuarantineWindow:         10 * time.Minute,
		CrashPatience:            3 * time.Second,
		MaxQuarantined:           1000,
		MaxForms:                 1024,
		MaxUnknownFacts:          4096,
	}
}

// quarantine returns the settings of quarantines.
func (c *Config) quarantine() quarantine.Limits {
	return quarantine.Limits{Crashes: c.QuarantineCrashes, Window: c.QuarantineWindow, Max: c.MaxQuarantined, MaxReason: c.MaxReason}
}

// strategy returns the strategy of a type.
func (c *Config) strategy(t sharding.EntityType) allocation.Strategy {
	if s, own := c.Strategies[t]; own {
		return s
	}
	return c.Strategy
}

// byLoad reports whether shards of a type move because of their loads.
func (c *Config) byLoad() bool {
	is := allocation.GoesByLoad(c.Strategy)
	for _, s := range c.Strategies { // order-free: any of them will do
		is = is || allocation.GoesByLoad(s)
	}
	return is
}

// Validate returns an error that names every setting and field with an unusable value.
func (c Config) Validate() error {
	errs := []error{setting.Ranges(&c)}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("coordinator: "+format, args...)) }
	if c.Strategy == nil {
		bad("Strategy is nil; use one of package allocation")
	}
	for _, t := range slices.Sorted(maps.Keys(c.Strategies)) {
		if c.Strategies[t] == nil {
			bad("Strategies has nil for %s; use one of package allocation", t)
		}
	}
	if c.HostTimeout > 0 && c.Resend >= c.HostTimeout {
		bad("Resend is %v, must be below HostTimeout (%v): a message is repeated before it is given up", c.Resend, c.HostTimeout)
	}
	if c.MaxShards > 0 && (c.MaxHeld < 4*c.MaxShards || c.MaxHeldBytes < 4*c.MaxShards*outputBytes) {
		bad("MaxHeld is %d and MaxHeldBytes %d, must be at least %d and %d with MaxShards %d: all may be allocated at once", c.MaxHeld, c.MaxHeldBytes, 4*c.MaxShards, 4*c.MaxShards*outputBytes, c.MaxShards)
	}
	if c.JournalHeartbeatInterval > 0 && c.SurveyInterval > 0 && (c.JournalHeartbeatPatience <= 2*c.JournalHeartbeatInterval || c.JournalHeartbeatPatience <= c.SurveyInterval) {
		bad("JournalHeartbeatPatience is %v, must be above SurveyInterval (%v) and twice JournalHeartbeatInterval (%v): a heartbeat may come late", c.JournalHeartbeatPatience, c.SurveyInterval, c.JournalHeartbeatInterval)
	}
	if c.RetryPauseMax < c.RetryPause || c.SurveyInterval > 0 && c.JournalHeartbeatPatience <= c.RetryPauseMax {
		bad("RetryPauseMax is %v, must be at least RetryPause (%v) and below JournalHeartbeatPatience (%v): between two surveys, the heartbeats of another cluster must be seen", c.RetryPauseMax, c.RetryPause, c.JournalHeartbeatPatience)
	}
	if c.Resend > 0 && c.JournalFresh > 0 && c.JournalFresh <= c.Resend {
		bad("JournalFresh is %v, must be above Resend (%v), the pause between two questions to the journal", c.JournalFresh, c.Resend)
	}
	if c.MaxShards > 0 && c.MaxShards < sharding.DefaultShards {
		bad("MaxShards is %d, must be at least %d, the shards of one type by default", c.MaxShards, sharding.DefaultShards)
	}
	return errors.Join(errs...)
}
