package entity

import (
	"errors"
	"fmt"
	"reflect" // pure: of types
	"runtime" // pure: the place of a call
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// defined and definition hide the runtime's view of a type from authors.
type (
	defined    = instance.Defined
	definition = instance.Definition
)

// Definition is a [Type] of any entity, as a region hosts it.
type Definition interface{ definition }

// Type is an entity type with states of type E. It never changes.
type Type[E any] struct{ defined }

// Name returns the name of the type.
func (t Type[E]) Name() string { return instance.TypeOf(t).Name }

// Declaration is a part of the definition of a type with states of type E: a command ([On]), a kind of events
// ([Event]), or options ([With]).
type Declaration[E any] struct {
	add     func(*instance.Type)
	options bool // it is of With
}

// Define defines an entity type. create returns the empty entity with an id; it must not depend on the process
// that it runs in. Define is for variables of packages: it panics, with the file and line of its caller, if there
// is a mistake in the definition, for example two commands with one name. [New] returns an error.
func Define[E any](name string, create func(id string) *E, declarations ...Declaration[E]) Type[E] {
	t, err := New(name, create, declarations...)
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		panic(fmt.Sprintf("%s:%d: entity.Define: %v", file, line, err))
	}
	return t
}

// New defines an entity type as [Define] does. The error names every mistake in the definition.
func New[E any](name string, create func(id string) *E, declarations ...Declaration[E]) (Type[E], error) {
	t := instance.NewType(name, reflect.TypeFor[E](), func(id string) any { return create(id) })
	t.NewContext = func() instance.Context { return new(Ctx) }
	if _, ok := any((*E)(nil)).(Starter); ok {
		t.OnStart = func(state any, c instance.Context) error { return state.(Starter).OnStart(enter(c)) }
	}
	if _, ok := any((*E)(nil)).(Stopper); ok {
		t.OnStop = func(state any, c instance.Context, why turn.StopReason) {
			state.(Stopper).OnStop(enter(c), StopReason(why.String()))
		}
	}
	// Options first: checks of commands depend on them.
	for _, optional := range []bool{true, false} {
		for _, d := range declarations {
			if d.options == optional {
				d.add(t)
			}
		}
	}
	return Type[E]{instance.Define(t)}, t.Check()
}

// TypeOption is an option of a type, see [With].
type TypeOption struct{ set func(*instance.Type) }

// With declares options of the type:
//
//	entity.With[Account](entity.SnapshotEvery(100), entity.PassivateAfter(time.Minute))
func With[E any](options ...TypeOption) Declaration[E] {
	return Declaration[E]{options: true, add: func(t *instance.Type) {
		for _, o := range options {
			o.set(t)
		}
	}}
}

// Volatile is the option of a type whose entities have their state in memory only: best effort, lost when the
// entity is passivated or its region fails. It is lost when the entity moves, too, unless the type has
// [KeepOnMoves]. Such a type has no events, reminders and sends. What a handler has changed in memory before it
// fails cannot be undone: then the outcome of its command is [Unknown], or what was changed stays.
func Volatile() TypeOption { return TypeOption{func(t *instance.Type) { t.Volatile = true }} }

// KeepOnMoves keeps the state of a volatile type's entities when their shard is handed off: when its
// region leaves or is drained, or shards are balanced. The next region continues with the state of the
// entity after its last command and its stop hook, and with its pending timers. The state is kept
// as a snapshot would be: the exported fields as JSON, or what the method Snapshot returns. If the
// next region cannot read the state, the entity begins empty. It cannot read a state of another
// version or of other fields, unless a step of [SnapshotV] reads it. An entity also begins empty after
// a crash, and after it was passivated.
func KeepOnMoves() TypeOption { return TypeOption{func(t *instance.Type) { t.KeepOnMoves = true }} }

// Remember restarts the entities of the type without a command: after a move, a crash
// or a cold start, their state is loaded and their start hook runs. An entity is remembered from
// the first command on that stores events, reminders or sends; one that is only read, or that
// only answers, is not. It stays remembered while it is passivated, until it calls [Ctx.Forget]
// or is deleted. Not for volatile types, which keep nothing.
//
// In a cluster that was upgraded, this needs an activated journal (roost journal upgrade --finalize):
// before that, commands that store something are refused.
func Remember() TypeOption { return TypeOption{func(t *instance.Type) { t.Remember = true }} }

// Shards sets the number of shards of the type, 1 to [MaxShards]. It is fixed forever with the
// type's first use. Default [DefaultShards].
func Shards(n uint32) TypeOption { return TypeOption{func(t *instance.Type) { t.Shards = n }} }

// PassivateAfter sets how long an entity may be idle before it is stopped to free memory; 0: never. Default 2
// minutes. No command gets lost: the next one loads the entity again. An entity with a pending timer is not
// idle. A volatile entity loses its state. The region's configuration (region.passivation) overrides it.
func PassivateAfter(d time.Duration) TypeOption {
	return TypeOption{func(t *instance.Type) { t.Passivation = passivation.Idle(d) }}
}

