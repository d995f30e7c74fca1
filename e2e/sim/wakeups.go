package sim

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/wakeup"
	"github.com/roost-cluster/roost/services/region"
)

// readWakes reads a page of wake-ups, as the driver of a region does.
func (n *shardNode) readWakes(o wakeup.Read) {
	req := journal.WakesRequest{Until: o.Until, Limit: o.Limit}
	for _, p := range o.Shards {
		req.Shards = append(req.Shards, journal.ShardPosition{Shard: p.Shard, After: journal.WakePosition{
			Due: p.Due, Entity: p.Entity, Kind: p.Kind, Name: p.Name,
		}})
	}
	out := wakeup.Page{Number: o.Number}
	gen := n.p.gen
	n.w.journal.read(n.p.host, func() {
		page := n.w.journal.ledger.Wakes(n.p.moment().Wall, req)
		out.Now, out.More = page.Now, page.More
		for i := range page.Rows {
			w := &page.Rows[i]
			r := wakeup.Row{Shard: w.Shard, Entity: w.Entity, WakeRef: w.WakeRef, Due: w.Due, Period: w.Period, Input: w.Input}
			if w.Err != nil {
				r.Err = w.Err.Error()
			}
			out.Rows = append(out.Rows, r)
		}
	}, func(ok bool) {
		if n.p.gen != gen {
			return
		}
		if !ok {
			out = wakeup.Page{Number: o.Number, Err: errLost.Error()}
		}
		n.p.post(func() { n.stepShard(region.WakesRead{Page: out}) })
	})
}
