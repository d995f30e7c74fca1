package sim

import (
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
)

// watchTimeout is when the caller of a watch gives up.
const watchTimeout = 2500 * ms

// watchAnswer is the answer to a watch: a delta, or who is active, or nothing.
type watchAnswer struct {
	failed bool
	delta  *sharding.TableDelta
	active sharding.NodeID
	term   sharding.Term
}

// watch polls the table at an address on behalf of a process. done runs once,
// in the process's loop. A refused connection is noticed at once.
func (w *World) watch(p *process, to string, v sharding.Version, done func(watchAnswer)) {
	target := w.process(to)
	gen, over := p.gen, false
	answer := func(a watchAnswer) {
		if p.gen == gen && !over {
			over = true
			p.post(func() { done(a) })
		}
	}
	w.after(watchTimeout, func() { answer(watchAnswer{failed: true}) })
	if target == nil {
		w.violate("driver", "%s watches unknown address %q", p.name, to)
		return
	}
	w.net.send(p.host, target.host, func() {
		if !target.up {
			w.net.send(target.host, p.host, func() { answer(watchAnswer{failed: true}) })
			return
		}
		target.post(func() {
			reply := func(a watchAnswer) {
				w.net.send(target.host, p.host, func() { answer(a) })
			}
			switch b := target.body.(type) {
			case *coordNode:
				b.serveWatch(v, reply)
			case *regionNode: // read-only, at once
				w.mark("table served by a region")
				delta := b.core.Table().Delta(v)
				reply(watchAnswer{delta: &delta})
			default:
				reply(watchAnswer{failed: true})
			}
		})
	})
}

// tell sends a datagram to the coordinator process at an address.
func (w *World) tell(p *process, to string, read func(*coordNode)) {
	target := w.process(to)
	if target == nil {
		w.violate("driver", "%s sends to unknown address %q", p.name, to)
		return
	}
	w.net.send(p.host, target.host, func() {
		target.post(func() {
			if c, ok := target.body.(*coordNode); ok {
				read(c)
			}
		})
	})
}

// tellRegion sends a datagram to a region incarnation; another one at its
// address does not take it.
func (w *World) tellRegion(p *process, to sharding.NodeID, read func(*regionNode)) {
	target := w.process(to.Addr)
	if target == nil {
		w.violate("driver", "%s sends to unknown address %q", p.name, to.Addr)
		return
	}
	w.net.send(p.host, target.host, func() {
		target.post(func() {
			if target.uid != to.UID {
				w.mark("message to a former incarnation")
				return
			}
			if n, ok := target.body.(*regionNode); ok {
				read(n)
			}
		})
	})
}

func (n *regionNode) hostShard(from string, o coordinator.HostShard) {
	n.obey(o.Term, region.HostShard{From: from, Term: o.Term, Shard: o.Shard, Epoch: o.Epoch})
}

func (n *regionNode) handOff(from string, o coordinator.HandOff) {
	n.obey(o.Term, region.HandOff{From: from, Term: o.Term, Shard: o.Shard, Epoch: o.Epoch})
}

// obey takes an order. After one of a higher term it must not be heard.
func (n *regionNode) obey(term sharding.Term, order region.Input) {
	at := len(n.out)
	n.step(order)
	if term < n.term && len(n.out) > at {
		n.w.violate("the newest term decides", "%s heard of term %d and obeys %+v: %+v", n.p.name, n.term, order, n.out[at:])
	}
	n.term = max(n.term, term)
}

func (n *regionNode) registerAck(o coordinator.RegisterAck) {
	n.step(region.RegisterAck{Term: o.Term, Refusal: o.Refusal})
}

func (n *regionNode) shutdownAck(o coordinator.ShutdownAck) {
	n.step(region.ShutdownAck{Term: o.Term, Remaining: o.Remaining})
}
