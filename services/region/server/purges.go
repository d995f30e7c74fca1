package server

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/reads"
)

// readDeleted reads which deleted entities may be removed, as a load reads an entity.
func (s *shardLoop) readDeleted(o purge.Read) {
	s.queue(job{Work: work{do: func() {
		page, err := s.journal.Wakes(s.ctx, reads.Deleted(o))
		if err != nil {
			s.log.Warn("cannot read the deleted entities to purge", "hint", "they are purged later", "error", err)
		}
		s.put(item{in: region.PurgesRead{Page: reads.DeletedPage(o, page, err)}})
	}}})
}

func (s *shardLoop) purge(o purge.Purge) {
	s.journal.Submit(journal.Op{Purge: &journal.Purge{Shard: o.Shard, Epoch: o.Epoch, Entity: o.Entity, Life: o.Life}}, func(r journal.Result) {
		s.put(item{in: region.Purged{Purged: purge.Purged{Purge: o, Verdict: r.Verdict}}})
	})
}
