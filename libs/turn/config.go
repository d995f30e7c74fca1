package turn

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/heavyhitters"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/setting"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Type is an entity type as the execution core sees it.
type Type struct {
	Desc sharding.TypeDesc
	// Passivation decides which entities are stopped to free memory. The zero strategy
	// stops none.
	Passivation passivation.Strategy
	// SnapshotEvery is the number of events after which a snapshot is taken; a
	// record without events counts as one, because a replay reads it too.
	// 0: never (the type has none).
	SnapshotEvery int
	// KeepEvents is the number of newest records that keep their events when a snapshot is stored;
	// the events of earlier records are removed. 0: all keep them. It needs SnapshotEvery, at most
	// MaxTrimmedEvery.
	KeepEvents int
	// KeepOnMoves is true if the states of the entities of a volatile type are kept for the next
	// owner when their shard is handed off, see [Kept].
	KeepOnMoves bool
	// NoLoad is true if an entity of this volatile type starts with nothing but a new instance,
	// unless a state of it is kept: the type has no start hook. So such an entity is not loaded. The
	// driver makes its instance for its first turn, see Run.New.
	NoLoad bool
	// Remember is true if entities of the type are restarted without a command, after a move, a
	// crash or a cold start. Not for volatile types.
	Remember bool
	// Timeouts holds the timeouts of commands that have their own, by name. They replace Config.TimerTimeout,
	// which is for all others.
	Timeouts map[string]time.Duration
}

// MaxTrimmedEvery is the largest SnapshotEvery of a type with KeepEvents: half as many records as
// a journal trims with one snapshot, so that it catches up.
const MaxTrimmedEvery = 2500

// cut returns the last record to lose its events with a snapshot after the record seq; 0: none.
func (t *Type) cut(seq uint64) uint64 {
	keep := uint64(t.KeepEvents)
	switch {
	case keep == 0:
		return 0
	case seq <= keep: //mutant:true keep-events
		//mutant:do keep-events return seq
		return 0
	}
	return seq - keep
}

