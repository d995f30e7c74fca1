package explore

import (
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
)

// host is a region and its driver.
type host struct {
	id      sharding.NodeID
	control *region.ControlCore
	shards  *region.ShardCore // one for all
	stopped sharding.Epoch    // as said with ShardStopped
	bodies  []body
	next    turn.RequestID
}

func (h *host) clone() part {
	c := *h
	c.control, c.shards, c.bodies = h.control.Clone(), h.shards.Clone(), slices.Clone(h.bodies)
	return &c
}

func (h *host) appendState(b []byte) []byte {
	b = fmt.Appendf(b, "%v %v %v %d ", h.id, h.stopped, h.bodies, h.next)
	return h.shards.AppendState(start, h.control.AppendState(start, b))
}

// indexOf is the number of a region process.
func indexOf(id sharding.NodeID) int { return int(id.Addr[1] - '0') }

// body is an instance of the entity.
type body struct {
	inc  turn.Incarnation
	list string // the numbers, a byte each
}

func (w *cluster) startRegion(i int, uid sharding.NodeUID) {
	id := sharding.NodeID{Addr: fmt.Sprintf("r%d", i), UID: uid}
	cfg := region.DefaultConfig(id, id.Addr, turn.Type{Desc: w.desc(i)})
	cfg.Turn.RecentIDs = 0 // what a repeat costs is not what is looked for
	cfg.Resend, cfg.Turn.Retry, cfg.Turn.DrainTimeout = timeoutStep, timeoutStep, timeoutStep
	cfg.JournalPatience = 0 // its questions change nothing but the number of states
	cfg.LoadInterval = 0    // likewise
	w.hosts[i] = &host{id: id, control: region.NewControlCore(cfg), shards: region.NewShardCore(cfg, 0)}
}

// crashRegion begins a new incarnation; the coordinators learn of it one by one.
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
		w.addMessage(fmt.Sprintf("c%d hears that %v is gone and %v is there", c, old, id), ofCoord(c)|ofHost(i), func() {
			w.coordStep(c, coordinator.MemberGone{Node: old})
			w.coordStep(c, coordinator.Member{Node: id, Reachable: true})
			if w.hosts[i].id == id {
				w.register(c, i)
			}
		})
	}
	for k := range w.calls {
		w.calls[k].lost(old)
	}
}

// toRegion sends an order. Once the shard has gone on beyond its epoch, an order that
// changes nothing now never will: the region's minimum epoch and term stay above it.
func (w *cluster) toRegion(from string, to sharding.NodeID, order control.Message) {
	about := order.About()
	m := w.deliver(sharding.NodeID{Addr: from}, to, order)
	m.void = func(e *engine, s *state) bool {
		return hostIn(e, s, to).id != to || !e.bound.Whole && about.Epoch != 0 && pastForAll(e, s, after(about.Epoch)) && e.inert(s, m)
	}
}

// deliver sends a control message to a region.
func (w *cluster) deliver(from, to sharding.NodeID, msg control.Message) *message {
	return w.send(fmt.Sprintf("%v %T %+v from %v", to, msg, msg, from), ofHost(indexOf(to)), func() {
		if w.there(to) {
			w.controlStep(indexOf(to), region.Received{From: from.Addr, UID: from.UID, Msg: msg})
		}
	})
}

// there reports whether a region incarnation is still there.
func (w *cluster) there(id sharding.NodeID) bool { return w.hosts[indexOf(id)].id == id }

// back is an input for the shard core of a region incarnation, if it is still there.
func (w *cluster) back(id sharding.NodeID, in region.ShardInput) {
	if w.there(id) {
		w.shardStep(indexOf(id), in)
	}
}

// controlStep steps the control core of a region. What it orders arrives at once: that the
// two cores of a real region may be apart in time is for the simulation to show.
func (w *cluster) controlStep(i int, in region.ControlInput) {
	h := w.hosts[i]
	out := h.control.Step(w.now, in, nil)
	if err := h.control.Check(); err != nil {
		w.fail("r%d: %v", i, err)
	}
	for _, o := range out {
		switch o := o.(type) {
		case region.ToCore:
			w.shardStep(i, o.Order)
		case region.Send:
			w.sendControl(h.id, o)
		}
	}
}

// shardStep steps the shard core of a region.
func (w *cluster) shardStep(i int, in region.ShardInput) {
	h := w.hosts[i]
	var out region.Outputs
	h.shards.Step(w.now, in, &out)
	if err := h.shards.Check(); err != nil {
		w.fail("r%d: %v", i, err)
	}
	for _, o := range out.Turn {
		w.entityDoes(i, o)
	}
	for _, o := range out.Shard {
		w.regionDoes(i, o)
	}
	for _, e := range out.Events {
		w.controlStep(i, region.FromCore{Event: e})
	}
}

func (w *cluster) regionDoes(i int, o region.ShardOutput) {
	h := w.hosts[i]
	id := h.id
	switch o := o.(type) {
	case region.Claim:
		w.alive(h, o.Epoch)
		claim := sharding.Claim{Shard: o.Shard, Epoch: o.Epoch, Owner: id.UID}
		op := journal.Op{Claim: &claim}
		w.commit(fmt.Sprintf("journal claim %+v", claim), ofHost(i), op, func(r journal.Result) {
			w.back(id, region.Claimed{Shard: o.Shard, Epoch: o.Epoch, Verdict: r.Verdict, Fence: r.Fence})
		}).void = unheard(id, op)
	case region.ReadWakes: // no command here sets any
	case region.NotMine:
		w.refused(id, o.Request)
	case region.Refuse:
		w.refused(id, o.Request)
	}
}

