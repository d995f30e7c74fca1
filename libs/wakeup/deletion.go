package wakeup

import (
	"slices"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// drop removes all wake-ups of an entity from memory, because it was deleted, or because it is not
// known which of them still stand. A page that is being read may have them as they were: what it
// has of the entity is left out.
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