// Config holds the entity types and the limits of the core. The keys belong to the settings of a region.
type Config struct {
	Types []Type
	// Program names this program in the refusal of a command that it does not have, such
	// as "region shop-1 with version v1.4". Default "this version".
	Program string
	// MailboxCommands and MailboxBytes bound the commands of one entity, from
	// delivery to answer: one slow entity must not fill the region.
	// Defaults 1,000 and 8 MiB.
	MailboxCommands int `key:"mailbox" unit:"commands" range:"1.." help:"the most commands that one entity may have accepted and not yet answered. The region refuses further commands as resource_exhausted"`
	MailboxBytes    int `range:"1.."`
	// MailboxShare is the share of a command's remaining time that the turns before it may take,
	// estimated from recent turns of its entity. A command that would have to wait longer is
	// refused at once: its answer would mostly come too late, and its turn would be wasted. The
	// other part is left for its own turn and for turns slower than recent ones. Above 0, at most
	// 1; 1 leaves nothing for them. Default 0.5.
	MailboxShare float64 `key:"mailbox_share" range:">0..1" help:"share (above 0, at most 1) of a command's time that the command may wait for earlier turns of its entity. The region estimates the wait from the entity's recent turns. If the estimate is longer than this share, the region refuses the command at once as resource_exhausted" expert:"true"`
	// TotalCommands and TotalBytes bound the commands of all entities. A fifth of them, as of
	// TotalLoads and WaitingTurns, is for commands that entities wait for ([ReservedShare]).
	// Defaults 100,000 and 256 MiB.
	TotalCommands int           `key:"commands" unit:"commands" range:"1.." help:"the most commands that all entities together may have accepted and not yet answered. A fifth of this limit is reserved for commands whose sender is a waiting entity. The region refuses further commands as resource_exhausted"`
	TotalBytes    setting.Bytes `key:"command_bytes" range:">0" help:"the largest total size of the commands that all entities have accepted and not yet answered. A fifth of this limit is reserved for commands whose sender is a waiting entity. The region refuses further commands as resource_exhausted"`
	// UnitRecords and UnitBytes bound one append: what a hot entity may put
	// into one transaction. Defaults 512 and 4 MiB.
	UnitRecords int `range:"1.."`
	UnitBytes   int `range:"1.."`
	// ResultBytes and TotalResultBytes bound the replies and events of finished turns that
	// wait for the journal, of one entity and of all. Above a bound an entity that has
	// some starts no further turn until the journal has answered for them: while it does
	// not answer, no other bound holds replies that are larger than expected. Defaults
	// 8 MiB, two appends, and 256 MiB.
	ResultBytes      int `range:"1.."`
	TotalResultBytes int `range:"1.."`
	// HeapBytes is the live heap of the process, in bytes, above which fewer entities may be
	// alive than their strategies say, see Collected. 0: no bound. Default 0: the driver knows
	// how much memory there is.
	HeapBytes uint64
	// SnapshotBytes is the size of the records to replay that makes a type with snapshots take one,
	// however few the events are. Default 8 MiB: half of the largest snapshot, so that large states
	// are not written all the time.
	SnapshotBytes setting.Bytes `key:"snapshot_bytes" range:">0" help:"size of new records after which the region takes a snapshot of an entity, even if the records have few events. So a load of the entity reads little more than this size after the snapshot. The default is half of the largest possible snapshot, so that the region does not write large states all the time" expert:"true"`
	// RecentIDs is the number of ids of recorded commands that are remembered, for all live
	// entities together, so that a repeat is answered from the journal without reloading the
	// entity. A repeat that is not remembered costs a turn and a reload. Eight bytes each. Default
	// 65,536: a minute of retries at 1,000 commands per second; 0: none.
	RecentIDs int `key:"recent_ids" unit:"ids" range:"0.." help:"number of recent command ids that the region keeps in memory, for all entities together. Each id takes eight bytes. If the id of a repeated command is in memory, the journal answers the command. Any other repeated command costs a turn and a reload. 0: the region keeps no ids" expert:"true"`
	// TimersPerEntity bounds the volatile timers of one entity. A timer beyond the
	// bound is not set, and is counted as a lost tell. Default 32.
	TimersPerEntity int `range:"1.."`
	// RemindersPerEntity bounds the reminders of one entity that stand in the journal. A turn that
	// would set more is undone, and its command refused. Default 10,000: far beyond what an
	// entity should have, few enough to be counted when it is loaded.
	RemindersPerEntity int `key:"reminders.per_entity" unit:"reminders" range:"1.." help:"the most reminders that one entity may have set. If a command would set more, the region refuses the command as resource_exhausted"`
	// TimerTimeout is the time from a firing to the deadline of the timer's command: a turn that
	// hangs must not block its entity forever. Default 30 s. See also Type.Timeouts.
	TimerTimeout time.Duration `key:"firing_timeout" range:">0" help:"longest time that the command of a timer, of a reminder, or one that takes the answer to a send may take, from the moment at which it is due. After this time, the context of its handler ends, and the turn is undone. A command may have its own (Timeout)" expert:"true"`
	// KeptEntities and KeptBytes bound the states of one shard that are kept for its next owner.
	// Entities beyond the bounds begin empty there. Defaults 100,000, and 64 MiB: as much as a
	// network of 1 Gbit/s carries within the second that commands wait.
	KeptEntities int `range:"1.."`
	KeptBytes    int `range:"1.."`
	// AskShare is the share of a command's remaining time that its turn may wait for the
	// answer of another entity: the rest is for the turn to use the answer, or to tell its
	// caller why there is none. Above 0, at most 1. Default 0.8.
	AskShare float64 `range:">0..1"`
	// AskTimeout bounds the wait of a turn for such an answer if its command has no deadline.
	// Default 10 s.
	AskTimeout time.Duration `range:">0"`
	// AsksPerTurn bounds to how many commands of different entities a turn sends something
	// that changes them: they are remembered while it runs. Default 1,000; Send is for more.
	AsksPerTurn int `range:"1.."`
	// WaitingTurns bounds the turns that wait for answers of other entities: each of them
	// keeps a goroutine with its stack. Default 10,000.
	WaitingTurns int `key:"waiting_turns" unit:"turns" range:"1.." help:"the most turns that may wait for answers of other entities. Each waiting turn holds a goroutine with its stack. Each shard core has an equal part of this limit. While the part is used up, the region refuses further asks of its entities as resource_exhausted" expert:"true"`
	// ProbeAfter is the time that a turn waits for an answer before it checks whether it waits in a
	// circle. It repeats the check at intervals that double, up to eight times as long. Default
	// 500 ms: longer than most answers take, and a small part of a usual deadline.
	ProbeAfter time.Duration `range:">0"`
	// TurnSends is the largest number of sends that a turn may stage: delivering them must not let
	// a whole shard wait. Default 1,000, which is also the most that the journal takes.
	TurnSends int `range:"1.."`
	// KeyAge is the age at which the journal may forget an idempotency key, less a margin for clocks. It is the
	// largest MaxAge that a send may have of its own ([sharding.SendOptions]): a turn with an older one is undone and
	// refused. A command that was in doubt for this time stays in doubt if the journal does not know its key. 0: not
	// limited. Default 0.
	KeyAge time.Duration
	// PendingSends is the largest number of pending sends of one entity. A turn that would exceed
	// it is undone and refused: the targets do not keep up. Default 10,000.
	PendingSends int `range:"1.."`
	// DrainTimeout is the time that a handed-off shard has to finish its accepted commands. Then
	// running turns are cancelled and abandoned. Default 10 s.
	DrainTimeout time.Duration `key:"drain_timeout" range:">0" help:"time that a shard has to finish its accepted commands when it is handed off. After this time, the region cancels the running turns of the shard"`
	// LoadTimeout is the longest time that a load may take before the entity is loaded again: a
	// load that never ends must not make the entity unavailable. Default 30 s: longer than the
	// largest entity takes, start hook included; the journal notices dead connections earlier.
	LoadTimeout time.Duration `range:">0"`
	// EntityLoads bounds the loads of one entity that the driver has not answered,
	// including abandoned ones. At the bound, a command that would need another load
	// is refused as unavailable. More than 1, so that one load that hangs does not
	// make the entity unavailable; few, because each costs a goroutine until it ends,
	// and a start hook that ignores its context may never end. Default 4.
	EntityLoads int `key:"entity_loads" unit:"loads" range:"1.." help:"the most loads of one entity that may run at a time. Abandoned loads count until they end, because each running load may hold a goroutine, and a start hook that ignores its context may never end. If a command needs one more load, the region refuses the command as unavailable" expert:"true"`
	// TotalLoads bounds the loads of all entities in the same way. Default 20,000:
	// enough for all entities of a region that have commands when its shards arrive.
	TotalLoads int `key:"loads" unit:"loads" range:"1.." help:"the most loads of all entities together that may run at a time. When many shards arrive at once, each entity with waiting commands needs one load. A fifth of this limit is reserved for commands whose sender is a waiting entity. If a command needs one more load, the region refuses the command as unavailable" expert:"true"`
	// DeadlineCheck is the longest time between two checks of the commands that wait for a load, or
	// for earlier turns, for expired deadlines. The commands are checked at the first of these
	// deadlines too, with a tenth of this time between two checks. Default 250 ms: a small part of
	// a usual deadline.
	DeadlineCheck time.Duration `range:">0"`
	// LookupTimeout bounds the time that a repeat of a recent command, and the commands after it,
	// wait for the journal's answer about it. Then the repeat has a turn like any other command.
	// Default 1 s: a lookup takes some milliseconds.
	LookupTimeout time.Duration `key:"lookup_timeout" range:">0" help:"longest time that a repeated command waits until the journal reports whether the command is stored. Later commands in the mailbox wait as well. Usually the journal needs some milliseconds. After this time, the repeated command has a turn like any other command" expert:"true"`
	// Hot bounds what is kept of the entities that take most. Nothing is decided by it. HotSeed
	// decides which turns are sampled.
	Hot     heavyhitters.Config
	HotSeed uint64
	// Retry is the pause before a failed request to the journal (load, fence read,
	// settlement) is repeated. Default 50 ms.
	Retry time.Duration `range:">0"`
}

