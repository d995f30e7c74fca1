package server

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/wakeup"
	"github.com/roost-cluster/roost/services/region"
)

// readWakes reads a page of wake-ups, as a load reads an entity.
func (s *shardLoop) readWakes(o wakeup.Read) {
	s.queue(job{Work: work{do: func() {
		req := journal.WakesRequest{Until: o.Until, Limit: o.Limit}
		for _, p := range o.Shards {
			req.Shards = append(req.Shards, journal.ShardPosition{Shard: p.Shard, After: journal.WakePosition{
				Due: p.Due, Entity: p.Entity, Kind: p.Kind, Name: p.Name,
			}})
		}
		page, err := s.journal.Wakes(s.ctx, req)
		out := wakeup.Page{Number: o.Number, Remembered: o.Remembered, Now: page.Now, More: page.More}
		if err != nil {
			out.Err = err.Error()
			what := "reminders cannot be read; they fire later"
			if o.Remembered {
				what = "it cannot be read which entities are remembered; they are started later"
			}
			s.log.Warn(what, "error", err)
		}
		for i := range page.Rows {
			out.Rows = append(out.Rows, wakeRow(&page.Rows[i]))
		}
		for _, d := range page.Damaged {
			out.Failed = append(out.Failed, d.Shard)
		}
		s.put(item{in: region.WakesRead{Page: out}})
	}}})
}

func wakeRow(w *journal.WakeRow) wakeup.Row {
	r := wakeup.Row{Shard: w.Shard, Entity: w.Entity, WakeRef: w.WakeRef, Due: w.Due, Period: w.Period, Input: w.Input}
	if w.Err != nil {
		r.Err = w.Err.Error()
	}
	return r
}
