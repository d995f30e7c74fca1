package explore

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
)

// host is a region and its driver.
type host struct {
	id      sharding.NodeID
	core    *region.Machine
	stopped sharding.Epoch // as said with ShardStopped
	bodies  []body
	next    turn.RequestID
}

// body is an instance of the entity.
type body struct {
	inc  turn.Incarnation
	list string // the numbers, a byte each
}

func (w *cluster) startRegion(i int, uid sharding.NodeUID) {
	id := sharding.NodeID{Addr: fmt.Sprintf("r%d", i), UID: uid}
	cfg := region.DefaultConfig(id, id.Addr, turn.Type{Desc: desc})
	cfg.Resend, cfg.Turn.Retry, cfg.Turn.DrainTimeout = tick, tick, tick
	w.hosts[i] = host{id: id, core: region.New(cfg)}
}

// crashRegion begins a new incarnation; the coordinators hear of it one by one.
func (w *cluster) crashRegion(i int) {
	old := w.hosts[i].id
	w.startRegion(i, old.UID+2)
	id := w.hosts[i].id
	for c := range w.coords {
		if !w.coords[c].live { // whose decisions come later
			w.coordStep(c, coordinator.MemberGone{Node: old})
			w.coordStep(c, coordinator.Member{Node: id, Reachable: true})
			continue
		}
		w.after(sharding.NodeID{}, fmt.Sprintf("c%d hears that %v is gone and %v is there", c, old, id), func(n *cluster) {
			n.coordStep(c, coordinator.MemberGone{Node: old})
			n.coordStep(c, coordinator.Member{Node: id, Reachable: true})
			if n.hosts[i].id == id {
				n.register(c, i)
			}
		})
	}
	for k := range w.calls {
		w.calls[k].lost(old)
	}
}

func (w *cluster) toRegion(to sharding.NodeID, in region.Input) {
	w.send(to, fmt.Sprintf("%v %T %+v", to, in, in), func(n *cluster) {
		for i := range n.hosts {
			if n.hosts[i].id == to {
				n.regionStep(i, in)
			}
		}
	})
}

// back is an answer to a region incarnation.
func (w *cluster) back(id sharding.NodeID, in region.Input) {
	for i := range w.hosts {
		if w.hosts[i].id == id {
			w.regionStep(i, in)
		}
	}
}

func (w *cluster) regionStep(i int, in region.Input) {
	h := &w.hosts[i]
	out := h.core.Step(w.now, in, nil)
	if err := h.core.Check(); err != nil {
		w.fail("r%d: %v", i, err)
	}
	for _, o := range out {
		w.regionDoes(i, o)
	}
}

func (w *cluster) regionDoes(i int, o region.Output) {
	h := &w.hosts[i]
	id := h.id
	switch o := o.(type) {
	case region.Claim:
		w.alive(h, o.Epoch)
		claim := sharding.Claim{Shard: o.Shard, Epoch: o.Epoch, Owner: id.UID}
		w.commit(id, fmt.Sprintf("journal claim %+v", claim), journal.Op{Claim: &claim}, func(n *cluster, r journal.Result) {
			n.back(id, region.Claimed{Shard: o.Shard, Epoch: o.Epoch, Verdict: r.Verdict, Fence: r.Fence})
		})
	case region.ShardStarted:
		w.answerCoord(o.To, coordinator.ShardStarted{Region: id, Shard: o.Shard, Epoch: o.Epoch})
	case region.HostRefused:
		w.answerCoord(o.To, coordinator.HostRefused{Region: id, Shard: o.Shard, Epoch: o.Epoch, Above: o.Above})
	case region.ShardStopped:
		h.stopped = max(h.stopped, o.Epoch)
		w.answerCoord(o.To, coordinator.ShardStopped{Region: id, Shard: o.Shard, Epoch: o.Epoch})
	case region.NotMine:
		w.refused(id, o.Request)
	case region.Refuse:
		w.refused(id, o.Request)
	case region.Entity:
		w.entityDoes(i, o.Output)
	}
}

func (w *cluster) answerCoord(to string, in coordinator.Input) {
	i := w.active()
	if to == "c0" || to == "c1" {
		i = int(to[1] - '0')
	}
	w.toCoord(i, in)
}

