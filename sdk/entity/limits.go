package entity

import (
	"time"

	"github.com/roost-cluster/roost/libs/instance"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Limits. What exceeds one is refused, and the error names the limit.
const (
	// MaxNameLen is the longest name of a type, a command or an event, in bytes.
	MaxNameLen = sharding.MaxTypeLen
	// MaxIDLen is the longest id of an entity, in bytes.
	MaxIDLen = sharding.MaxIDLen
	// MaxKeyLen is the longest idempotency key, in bytes.
	MaxKeyLen = sharding.MaxCommandIDLen
	// MaxPayload is the longest input and the longest reply of a command, encoded, in bytes.
	MaxPayload = sharding.MaxPayload
	// MaxShards is the largest number of shards of a type.
	MaxShards = sharding.MaxShards
	// DefaultShards is the number of shards of a type without [Shards].
	DefaultShards = sharding.DefaultShards
	// MaxSends is the number of commands that a turn may send.
	MaxSends = instance.MaxSends
	// MaxReminders is the number of reminders that a turn may set and cancel.
	MaxReminders = instance.MaxReminders
	// MaxReminderNameLen is the longest name of a reminder, in bytes.
	MaxReminderNameLen = sharding.MaxWakeNameLen
	// MaxReminderYear is the last year in which a reminder can be due.
	MaxReminderYear = instance.MaxReminderYear
	// MinReminderPeriod is the shortest period of a repeated reminder.
	MinReminderPeriod time.Duration = instance.MinReminderPeriod
	// MinTimerInterval is the shortest interval of a repeated timer.
	MinTimerInterval time.Duration = instance.MinTimerInterval
	// MaxTrimmedEvery is the largest number of events between two snapshots of a type with [KeepEvents].
	MaxTrimmedEvery = turn.MaxTrimmedEvery
)
