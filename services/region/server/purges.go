package server

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/purge"
)

// readDeleted reads which deleted entities may be removed, as a load reads an entity.
func (s *shardLoop) readDeleted(o purge.Read) {
	s.queue(job{Work: work{do: func() {
		page, err := s.journal.Wakes(s.ctx, o.WakesRequest)
		if err != nil {
			s.log.Warn("cannot read the deleted entities to purge", "hint", "they are purged later", "error", err)
		}
		s.put(item{in: purge.Page{Number: o.Number, WakesPage: page, Err: err}})
	}}})
}

func (s *shardLoop) purge(o journal.Purge) {
	s.journal.Submit(journal.Op{Purge: &o}, func(r journal.Result) {
		s.put(item{in: purge.Purged{Purge: o, Verdict: r.Verdict}})
	})
}
