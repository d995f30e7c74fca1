package entity

import "time"

// Limits. What exceeds one is refused, and the error names the limit.
const (
	// MaxNameLen is the longest name of a type, a command or an event, in bytes.
	MaxNameLen = 128
	// MaxIDLen is the longest id of an entity, in bytes.
	MaxIDLen = 256
	// MaxKeyLen is the longest idempotency key, in bytes.
	MaxKeyLen = 128
	// MaxPayload is the longest input and the longest reply of a command, encoded, in bytes.
	MaxPayload = 1 << 20
	// MaxShards is the largest number of shards of a type.
	MaxShards = 1 << 16
	// DefaultShards is the number of shards of a type without [Shards].
	DefaultShards = 1024
	// MaxSends is the number of commands that a turn may send.
	MaxSends = 1000
	// MaxReminders is the number of reminders that a turn may set and cancel.
	MaxReminders = 1000
	// MaxReminderNameLen is the longest name of a reminder, in bytes.
	MaxReminderNameLen = 256
	// MaxReminderYear is the last year in which a reminder can be due.
	MaxReminderYear = 9999
	// MinReminderPeriod is the shortest period of a repeated reminder.
	MinReminderPeriod = time.Second
	// MinTimerInterval is the shortest interval of a repeated timer.
	MinTimerInterval = time.Millisecond
	// MaxTrimmedEvery is the largest number of events between two snapshots of a type with [KeepEvents].
	MaxTrimmedEvery = 2500
)