// Passivate sets which entities are stopped to free memory, in the form of region.passivation: by
// Passivate("lru limit=10000 idle=10m"), those that were idle for 10 minutes, and the least recently used ones
// while more than 10,000 are alive in a region. docs/using/memory.md describes all strategies.
func Passivate(strategy string) TypeOption {
	return TypeOption{func(t *instance.Type) {
		s, err := passivation.Parse(strategy)
		if t.Passivation = s; err != nil {
			t.Complain(fmt.Errorf("Passivate(%q): %w", strategy, err))
		}
	}}
}

// SnapshotEvery takes a snapshot after so many events (a keyed command without events counts as one, since it is
// stored too) or 8 MiB of them, so that loading stays fast: the entity's exported fields as JSON, or the result
// of its method Snapshot ([Snapshotter]). Default 0: never. See [SnapshotV] for what happens when those fields
// change. No snapshot is taken while fields that are not exported differ from what create has set: a reducer
// may have set them.
func SnapshotEvery(events int) TypeOption {
	return TypeOption{func(t *instance.Type) { t.SnapshotEvery = events }}
}

// SnapshotV sets the version of the type's snapshots, 1 by default. A snapshot of another version, or of
// other exported fields, is ignored, and the entity is rebuilt from all its events, unless a step reads it.
// The version must be raised when the same fields get another meaning, when a reducer derives the state from
// the events in another way, and with every change of a [Snapshotter]'s output.
func SnapshotV(version int, steps ...Step) TypeOption {
	return TypeOption{func(t *instance.Type) { t.SetSnapshots(version, unwrap(steps)) }}
}

// KeepEvents trims the journal: it deletes the events of an entity that a snapshot has made superfluous,
// except in the newest n records. A record holds the stored result of one command: its events, if it has
// any, and its reply. Default: all events are kept forever. It is for entities that live long and change
// often, and whose past is not needed.
//
// The price: the snapshot is then the only copy of the state. An entity with trimmed events is never
// rebuilt from events. A mistake in a reducer that got into the state stays, and the type must go on reading
// the snapshots that it has stored: a change of the exported fields needs [SnapshotV] with a step. A
// shard with snapshots that a region does not read is not given to it. So the n records serve people and
// tools that read the journal, and no recovery.
//
// It needs SnapshotEvery, at most [MaxTrimmedEvery]: so many records a snapshot trims at least. What is trimmed
// stays trimmed. To stop trimming, raise n. If KeepEvents is removed, entities that were trimmed get no
// snapshots any more, and take longer and longer to load.
func KeepEvents(n int) TypeOption {
	return TypeOption{func(t *instance.Type) { t.Trims, t.KeepEvents = true, n }}
}

// ShardBy selects the part of an id that determines the shard, so that entities that belong together are in
// one shard, and thus in one region: ids with the same prefix or part. Without it the whole id decides. The
// rule is fixed forever with the type's first use, as the number of shards is: a type that has entities
// without a rule, or with another one, needs a new name.
//
// Entities of several types are in shards with the same index if the rules select the same text of their
// ids and the types have the same number of shards. The strategy consistent-hashing keeps such shards in
// one region.
//
// A shard is the unit that moves: all entities with one prefix stay in one shard, however many they are.
// Choose a part with many more values than there are shards.
func ShardBy(rule ShardRule) TypeOption {
	return TypeOption{func(t *instance.Type) {
		t.Rule = rule.rule
		if rule.divides && rule.rule.Separator == "" {
			t.Complain(errEmptySeparator)
		}
	}}
}

var errEmptySeparator = errors.New("ShardBy has an empty separator, which divides no id; name one, or leave ShardBy out")

// ShardRule finds the shard of an entity by its id, see [ShardBy]. The zero ShardRule takes the whole id.
type ShardRule struct {
	rule    sharding.ShardRule
	divides bool // by the rule's separator
}

// Prefix is the rule of the text before the first separator: by Prefix("/"), "customer-17/order-5"
// is in the shard of "customer-17". An id without the separator counts whole.
func Prefix(separator string) ShardRule { return Part(separator, 0) }

// Part is the rule of one of the parts into which a separator divides an id, counted from 0: by
// Part("-", 1), "eu-17-a" is in the shard of all ids whose second part is "17". An id that does not
// have so many parts counts whole. Part 0 is the same as [Prefix].
func Part(separator string, index int) ShardRule {
	return ShardRule{rule: sharding.ShardRule{Separator: separator, Part: index}, divides: true}
}

// Number takes what rule selects as a decimal number: the shard is that number modulo the number of shards. By
// Number(Part(":", 0)), "17:meter-5" is in shard 17 of 64 shards. Use it if ids name their shard already, for example
// the partition of their source. An id whose part is not a number is hashed whole.
func Number(rule ShardRule) ShardRule {
	rule.rule.Method = sharding.ByNumber
	return rule
}

// Murmur2 hashes what rule selects as Kafka's Java client hashes the key of a record, if the key is not empty: an entity
// with the id "customer-17" is in the shard with the index of the partition that has the records with the key
// "customer-17", if there are as many shards as partitions. Murmur2(ShardRule{}) takes the whole id.
func Murmur2(rule ShardRule) ShardRule {
	rule.rule.Method = sharding.ByMurmur2
	return rule
}
