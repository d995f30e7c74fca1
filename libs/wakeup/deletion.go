package wakeup

import (
	"slices"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// drop removes all wake-ups of an entity from memory. Either the entity was deleted, or it is not known
// which of its wake-ups still stand. If a page is being read, its wake-ups of this entity may be outdated.
// They are ignored.
func (k *Keeper) drop(s *shard, of sharding.Entity) {
	for id, w := range s.wakes { // order-free: all of the entity are removed
		if id.entity == of {
			k.remove(w)
		}
	}
	if !s.Reading { //mutant:true deleted-in-page
		return
	}
	s.changedWakes = slices.DeleteFunc(s.changedWakes, func(w journal.WakeEntry) bool { return w.Entity == of })
	if len(s.ignored) >= k.cfg.Wakes {
		s.outdated = true //mutant:false page-outdated
		return
	}
	s.ignored[of] = struct{}{}
}
