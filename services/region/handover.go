package region

import (
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A handoff can end without its coordinator. HandOff names the successor of the shard, and the
// epoch that is reserved for it. When this region has released the shard, it sends HostShard to the
// successor itself, and repeats it until it knows a row of the shard with a higher epoch. Regions and
// gateways that wait for the shard ask the owner that they know, which is this region, and learn
// from it that the successor serves (FindShards).

// handover is a shard whose owner, this region, was told the successor.
type handover struct {
	order    control.HandOff // the newest one
	released bool            // the shard is released, and the successor is told so
	toldAt   time.Time       // when it was last told
	until    time.Time       // from then on it is not told any more
}

// handOffTo notes the successor that an order names.
func (c *ControlCore) handOffTo(in control.HandOff) {
	if in.Next <= in.Epoch || in.Next.Term() > in.Term || in.Successor.IsZero() || in.Successor == c.cfg.Self {
		return
	}
	if row, known := c.table.Row(in.Shard); known && row.Epoch > in.Epoch {
		return // a later owner has the shard
	}
	h := c.handovers[in.Shard]
	if in.Next < h.order.Next {
		return
	}
	if in.Next > h.order.Next {
		h = handover{}
	}
	h.order = in
	c.handovers[in.Shard] = h
}

// shardReleased tells the successor of a shard that this region has stopped.
func (c *ControlCore) shardReleased(in control.ShardStopped) {
	h, found := c.handovers[in.Shard]
	if !found || h.released || in.Epoch < h.order.Epoch || mutant.On("successor-told") {
		return
	}
	h.released, h.until = true, c.now.Add(c.cfg.HandoverTimeout)
	c.tellSuccessor(h)
}

func (c *ControlCore) tellSuccessor(h handover) {
	h.toldAt = c.now
	c.handovers[h.order.Shard] = h
	o := h.order
	c.emit(Send{To: o.Successor.Addr, UID: o.Successor.UID, Msg: control.HostShard{Term: o.Term, Shard: o.Shard, Epoch: o.Next, Released: true}})
}

// tickHandovers tells successors again that have not answered.
func (c *ControlCore) tickHandovers() {
	if len(c.handovers) == 0 {
		return
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.handovers), sharding.ShardID.Compare) {
		h := c.handovers[id]
		switch {
		case !h.released:
		case !c.now.Before(h.until):
			delete(c.handovers, id)
		case c.now.Sub(h.toldAt) >= c.cfg.Resend && !mutant.On("successor-told-again"):
			c.tellSuccessor(h)
		}
	}
}

// endHandovers forgets the handovers of shards that have rows with higher epochs.
func (c *ControlCore) endHandovers(rows []sharding.Row) {
	for _, row := range rows {
		if h, found := c.handovers[row.Shard]; found && row.Epoch > h.order.Epoch {
			delete(c.handovers, row.Shard)
		}
	}
}

// successor returns the handover to the region at an address, at an epoch.
func (c *ControlCore) successor(from string, id sharding.ShardID, e sharding.Epoch) (handover, bool) {
	h, found := c.handovers[id]
	return h, found && h.order.Successor.Addr == from && (h.order.Next == e || mutant.On("successor-epoch"))
}

// successorStarted takes the word of a successor that it has claimed the shard.
func (c *ControlCore) successorStarted(from string, in control.ShardStarted) {
	if h, is := c.successor(from, in.Shard, in.Epoch); is {
		c.learn(sharding.Row{Shard: in.Shard, Owner: h.order.Successor, Epoch: in.Epoch, Phase: sharding.Serving})
	}
}

// successorRefused leaves the shard to a coordinator.
func (c *ControlCore) successorRefused(from string, in control.HostRefused) {
	if _, is := c.successor(from, in.Shard, in.Epoch); is {
		delete(c.handovers, in.Shard)
	}
}

// taken reports whether an order to host a shard that was released by its owner must be obeyed.
// The order stands for a fact of the term that it names, which may be over. The shard may
// have a later owner since then, and this region may know that.
func (c *ControlCore) taken(from sharding.NodeID, in control.HostShard) bool {
	if in.Epoch == 0 || in.Epoch.Term() > in.Term {
		return false
	}
	c.releasers[from.Addr] = from.UID
	if row, known := c.table.Row(in.Shard); known && row.Epoch > in.Epoch && !mutant.On("released-gone-on") {
		c.reportShard(from.Addr, control.HostRefused{Shard: in.Shard, Epoch: in.Epoch, Above: row.Epoch})
		return false
	}
	return true
}

// learn takes a row that is true although no coordinator may have written it down yet.
func (c *ControlCore) learn(row sharding.Row) {
	if !c.table.Merge(row) {
		return
	}
	rows := []sharding.Row{row}
	c.endHandovers(rows)
	if row.Owner != c.cfg.Self { // else the shard core knows
		c.forward(rows)
	}
	c.feed(sharding.TableDelta{Version: c.table.Version(), Generation: c.table.Generation(), Rows: rows})
}

// found answers FindShards.
func (c *ControlCore) found(in control.FindShards) control.ShardsFound {
	var f control.ShardsFound
	for _, id := range in.Shards[:min(len(in.Shards), control.MaxFindShards)] {
		if row, known := c.table.Row(id); known {
			f.Rows = append(f.Rows, row)
		}
	}
	return f
}

// reportShard reports what became of a shard to whoever has sent the order. That may be another
// region, or a coordinator of an earlier term. So the active coordinator is told too.
func (c *ControlCore) reportShard(to string, msg control.Message) {
	if uid, region := c.releasers[to]; region {
		c.emit(Send{To: to, UID: uid, Msg: msg})
	} else {
		c.report(to, msg)
	}
	switch msg := msg.(type) {
	case control.ShardStopped:
		c.shardReleased(msg)
		return
	case control.ShardStarted:
		c.learn(sharding.Row{Shard: msg.Shard, Owner: c.cfg.Self, Epoch: msg.Epoch, Phase: sharding.Serving})
	case control.HostRefused:
	default:
		return
	}
	if active, _ := c.watcher.Active(); to != "" && active != "" && active != to {
		c.report(active, msg)
	}
}
