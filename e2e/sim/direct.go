package sim

import (
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// lastHandoff is the handoff of the shard of an entity, in calm weather.
type lastHandoff struct {
	entity sharding.Entity
	row    sharding.Row // before the handoff
	owner  *regionNode
}

// beginLastHandoff drains the owner of a shard. It returns false if there is none that can be drained.
func (w *World) beginLastHandoff(d dice, stop func() bool) (h lastHandoff, ok bool) {
	if stop() || len(w.activeCoordinators()) != 1 || d.chance(0.5) {
		return h, false
	}
	list := slices.DeleteFunc(w.shuffled(d), func(e sharding.Entity) bool {
		return w.volatile(e) || w.ownerOf(e).IsZero() || w.journal.doubtful[e]
	})
	if len(list) == 0 {
		return h, false
	}
	h.entity = list[0]
	if h.owner, ok = w.process(w.ownerOf(h.entity).Addr).body.(*regionNode); !ok {
		return h, false
	}
	w.unsteer()
	w.drain(w.ownerOf(h.entity))
	h.row = w.rowOf(h.entity)
	return h, true
}

// get calls the entity of a handoff.
func (w *World) get(h lastHandoff, d dice) *op {
	c := w.idleClient(len(w.clients) + 5)
	o := c.draw(h.entity, true, 0)
	o.cmd, o.tell, o.called = cmdGet, false, w.now
	c.send(o, d.IntN(gateways), nanos(10*sec))
	return o
}

// handOffUntold is a check in calm weather. All coordinators die when the fact that a shard is handed
// off is stored, and before the owner has been told. The next coordinator continues at once.
func (w *World) handOffUntold(stop func() bool) {
	const atMost = 500 * ms // from the moment when a coordinator is active
	d := w.dice("untold handover")
	h, ok := w.beginLastHandoff(d, stop)
	if !ok {
		return
	}
	shard := h.row.Shard
	fact := func() coordinator.RowFact { return w.journal.handedOff[shard] }
	w.run(w.now+2*sec, func() bool { return stop() || fact().Row.Epoch == h.row.Epoch })
	if stop() || fact().Row.Epoch != h.row.Epoch || fact().Next == 0 {
		w.resumeRegions()
		return
	}
	for _, p := range w.processes[:coordinators] {
		p.crash("the fact is stored, and no process knows it")
	}
	w.run(w.now+100*ms, stop)
	if told := h.owner.handOffs[shard]; !stop() && told.Epoch == h.row.Epoch {
		w.violate("no process knows a fact that is not durable", "%v was told to hand %v off at %v", h.row.Owner, shard, told.Epoch)
	}
	for _, p := range w.processes[:coordinators] {
		p.start()
	}
	w.run(w.now+30*sec, func() bool { return stop() || len(w.activeCoordinators()) > 0 })
	o := w.get(h, d)
	w.run(w.now+atMost, func() bool {
		return stop() || o.returned() && w.journal.highest[shard].Epoch >= fact().Next
	})
	if top := w.journal.highest[shard]; !stop() && (!o.returned() || top.Epoch < fact().Next) {
		w.violate("the next coordinator continues with a handoff at once", "%v is claimed at %v, and %v is expected; the call has returned: %t", shard, top.Epoch, fact().Next, o.returned())
	} else if !stop() {
		w.mark("handoff: the next coordinator continues with one that no process knows")
	}
	w.settleHandoff(h, stop)
}

// settleHandoff waits until a coordinator says again who serves the shard of a handoff, and ends the
// drain.
func (w *World) settleHandoff(h lastHandoff, stop func() bool) {
	for end := w.now + 30*sec; w.now < end && !stop() && (len(w.activeCoordinators()) == 0 || w.ownerOf(h.entity).IsZero()); {
		w.run(w.now+20*ms, stop)
	}
	w.resumeRegions()
}

// handOffAlone is a check in calm weather. A region is drained, and all coordinators die as soon as
// it has heard of that. The handoffs that it has heard of end nevertheless: the successors claim the
// shards at the epochs that are reserved for them, and commands for these shards are answered, if only because
// there is no room for them.
func (w *World) handOffAlone(stop func() bool) {
	d := w.dice("handover")
	h, ok := w.beginLastHandoff(d, stop)
	if !ok {
		return
	}
	e, row, owner := h.entity, h.row, h.owner
	shard := row.Shard
	told := func() control.HandOff { return owner.handOffs[shard] }
	for end := w.now + 2*sec; w.now < end && !stop() && told().Epoch != row.Epoch; {
		w.run(w.now+ms, stop)
	}
	if stop() || told().Epoch != row.Epoch || told().Next == 0 {
		w.resumeRegions()
		return
	}
	for _, p := range w.processes[:coordinators] {
		p.crash("the coordinators are to be gone")
	}
	o := w.get(h, d)
	claimed := func() bool { return w.journal.highest[shard].Epoch >= told().Next }
	w.run(w.now+3*sec, func() bool { return stop() || claimed() && o.pending == 0 })
	if !stop() {
		if !claimed() {
			w.violate("a handoff ends without a coordinator", "no region claims %v at %v: %+v", shard, told().Next, w.journal.highest[shard])
		} else if r := o.tries[len(o.tries)-1].reply; o.pending > 0 || r.Outcome != sharding.Executed && r.Code != sharding.ResourceExhausted {
			w.violate("a handoff ends without a coordinator", "%v is claimed, and %v waits: %d, %v %s", shard, o, o.pending, r.Outcome, r.Message)
		}
		w.mark("handoff: it ends without a coordinator")
	}
	for _, p := range w.processes[:coordinators] {
		p.start()
	}
	w.settleHandoff(h, stop)
	if row := w.rowOf(e); !stop() && row.Epoch != told().Next {
		w.mark("handoff: the next coordinator has moved the shard on")
	} else if !stop() {
		w.mark("handoff: the next coordinator has adopted it")
	}
}
