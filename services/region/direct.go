package region

import (
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A direct handoff can complete without a coordinator. HandOff names the successor of the shard, and
// the epoch that is reserved for the successor. When this region has released the shard, it sends
// HostShard to the successor itself. It repeats HostShard until it knows a row of the shard with a
// higher epoch. Regions and gateways that wait for the shard send FindShards to the owner that they
// know, which is this region. The answer tells them that the successor serves the shard.

// directHandoff is a shard of this region with a successor that HandOff has named.
type directHandoff struct {
	order    control.HandOff // the newest HandOff
	released bool            // the shard is released, and HostShard is sent to the successor
	toldAt   time.Time       // when HostShard was last sent
	until    time.Time       // from then on HostShard is not sent any more
}

// handOffTo notes the successor that a HandOff names.
func (c *ControlCore) handOffTo(in control.HandOff) {
	if in.Next <= in.Epoch || in.Next.Term() > in.Term || in.Successor.IsZero() || in.Successor == c.cfg.Self {
		return
	}
	if row, known := c.table.Row(in.Shard); known && row.Epoch > in.Epoch {
		return // a later owner has the shard
	}
	h := c.directHandoffs[in.Shard]
	if in.Next < h.order.Next {
		return
	}
	if in.Next > h.order.Next {
		h = directHandoff{}
	}
	h.order = in
	c.directHandoffs[in.Shard] = h
}

// shardReleased tells the successor of a shard that this region has released the shard.
func (c *ControlCore) shardReleased(in control.ShardStopped) {
	h, found := c.directHandoffs[in.Shard]
	// Invariant: a handoff that has begun can complete while there is no coordinator.
	// Guarded by: `region.tellSuccessor`, `learn`, `withLaterRow`; `router.inquire`. `coordinator.elected` repeats the
	// orders of the previous term at once.
	// Mutants: successor-told, successor-told-again, refused-row, owner-asked, order-repeated
	if !found || h.released || in.Epoch < h.order.Epoch { //mutant:true successor-told
		return
	}
	h.released, h.until = true, c.now.Add(c.cfg.SuccessorTimeout)
	c.tellSuccessor(h)
}

func (c *ControlCore) tellSuccessor(h directHandoff) {
	h.toldAt = c.now
	c.directHandoffs[h.order.Shard] = h
	o := h.order
	c.emit(Send{To: o.Successor.Addr, UID: o.Successor.UID, Msg: control.HostShard{Term: o.Term, Shard: o.Shard, Epoch: o.Next, Released: true, Table: c.demandedTable(o)}})
}

// tickDirectHandoffs sends HostShard again to successors that have not answered.
func (c *ControlCore) tickDirectHandoffs() {
	if len(c.directHandoffs) == 0 {
		return
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.directHandoffs), sharding.ShardID.Compare) {
		h := c.directHandoffs[id]
		switch {
		case !h.released:
		case !c.now.Before(h.until):
			delete(c.directHandoffs, id)
		case c.now.Sub(h.toldAt) >= c.cfg.Resend: //mutant:false successor-told-again
			c.tellSuccessor(h)
		}
	}
}

// endDirectHandoffs ends the direct handoffs of shards that have rows with higher epochs.
func (c *ControlCore) endDirectHandoffs(rows []sharding.Row) {
	for _, row := range rows {
		if h, found := c.directHandoffs[row.Shard]; found && row.Epoch > h.order.Epoch {
			delete(c.directHandoffs, row.Shard)
		}
	}
}

// successor returns the direct handoff of a shard. If the region with the address from is not the
// shard's successor at epoch e, successor returns false.
func (c *ControlCore) successor(from string, id sharding.ShardID, e sharding.Epoch) (directHandoff, bool) {
	h, found := c.directHandoffs[id]
	//mutant:true successor-epoch h.order.Next == e
	return h, found && h.order.Successor.Addr == from && h.order.Next == e
}

// successorStarted takes the message of a successor that has claimed the shard.
func (c *ControlCore) successorStarted(from string, in control.ShardStarted) {
	if h, is := c.successor(from, in.Shard, in.Epoch); is {
		c.learn(sharding.Row{Shard: in.Shard, Owner: h.order.Successor, Epoch: in.Epoch, Phase: sharding.Serving})
	}
}

// successorRefused ends a direct handoff that the successor has refused. The successor may have served
// the shard and handed it off to a third region, while its ShardStarted got lost. Then the refusal has
// the newer row of the shard. Otherwise a coordinator must find another owner.
func (c *ControlCore) successorRefused(from string, in control.HostRefused) {
	if _, is := c.successor(from, in.Shard, in.Epoch); !is {
		return
	}
	delete(c.directHandoffs, in.Shard)
	if in.Row.Shard == in.Shard && in.Row.Epoch >= in.Epoch {
		c.learn(in.Row)
	}
}

// withLaterRow adds the newest row of the shard to a refusal, if this region has served the shard at the
// refused epoch or later. The refusal goes to the previous owner. Routers that wait for the shard may ask
// the previous owner where the shard is, and the previous owner may not know that this region has
// ever served it.
func (c *ControlCore) withLaterRow(msg control.HostRefused) control.HostRefused {
	if row, known := c.table.Row(msg.Shard); known && row.Epoch >= msg.Epoch { //mutant:false refused-row
		msg.Row = row
	}
	return msg
}

// takes reports whether this region obeys a HostShard that the previous owner has sent. The fact
// behind such an order was stored in the term that the order names. That term may have ended, and the
// shard may have a later owner by now. If this region knows a later owner, it refuses the shard.
func (c *ControlCore) takes(from sharding.NodeID, in control.HostShard) bool {
	if in.Epoch == 0 || in.Epoch.Term() > in.Term {
		return false
	}
	c.releasers[from.Addr] = from.UID
	if row, known := c.table.Row(in.Shard); known && row.Epoch > in.Epoch { //mutant:false released-gone-on
		c.reportShard(from.Addr, control.HostRefused{Shard: in.Shard, Epoch: in.Epoch, Above: row.Epoch})
		return false
	}
	return true
}

// learn merges a row into the route table of this region. The row comes from a region that serves, or has
// served, the shard. The coordinator may not have stored it yet.
func (c *ControlCore) learn(row sharding.Row) {
	if !c.table.Merge(row) {
		return
	}
	rows := []sharding.Row{row}
	c.endDirectHandoffs(rows)
	if row.Owner != c.cfg.Self { // otherwise the shard core knows the row already
		c.forward(rows)
	}
	c.feed(sharding.TableDelta{Version: c.table.Version(), Generation: c.table.Generation(), Rows: rows})
	c.hastenSends(nil, rows, nil) // when the coordinator's row comes, it is not news any more
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
		answer := msg
		if refused, is := msg.(control.HostRefused); is {
			answer = c.withLaterRow(refused)
		}
		c.emit(Send{To: to, UID: uid, Msg: answer})
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