// DefaultConfig returns the default configuration for the given types.
func DefaultConfig(types ...Type) Config {
	return Config{
		Types:            types,
		Program:          "this version",
		MailboxCommands:  1000,
		MailboxBytes:     8 << 20,
		MailboxShare:     0.5,
		TotalCommands:    100_000,
		TotalBytes:       256 << 20,
		UnitRecords:      512,
		UnitBytes:        4 << 20,
		ResultBytes:      8 << 20,
		TotalResultBytes: 256 << 20,
		SnapshotBytes:    8 << 20,
		RecentIDs:        65_536,
		TimersPerEntity:  32,
		TimerTimeout:     30 * time.Second,

		RemindersPerEntity: 10_000,

		KeptEntities:  100_000,
		KeptBytes:     64 << 20,
		AskShare:      0.8,
		AskTimeout:    10 * time.Second,
		AsksPerTurn:   1000,
		WaitingTurns:  10_000,
		ProbeAfter:    500 * time.Millisecond,
		TurnSends:     1000,
		PendingSends:  10_000,
		DrainTimeout:  10 * time.Second,
		LoadTimeout:   30 * time.Second,
		EntityLoads:   4,
		TotalLoads:    20_000,
		DeadlineCheck: 250 * time.Millisecond,
		LookupTimeout: time.Second,
		Hot:           heavyhitters.DefaultConfig(),
		Retry:         50 * time.Millisecond,
	}
}

