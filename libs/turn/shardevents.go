package turn

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// ShardEvent is something that happened to a shard as a whole, or to a command
// because of that. It is for the caller that opens shards, not for the driver; see
// [Machine.ShardEvents]. The set is closed.
type ShardEvent interface{ shardEvent() }

// Shard events.
type (
	// NotMine ends a delivered command that was definitely not applied,
	// because this region no longer serves the shard.
	NotMine struct {
		Request RequestID
		Shard   sharding.ShardID
		// Epoch is the epoch at which the region served the shard, 0 if the shard
		// was not open at all.
		Epoch sharding.Epoch
	}
	// Fenced: the journal says the shard belongs to another epoch. The shard
	// is aborted; Drained follows.
	Fenced struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Stored sharding.Epoch
	}
	// FiringEnded ends a Fire.
	FiringEnded struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
		Ref    sharding.WakeRef
		End    FiringEnd
		// Code and Message say why, with FiringFailed.
		Code    sharding.Code
		Message string
	}
	// WakesChanged: an append is durable, and with it what it does to wake-ups of the entity:
	// first those that have fired, then what its records set and remove.
	WakesChanged struct {
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Entity  sharding.Entity
		Fired   []sharding.Fired
		Records []sharding.Record
	}
	// WakesUnknown: wake-ups and sends of the entity may have changed without a WakesChanged or
	// a SendsStored, because the outcome of an append was unknown. By now it cannot change any
	// more.
	WakesUnknown struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
	}
	// SendsStored: an append is durable that has records with sends.
	SendsStored struct {
		Shard   sharding.ShardID
		Epoch   sharding.Epoch
		Entity  sharding.Entity
		At      time.Time // when it was stored
		Records []sharding.Record
	}
	// SendDropped: it is durable that an operator has given up a send, which was pending or a dead letter. The
	// event may be repeated.
	SendDropped struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
		Seq    uint64 // of its record
		Place  uint16
	}
	// StartEnded ends a StartEntity.
	StartEnded struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
		End    StartEnd
		// Code and Message say why, with StartFailed.
		Code    sharding.Code
		Message string
	}
	// RememberedLost: an entity that may be remembered is not alive any more, although it was
	// neither passivated nor handed off: a turn or an append has failed, and no command waits
	// for it.
	RememberedLost struct {
		Shard  sharding.ShardID
		Epoch  sharding.Epoch
		Entity sharding.Entity
	}
	// Drained: nothing of the shard is alive or has unsettled writes any more.
	Drained struct {
		Shard sharding.ShardID
		Epoch sharding.Epoch
		// Wrote holds the forms of the events that were handed to the journal, and of the snapshots that were
		// to be taken, as indexes into the Writes of the type.
		Wrote sharding.FormSet
		// Kept are the states of the entities that were alive, if the shard was handed off
		// and its type keeps them.
		Kept []Kept
	}
)

// FiringEnd is the result of the firing of a wake-up.
type FiringEnd uint8

const (
	// FiringDone: it ran, and that is durable. It may have had a business error.
	FiringDone FiringEnd = iota + 1
	// FiringObsolete: the wake-up had fired, or was changed, before. The command may have run;
	// then it had no effect.
	FiringObsolete
	// FiringFailed: it had no effect on its entity, and the setting of the wake-up still stands.
	FiringFailed
	// FiringInDoubt: it may be done, or obsolete later. Only the journal knows.
	FiringInDoubt
	// FiringOtherLife: the entity was deleted since it has sent what this answers. The answer
	// is nothing to its present life, and no command has run.
	FiringOtherLife
	// FiringGone: the region does not serve the shard at the epoch any more.
	FiringGone
)

// StartEnd is the result of a StartEntity.
type StartEnd uint8

const (
	// StartDone: the entity is alive, or is not remembered any more.
	StartDone StartEnd = iota + 1
	// StartPostponed: the entity cannot be started now, but later. Either the limits of loads leave no
	// room, or the entity is loaded without an instance, for built-in commands of an operator.
	StartPostponed
	// StartFailed: it could not be brought to life.
	StartFailed
	// StartGone: the region does not serve the shard at the epoch any more.
	StartGone
)

// String is a word for the end, such as "done".
func (a StartEnd) String() string {
	switch a {
	case StartDone:
		return "done"
	case StartPostponed:
		return "postponed"
	case StartFailed:
		return "failed"
	case StartGone:
		return "gone"
	}
	return "invalid"
}

// String is a word for the end, such as "done".
func (f FiringEnd) String() string {
	switch f {
	case FiringDone:
		return "done"
	case FiringObsolete:
		return "obsolete"
	case FiringFailed:
		return "failed"
	case FiringInDoubt:
		return "in doubt"
	case FiringOtherLife:
		return "of another life"
	case FiringGone:
		return "gone"
	}
	return "invalid"
}

func (StartEnded) shardEvent()     {}
func (RememberedLost) shardEvent() {}
func (NotMine) shardEvent()        {}
func (Fenced) shardEvent()         {}
func (FiringEnded) shardEvent()    {}
func (WakesChanged) shardEvent()   {}
func (WakesUnknown) shardEvent()   {}
func (SendsStored) shardEvent()    {}
func (SendDropped) shardEvent()    {}
func (Drained) shardEvent()        {}