// alive: once a region has said ShardStopped, nothing of the shard at that
// epoch or a lower one lives in it.
func (w *cluster) alive(h *host, e sharding.Epoch) {
	if e <= h.stopped {
		w.fail("%v takes up the shard at epoch %v after ShardStopped(%v)", h.id, e, h.stopped)
	}
}

func (w *cluster) entityDoes(i int, o turn.Output) {
	h := &w.hosts[i]
	id := h.id
	entity := func(n *cluster, in turn.Input) { n.back(id, region.Turn{Input: in}) }
	switch o := o.(type) {
	case turn.Load:
		w.alive(h, o.Epoch)
		w.after(id, fmt.Sprintf("%v %+v", id, o), func(n *cluster) { n.load(id, o) })
	case turn.Run:
		w.alive(h, o.Epoch)
		w.after(id, fmt.Sprintf("%v runs %d %d %s", id, o.Incarnation, o.Request, o.Env.ID), func(n *cluster) {
			if k := n.body(id, o.Incarnation); k != nil {
				entity(n, k.run(&o))
			}
		})
	case turn.Append:
		a := o.Append
		text := fmt.Sprintf("journal %v append inc %d epoch %v seq %d", id, o.Incarnation, a.Epoch, a.Records[0].Seq)
		for _, r := range a.Records {
			text += fmt.Sprintf(" %q %q", r.Command, r.Reply.Payload)
		}
		w.commit(id, text, journal.Op{Append: &a}, func(n *cluster, r journal.Result) {
			entity(n, turn.Appended{Entity: a.Entity, Incarnation: o.Incarnation, Seq: a.Records[0].Seq, Verdict: r.Verdict, Fence: r.Fence})
		})
	case turn.ReadFence:
		f := sharding.ReadFence{Shard: o.Shard, Epoch: o.Epoch}
		w.commit(id, fmt.Sprintf("journal %v fence %v %d", id, o.Epoch, o.Number), journal.Op{Fence: &f}, func(n *cluster, r journal.Result) {
			entity(n, turn.FenceRead{Shard: o.Shard, Epoch: o.Epoch, Number: o.Number, Verdict: r.Verdict, Fence: r.Fence})
		})
	case turn.Stop:
		h.forget(o.Incarnation)
		entity(w, turn.Stopped{Entity: o.Entity, Incarnation: o.Incarnation})
	case turn.Drop:
		h.forget(o.Incarnation)
	case turn.Answer:
		w.answered(id, o.Request, o.Reply)
	}
}

// load reads the entity; what was read arrives later.
func (w *cluster) load(id sharding.NodeID, o turn.Load) {
	got, _ := w.ledger.Load(journal.LoadRequest{Entity: o.Entity, Lookup: o.Lookup})
	list := ""
	for _, r := range got.Records {
		for _, e := range r.Events {
			list += string(e.Payload)
		}
	}
	in := turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation, LastSeq: got.LastSeq, Stored: got.Stored}
	w.after(id, fmt.Sprintf("%v loaded %d seq %d %q %+v", id, o.Incarnation, got.LastSeq, list, got.Stored), func(n *cluster) {
		for i := range n.hosts {
			if n.hosts[i].id == id && !o.LookupOnly {
				n.hosts[i].bodies = append(n.hosts[i].bodies, body{o.Incarnation, list})
			}
		}
		n.back(id, region.Turn{Input: in})
	})
}

func (w *cluster) body(id sharding.NodeID, inc turn.Incarnation) *body {
	for i := range w.hosts {
		for k := range w.hosts[i].bodies {
			if b := &w.hosts[i].bodies[k]; w.hosts[i].id == id && b.inc == inc {
				return b
			}
		}
	}
	return nil
}

func (h *host) forget(inc turn.Incarnation) {
	var left []body
	for _, b := range h.bodies {
		if b.inc != inc {
			left = append(left, b)
		}
	}
	h.bodies = left
}

// run is the handler of the entity: a list of numbers.
func (b *body) run(o *turn.Run) turn.TurnDone {
	done := turn.TurnDone{Entity: o.Entity, Incarnation: o.Incarnation, Request: o.Request, Reply: sharding.Reply{Outcome: sharding.OK}}
	if o.Env.Command == cmdAdd {
		b.list += string(o.Env.Payload)
		done.Events = []sharding.Event{{Name: "Added", Payload: o.Env.Payload}}
	}
	done.Reply.Payload = []byte(b.list)
	return done
}