// Validate returns an error that names every field with an unusable value.
func (c *Config) Validate() error {
	errs := []error{setting.Ranges(c)}
	seen := map[sharding.EntityType]bool{}
	for _, t := range c.Types {
		if err := sharding.CheckEntityType("entity type", t.Desc.Type); err != nil {
			errs = append(errs, err)
		}
		if seen[t.Desc.Type] {
			errs = append(errs, fmt.Errorf("turn: type %s is given twice", t.Desc.Type))
		}
		seen[t.Desc.Type] = true
		if t.Desc.Shards == 0 || t.Desc.Shards > sharding.MaxShards {
			errs = append(errs, fmt.Errorf("turn: type %s has %d shards, must be 1 to %d", t.Desc.Type, t.Desc.Shards, sharding.MaxShards))
		}
		if err := t.Passivation.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("turn: type %s: %w", t.Desc.Type, err))
		}
		if t.SnapshotEvery < 0 {
			errs = append(errs, fmt.Errorf("turn: type %s: SnapshotEvery must not be negative", t.Desc.Type))
		}
		if t.KeepEvents < 0 || t.KeepEvents > 0 && (t.Desc.Volatile || t.SnapshotEvery < 1 || t.SnapshotEvery > MaxTrimmedEvery) {
			errs = append(errs, fmt.Errorf("turn: type %s: KeepEvents is %d and SnapshotEvery %d; KeepEvents must not be negative, and needs a SnapshotEvery of 1 to %d and a type that is not volatile", t.Desc.Type, t.KeepEvents, t.SnapshotEvery, MaxTrimmedEvery))
		}
		if t.Remember && t.Desc.Volatile {
			errs = append(errs, fmt.Errorf("turn: type %s is volatile, so nothing of it can be remembered", t.Desc.Type))
		}
		if t.NoLoad && !t.Desc.Volatile {
			errs = append(errs, fmt.Errorf("turn: type %s is not volatile, so its entities must be loaded", t.Desc.Type))
		}
	}
	return errors.Join(errs...)
}
