package region

import (
	"time"

	"github.com/roost-cluster/roost/libs/entitylist"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// EntityQuery selects the entities in memory that are listed.
type EntityQuery struct {
	Type   sharding.EntityType // empty: all
	Shard  *uint32             // the only shard; nil: all
	Prefix string              // only entities whose ids begin with it
	// RunningFor: only entities with a turn that has been running for at least this time; 0: all.
	RunningFor time.Duration
	Limit      int // the largest number of entities in the list
	// Look is after how many entities the list ends early. It ends between two shards.
	Look int
}

// Entities lists the entities that this core has in memory and that are behind a position. It changes
// nothing. The core does nothing else meanwhile, so the query bounds how many entities it looks at:
// q.Look entities, and the other entities of the shard in which this number is reached.
func (m *ShardCore) Entities(now time.Time, q EntityQuery, from entitylist.Position) (page entitylist.Page[turn.EntityStatus]) {
	f := turn.EntityFilter{Prefix: q.Prefix}
	if q.RunningFor > 0 {
		f.RunningSince = now.Add(-q.RunningFor)
	}
	looked := 0
	for h := range m.heldShards() { // in the order of their ids
		if h.id.Compare(from.Shard) < 0 || q.Type != "" && q.Type != h.id.Type || q.Shard != nil && *q.Shard != h.id.Index {
			continue
		}
		if len(page.Rows) >= q.Limit || looked >= q.Look {
			page.Next = &entitylist.Position{Shard: h.id}
			return page
		}
		if f.After = ""; h.id == from.Shard {
			f.After = from.ID
		}
		room := q.Limit - len(page.Rows)
		rows, n := m.turn.EntitiesOf(h.id, f, room+1)
		looked += n
		if len(rows) > room {
			page.Rows = append(page.Rows, rows[:room]...)
			page.Next = &entitylist.Position{Shard: h.id, ID: rows[room-1].Entity.ID}
			return page
		}
		page.Rows = append(page.Rows, rows...)
	}
	return page
}

// Entity returns an entity, and false if it is not in the memory of this core.
func (m *ShardCore) Entity(e sharding.Entity) (turn.EntityStatus, bool) { return m.turn.Entity(e) }

// Quarantined returns the reason for an entity's quarantine, and false if it is not quarantined.
func (m *ShardCore) Quarantined(e sharding.Entity) (why string, quarantined bool) {
	return m.turn.Quarantined(e)
}
