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
// epoch that is reserved for the successor. When this region has released the shard, it sends
// HostShard to the successor itself. It repeats HostShard until it knows a row of the shard with a
// higher epoch. Regions and gateways that wait for the shard send FindShards to the owner that they
// know, which is this region. The answer tells them that the successor serves the shard.

// handover is a shard of this region for which HandOff has named a successor.
type handover struct {
	order    control.HandOff // the newest HandOff
	released bool            // the shard is released, and HostShard is sent to the successor
	toldAt   time.Time       // when HostShard was last sent
	until    time.Time       // from then on HostShard is not sent any more
}

// handOffTo stores the successor that a HandOff names.
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

// shardReleased tells the successor of a shard that this region has released the shard.
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

// tickHandovers sends HostShard again to successors that have not answered.
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

// successor returns the handover of a shard, if the region at the address from is its successor at
// epoch e.
func (c *ControlCore) successor(from string, id sharding.ShardID, e sharding.Epoch) (handover, bool) {
	h, found := c.handovers[id]
	return h, found && h.order.Successor.Addr == from && (h.order.Next == e || mutant.On("successor-epoch"))
}

// successorStarted takes the message of a successor that has claimed the shard.
func (c *ControlCore) successorStarted(from string, in control.ShardStarted) {
	if h, is := c.successor(from, in.Shard, in.Epoch); is {
		c.learn(sharding.Row{Shard: in.Shard, Owner: h.order.Successor, Epoch: in.Epoch, Phase: sharding.Serving})
	}
}

// successorRefused ends a handover that the successor has refused. A coordinator must then find
// another owner.
func (c *ControlCore) successorRefused(from string, in control.HostRefused) {
	if _, is := c.successor(from, in.Shard, in.Epoch); is {
		delete(c.handovers, in.Shard)
	}
}

// taken reports whether this region must obey a HostShard that the previous owner has sent. The fact
// behind such an order was stored in the term that the order names. That term may have ended, and the
// shard may have a later owner by now. If this region knows a later owner, it refuses the shard.
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

// learn takes a row that is true. A coordinator may not have stored it yet.
func (c *ControlCore) learn(row sharding.Row) {
	if !c.table.Merge(row) {
		return
	}
	rows := []sharding.Row{row}
	c.endHandovers(rows)
	if row.Owner != c.cfg.Self { // otherwise the shard core knows the row already
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

// reportShard answers an order about a shard. The sender of the order may be another region, or a
// coordinator of an earlier term. So reportShard sends the answer to the active coordinator too.
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
