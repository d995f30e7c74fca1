package wakeup

import (
	"slices"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// deleted takes in that an entity was deleted, and with it all its wake-ups. A page that is
// being read may still have them: then the sweep begins anew, and what fires until then is
// refused by the journal.
func (k *Keeper) deleted(s *shard, of sharding.Entity) {
	if mutant.On("deleted-rows") {
		return
	}
	for id, r := range s.rows { // order-free: all of the entity are removed
		if id.entity == of {
			k.remove(r)
		}
	}
	if s.reading {
		s.sweepAgain = true
		s.changedRows = slices.DeleteFunc(s.changedRows, func(r Row) bool { return r.Entity == of })
	}
}
