package sim

import (
	"cmp"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Turns of several Forwards can wait for each other in a circle. The checks here know from the plans
// of the asks who waits for whom.

// gaveUp is the state at the moment when a turn learns that it waits in a circle.
type gaveUp struct {
	at       int64
	circle   []*ask // what the turns of the circle wait for; nil: there is no circle any more
	youngest *ask   // the ask of the turn that began to wait last
}

// gaveUpNow returns the circle of a turn that learns now that it waits in one. f is its ask.
func (w *World) gaveUpNow(f *ask) gaveUp {
	circle := []*ask{f}
	for e := f.entity; e != f.asker.entity; {
		next := w.waitOf(e)
		if next == nil || slices.Contains(circle, next) {
			return gaveUp{at: w.now}
		}
		circle, e = append(circle, next), next.entity
	}
	return gaveUp{w.now, circle, youngestOf(circle)}
}

// waitOf returns what the running turn of an entity waits for, or nil.
func (w *World) waitOf(e sharding.Entity) *ask {
	for _, p := range w.processes {
		n, ok := p.body.(*regionNode)
		if !ok || !p.up {
			continue
		}
		for _, s := range n.shards {
			for _, b := range s.instances { // order-free: one instance of an entity runs a turn
				if b.entity == e && b.waitsFor != nil && b.waitsFor.waits {
					return b.waitsFor
				}
			}
		}
	}
	return nil
}

// youngestOf returns what the turn waits for that began to wait last, by the clocks of the processes.
func youngestOf(circle []*ask) *ask {
	return slices.MaxFunc(circle, func(a, b *ask) int {
		return cmp.Or(a.since.Compare(b.since), a.asker.entity.Compare(b.asker.entity))
	})
}

// isDeadlock reports whether a reply refuses a turn because it waits in a circle.
func isDeadlock(r *sharding.Reply) bool {
	return r.Code == sharding.Aborted && strings.HasPrefix(r.Message, "deadlock")
}

// circle makes Forwards whose turns wait for each other in a circle of entities, if they run at the
// same time. Either each asks the next entity; or, if along is set, the first one asks along a chain
// to the last entity, and a Forward of the last entity asks the first one. waits are the commands
// that they wait for.
func (c *client) circle(list []sharding.Entity, along bool, hold int64) (sent []*op, waits []*ask) {
	w, last := c.w, len(list)-1
	if !along {
		for i, e := range list {
			o := c.newForward(e, hold)
			sent, waits = append(sent, o), append(waits, w.addAsk(o, []sharding.Entity{e}, list[(i+1)%len(list)], cmdAdd))
		}
		return sent, waits
	}
	back := c.newForward(list[last], hold)
	waits = append(waits, w.addAsk(back, list[last:], list[0], cmdAdd))
	first := c.newForward(list[0], 0)
	asker := first
	for i := range last {
		cmd := cmdForward
		if i+1 == last {
			cmd = cmdAdd
		}
		f := w.addAsk(asker, list[:i+1], list[i+1], cmd)
		asker, waits = &f.op, append(waits, f)
	}
	return []*op{back, first}, waits
}

// drawCircle draws two to five entities that are not damaged.
func (w *World) drawCircle(d dice) []sharding.Entity {
	list := w.shuffled(d)
	return list[:min(len(list), 2+d.IntN(4))]
}

// sendCircle sends commands that probably end up waiting for each other.
func (w *World) sendCircle() {
	d := w.dice("circles")
	list := w.drawCircle(d)
	if len(list) < 2 {
		return
	}
	c := w.idleClient(len(w.clients) + 2)
	sent, _ := c.circle(list, d.chance(0.5), d.between(0, 100*ms))
	for _, o := range sent {
		c.gateway = d.IntN(gateways)
		c.send(o, c.gateway, nanos(d.between(sec, 6*sec)))
	}
}

// closeCircle is a check in calm weather: when turns wait for each other in a circle, the circle is
// found, even if a shard on the way drains, and the turn that began to wait last gives up.
func (w *World) closeCircle(stop func() bool) {
	d := w.dice("last circle")
	list := w.drawCircle(d)
	if stop() || len(list) < 2 {
		return
	}
	c := w.idleClient(len(w.clients) + 3)
	sent, waits := c.circle(list, d.chance(0.5), 300*ms)
	for _, o := range sent {
		c.send(o, d.IntN(gateways), nanos(10*sec))
	}
	var youngest *ask // of the closed circle
	drains, lostUntil := d.chance(0.3), int64(0)
	over := func(o *op) bool { return o.pending == 0 }
	for end := w.now + 12*sec; w.now < end && !stop() && !all(sent, over); {
		w.run(w.now+5*ms, stop)
		if youngest == nil && all(waits, func(f *ask) bool { return f.waits && f.came && !f.ran }) {
			if youngest = youngestOf(waits); drains {
				w.drain(w.ownerOf(list[0]))
				lostUntil = w.now + 300*ms // the routers of regions give an ask up after 2 s
			}
		}
		// The circle is found by probes that are sent again, and come into the shard that drains.
		w.losesTurnProbes = w.now < lostUntil && w.rowOf(list[0]).Phase != sharding.HandingOff
	}
	w.losesTurnProbes = false
	w.resumeRegions()
	if stop() || youngest == nil {
		return
	}
	w.mark("ask: a circle in calm weather")
	if !slices.ContainsFunc(waits, func(f *ask) bool { return f.noRoom }) {
		w.checkCircle(waits, youngest)
	}
}

// crowded reports whether a region may have no room for probes. Then a circle ends by a deadline.
func (w *World) crowded() bool {
	return slices.ContainsFunc(w.processes, func(p *process) bool {
		n, ok := p.body.(*regionNode)
		return ok && (n.crowdedRouter || n.replyBudget != nil)
	})
}

// checkCircle checks which of the turns that waited for each other gave up. youngest is the ask of
// the turn that began to wait last when they did. It may run again, and give up again.
func (w *World) checkCircle(waits []*ask, youngest *ask) {
	type told struct {
		ask *ask
		gaveUp
	}
	var list []told
	for _, f := range waits {
		for _, g := range f.gaveUp {
			list = append(list, told{f, g})
		}
	}
	slices.SortStableFunc(list, func(a, b told) int { return cmp.Compare(a.at, b.at) })
	found := false
	for _, g := range list {
		last := youngest
		switch {
		// After one turn has given up, the turn of another command can close a circle with turns that
		// still wait, or the same turn runs again, at another region with another clock. That circle
		// ends by its own youngest turn.
		case slices.ContainsFunc(g.circle, func(a *ask) bool { return !slices.Contains(waits, a) }):
			w.mark("ask: another command closes a circle again")
			last = g.youngest
		case found && g.circle != nil:
			w.mark("ask: the same command closes a circle again")
			last = g.youngest
		default:
			found = true
		}
		if g.ask != last {
			w.violate("a circle ends by its youngest turn", "%v gave up in a circle in which %v began to wait last", g.ask.asker.entity, last.asker.entity)
		}
	}
	if !found && !w.crowded() {
		w.violate("a circle ends by its youngest turn", "no turn gave up, though the turn of %v began to wait last", youngest.asker.entity)
	}
}
