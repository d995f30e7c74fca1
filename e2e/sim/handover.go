package sim

import (
	"slices"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// handOffAlone is a check in calm weather. A region is drained, and all coordinators die as soon as
// it has heard of that. The handoffs that it has heard of end nevertheless: the successors claim the
// shards at the epochs that are reserved for them, and commands for these shards are answered.
func (w *World) handOffAlone(stop func() bool) {
	d := w.dice("handover")
	if stop() || len(w.activeCoordinators()) != 1 || d.chance(0.5) {
		return
	}
	list := slices.DeleteFunc(w.shuffled(d), func(e sharding.Entity) bool {
		return w.volatile(e) || w.ownerOf(e).IsZero() || w.journal.doubtful[e]
	})
	if len(list) == 0 {
		return
	}
	e := list[0]
	shard := w.shardOf(e)
	owner, ok := w.process(w.ownerOf(e).Addr).body.(*regionNode)
	if !ok {
		return
	}
	w.unsteer()
	w.drain(w.ownerOf(e))
	told := func() control.HandOff { return owner.handOffs[shard] }
	row := w.rowOf(e)
	for end := w.now + 2*sec; w.now < end && !stop() && told().Epoch != row.Epoch; {
		w.run(w.now+ms, stop)
	}
	// Routers must know who hands the shard off: they ask it who has the shard then. If it has only
	// just come there from a third region, some still ask that one, and need a coordinator.
	justCame := w.now-w.journal.claimedAt[shard] < sec
	if stop() || told().Epoch != row.Epoch || told().Next == 0 || justCame {
		w.resumeRegions()
		return
	}
	for _, p := range w.processes[:coordinators] {
		p.crash("the coordinators are to be gone")
	}
	c := w.idleClient(len(w.clients) + 5)
	o := c.draw(e, true, 0)
	o.cmd, o.tell, o.called = cmdGet, false, w.now
	c.send(o, d.IntN(gateways), nanos(10*sec))
	claimed := func() bool { return w.journal.highest[shard].Epoch >= told().Next }
	w.run(w.now+3*sec, func() bool { return stop() || claimed() && o.pending == 0 })
	if !stop() {
		if !claimed() {
			w.violate("a handoff ends without a coordinator", "nobody claims %v at %v: %+v", shard, told().Next, w.journal.highest[shard])
		} else if r := o.tries[len(o.tries)-1].reply; o.pending > 0 || r.Outcome != sharding.OK {
			w.violate("a handoff ends without a coordinator", "%v is claimed, and %v waits: %d, %v %s", shard, o, o.pending, r.Outcome, r.Message)
		}
		w.mark("handoff: it ends without a coordinator")
	}
	for _, p := range w.processes[:coordinators] {
		p.start()
	}
	for end := w.now + 30*sec; w.now < end && !stop() && (len(w.activeCoordinators()) == 0 || w.ownerOf(e).IsZero()); {
		w.run(w.now+20*ms, stop)
	}
	if row := w.rowOf(e); !stop() && row.Epoch != told().Next {
		w.mark("handoff: the next coordinator has moved the shard on")
	} else if !stop() {
		w.mark("handoff: the next coordinator has adopted it")
	}
	w.resumeRegions()
}
