package server

import (
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/services/region"
)

// readDeleted reads which deleted entities may be removed, as a load reads an entity.
func (s *shardLoop) readDeleted(o purge.Read) {
	s.queue(job{Work: work{do: func() {
		req := journal.WakesRequest{Until: journal.PurgeFrom + o.Until, Limit: o.Limit}
		for _, shard := range o.Shards {
			req.Shards = append(req.Shards, journal.ShardPosition{Shard: shard, After: journal.WakePosition{Due: journal.PurgeFrom}})
		}
		page, err := s.journal.Wakes(s.ctx, req)
		out := purge.Page{Number: o.Number, Now: page.Now, More: page.More}
		if err != nil {
			out.Now = time.Time{}
			s.log.Warn("which deleted entities can be removed cannot be read; they are removed later", "error", err)
		}
		for i := range page.Rows {
			w := &page.Rows[i]
			out.Rows = append(out.Rows, purge.Row{Shard: w.Shard, Entity: w.Entity, Life: w.Seq, Due: w.Due})
		}
		s.put(item{in: region.DeletedRead{Page: out}})
	}}})
}

func (s *shardLoop) purge(o purge.Purge) {
	s.journal.Submit(journal.Op{Purge: &journal.Purge{Shard: o.Shard, Epoch: o.Epoch, Entity: o.Entity, Life: o.Life}}, func(r journal.Result) {
		s.put(item{in: region.Purged{Purged: purge.Purged{Purge: o, Verdict: r.Verdict}}})
	})
}
