package wakeup

import (
	"slices"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// drop removes all wake-ups of an entity from memory. Either the entity was deleted, or it is not known
// which of its wake-ups still stand. If a page is being read, its rows of this entity may be outdated.
// They are ignored.
func (k *Keeper) drop(s *shard, of sharding.Entity) {
	for id, r := range s.rows { // order-free: all of the entity are removed
		if id.entity == of {
			k.remove(r)
		}
	}
	if !s.reading || mutant.On("deleted-in-page") {
		return
	}
	s.changedRows = slices.DeleteFunc(s.changedRows, func(r Row) bool { return r.Entity == of })
	if len(s.renewed) >= k.cfg.Rows {
		s.outdated = !mutant.On("page-outdated")
		return
	}
	s.renewed[of] = struct{}{}
}
