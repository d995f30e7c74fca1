package turn

import (
	"iter"
	"time"

	"github.com/roost-cluster/roost/libs/heavyhitters"
	"github.com/roost-cluster/roost/libs/sharding"
)

// ShardWork counts what the entities of a shard have done since the shard was opened. It is
// counted where turns end and records leave, by times that are known there anyway.
type ShardWork struct {
	Turns uint64
	// Handlers is the run time of the handlers of these turns, by the clock, without the time that they waited
	// for the answers of other entities.
	Handlers time.Duration
	// Mailbox is the total time that the commands of these turns waited for them.
	Mailbox time.Duration
	// JournalBytes is the size of the records that were handed to the journal.
	JournalBytes uint64
}

// note counts a turn.
func (w *ShardWork) note(handler, mailbox time.Duration) {
	w.Turns++
	w.Handlers += max(0, handler) // the waiting is measured by the less precise clock of the steps
	w.Mailbox += max(0, mailbox)
}

// ShardStats describes an open shard: its entities in memory and its work.
type ShardStats struct {
	Shard sharding.ShardID
	ShardWork
	Entities int // alive or being loaded
	Bytes    int // of those that tell their size
}

// Hottest returns the entities that take most, the heaviest first: at most n of those that are wanted.
// Some of them may have ended.
func (m *Machine) Hottest(now time.Time, n int, wanted func(sharding.Entity) bool) []heavyhitters.Entry {
	return m.hot.Top(now, n, wanted)
}

// ShardStats yields the counts of the open shards, by type and index.
func (m *Machine) ShardStats() iter.Seq[ShardStats] {
	return func(yield func(ShardStats) bool) {
		for s := range m.shards() {
			if !yield(s.stats()) {
				return
			}
		}
	}
}

// StatsOf returns the counts of a shard, and false if it is not open.
func (m *Machine) StatsOf(id sharding.ShardID) (ShardStats, bool) {
	if s := m.shard(id); s != nil {
		return s.stats(), true
	}
	return ShardStats{Shard: id}, false
}

func (s *shard) stats() ShardStats {
	return ShardStats{Shard: s.id, ShardWork: s.work, Entities: len(s.entities), Bytes: s.bytes}
}
