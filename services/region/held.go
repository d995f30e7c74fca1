package region

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// Holdings of a core, for operators. No decision depends on them, and the methods here change nothing.

// String returns the name of the phase, for operators.
func (p heldPhase) String() string {
	switch p {
	case claiming:
		return "claiming"
	case fetching:
		return "fetching"
	case serving:
		return "serving"
	}
	return "stopping"
}

// HeldShard is a shard that a core holds, as operators see it.
type HeldShard struct {
	Shard    sharding.ShardID
	Epoch    sharding.Epoch
	Phase    string
	Buffered int           // commands that wait until it is served
	Load     sharding.Load // averages, and what is in memory
}

// HeldType sums up the shards of a type in a core.
type HeldType struct {
	Type   sharding.EntityType
	Shards int
	Load   sharding.Load
}

// Holdings lists the shards of a core, and sums them up by type.
type Holdings struct {
	Shards []HeldShard // in the order of their ids
	More   bool        // there are more shards after them
	Types  []HeldType  // by name: the sums of all shards
	// What waits for shards that are not served yet.
	Buffered, BufferedBytes int
}

// Holdings returns what this core holds of a type, or of all (empty): the sums of all shards, and the
// first limit shards behind one of them.
func (m *ShardCore) Holdings(now time.Time, of sharding.EntityType, after sharding.ShardID, limit int) Holdings {
	var out Holdings
	for h := range m.heldShards() {
		if of != "" && of != h.id.Type {
			continue
		}
		meter := h.meter // a copy
		st, _ := m.turn.StatsOf(h.id)
		load := meter.measure(now, m.cfg.LoadHalfLife, &st)
		if n := len(out.Types); n == 0 || out.Types[n-1].Type != h.id.Type {
			out.Types = append(out.Types, HeldType{Type: h.id.Type})
		}
		t := &out.Types[len(out.Types)-1]
		t.Shards++
		t.Load = t.Load.Plus(load)
		out.Buffered += len(h.buffer)
		out.BufferedBytes += h.bytes
		switch {
		case h.id.Compare(after) <= 0:
		case len(out.Shards) >= limit:
			out.More = true
		default:
			out.Shards = append(out.Shards, HeldShard{Shard: h.id, Epoch: h.epoch, Phase: h.phase.String(), Buffered: len(h.buffer), Load: load})
		}
	}
	return out
}

// Timers returns the first n timers of an entity that are due, and how many it has.
func (m *ShardCore) Timers(e sharding.Entity, n int) ([]turn.TimerStatus, int) {
	return m.turn.Timers(e, n)
}