// sendControl answers the coordinator that asked, or sends a message to the other region. An
// answer is void once the row has gone on beyond what the answer is about.
func (w *cluster) sendControl(from sharding.NodeID, o region.Send) {
	if to := (sharding.NodeID{Addr: o.To, UID: o.UID}); o.To == "r0" || o.To == "r1" {
		w.deliver(from, to, o.Msg).void = gone(to)
		return
	}
	if o.To != "c0" && o.To != "c1" {
		panic(fmt.Sprintf("%T goes to %q; every region was told who asks", o.Msg, o.To))
	}
	i, about := int(o.To[1]-'0'), o.Msg.About()
	if m, ok := o.Msg.(control.ShardStopped); ok {
		h := w.hosts[indexOf(from)]
		h.stopped = max(h.stopped, m.Epoch)
	}
	w.toCoord(i, coordinator.Received{From: from, Msg: o.Msg}, func(e *engine, s *state) bool {
		return about.Phase != 0 && past(e, s, i, sharding.Row{Epoch: about.Epoch, Phase: about.Phase})
	})
}

// alive: once a region has said ShardStopped, nothing of the shard at that
// epoch or a lower one lives in it.
func (w *cluster) alive(h *host, e sharding.Epoch) {
	if e <= h.stopped {
		w.fail("%v takes up the shard at epoch %v after ShardStopped(%v)", h.id, e, h.stopped)
	}
}

func (w *cluster) entityDoes(i int, o turn.Output) {
	h := w.hosts[i]
	id := h.id
	entity := func(in turn.Input) { w.back(id, in) }
	switch o := o.(type) {
	case turn.Load:
		w.alive(h, o.Epoch)
		w.addMessage(fmt.Sprintf("%v %+v", id, o), ofHost(i), func() { w.loadEntity(id, o) }).void = gone(id)
	case *turn.Run:
		w.alive(h, o.Epoch)
		run, env := *o, *o.Env // other branches run it after this one's machine has used its memory again
		run.Env = &env
		w.addMessage(fmt.Sprintf("%v runs %v %d %s", id, run.Incarnation, run.Request, env.ID), ofHost(i), func() {
			if k := w.body(id, run.Incarnation); k != nil {
				entity(k.run(&run))
			}
		}).void = gone(id)
	case turn.Append:
		a := o.Append
		text := fmt.Sprintf("journal %v append inc %v epoch %v seq %d", id, o.Incarnation, a.Epoch, a.Records[0].Seq)
		for _, r := range a.Records {
			text += fmt.Sprintf(" %q %q", r.Command, r.Reply.Payload)
		}
		op := journal.Op{Append: &a}
		w.commit(text, ofHost(i), op, func(r journal.Result) {
			entity(turn.Appended{Incarnation: o.Incarnation, Seq: a.Records[0].Seq, Verdict: r.Verdict, Fence: r.Fence})
		}).void = unheard(id, op)
	case turn.ReadFence:
		f := sharding.ReadFence{Shard: o.Shard, Epoch: o.Epoch}
		w.commit(fmt.Sprintf("journal %v fence %v %d", id, o.Epoch, o.Number), ofHost(i), journal.Op{Fence: &f}, func(r journal.Result) {
			entity(turn.FenceRead{Shard: o.Shard, Epoch: o.Epoch, Number: o.Number, Verdict: r.Verdict, Fence: r.Fence})
		}).void = gone(id)
	case turn.Stop:
		h.drop(o.Incarnation)
		entity(turn.Stopped{Incarnation: o.Incarnation})
	case turn.Drop:
		h.drop(o.Incarnation)
	case *turn.Answer:
		w.answered(id, o.Request, o.Reply)
	}
}

// loadEntity reads the entity; what was read arrives later.
func (w *cluster) loadEntity(id sharding.NodeID, o turn.Load) {
	got, _ := w.ledger.Load(journal.LoadRequest{Entity: o.Entity, Lookup: o.Lookup})
	list := ""
	for _, r := range got.Records {
		for _, e := range r.Events {
			list += string(e.Payload)
		}
	}
	in := turn.Loaded{Entity: o.Entity, Incarnation: o.Incarnation, LastSeq: got.LastSeq, Life: got.Life, Fresh: got.Fresh(), Stored: got.Stored}
	i := indexOf(id)
	text := fmt.Sprintf("%v loaded %v seq %d %q %+v only %t", id, o.Incarnation, got.LastSeq, list, got.Stored, o.LookupOnly)
	w.addMessage(text, ofHost(i), func() {
		if w.hosts[i].id == id && !o.LookupOnly {
			w.hosts[i].bodies = append(w.hosts[i].bodies, body{o.Incarnation, list})
		}
		w.back(id, in)
	}).void = gone(id)
}

func (w *cluster) body(id sharding.NodeID, inc turn.Incarnation) *body {
	h := w.hosts[indexOf(id)]
	if i := slices.IndexFunc(h.bodies, func(b body) bool { return h.id == id && b.inc == inc }); i >= 0 {
		return &h.bodies[i]
	}
	return nil
}

func (h *host) drop(inc turn.Incarnation) {
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
	done := turn.TurnDone{Incarnation: o.Incarnation, Request: o.Request, Reply: sharding.Reply{Outcome: sharding.Executed}}
	if o.Env.Command == cmdAdd {
		b.list += string(o.Env.Payload)
		done.Events = []sharding.Event{{Name: "Added", Payload: o.Env.Payload}}
	}
	done.Reply.Payload = []byte(b.list)
	return done
}
