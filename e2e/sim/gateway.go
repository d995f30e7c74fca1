package sim

import (
	"time"

	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/gateway"
)

// gatewayNode is the driver of a gateway: the calls of its clients, and a router that watches
// the route table.
type gatewayNode struct {
	*routerNode
	shedder *gateway.Shedder
	ticked  bool // since the last flush
}

func (w *World) gatewayProgram(p *process) program {
	g := &gatewayNode{routerNode: newRouterNode(w, p, newGateway(w, p)), shedder: gateway.NewShedder(16)}
	g.finished = func(c *call, f *router.Finish) { g.shedder.Observe(c.op.entity, c.timeLeft, f, p.now()) }
	p.post(func() { g.step(router.Coordinators{Addrs: w.discovered(), Regions: w.regionAddrs()}) })
	return g
}

func (g *gatewayNode) tick() {
	g.shedder.Drop(g.p.now())
	g.step(router.Tick{})
	g.ticked = true
}

// submit hands a command of a client to the core, unless the gateway sheds it.
func (g *gatewayNode) submit(env sharding.Envelope, timeLeft time.Duration, c *call) {
	if g.shedder.Sheds(env.Entity, timeLeft, g.p.now()) {
		g.w.mark("gateway: command shed")
		limits := router.DefaultConfig()
		c.reply(gateway.Shed(&limits))
		return
	}
	env.Deadline, c.timeLeft = g.p.deadline(timeLeft), timeLeft
	id := g.route(env, c)
	if g.core.Stats().Deferred > 0 {
		g.w.mark("gateway: a command waits for a version that has it")
	}
	if !g.w.calm && g.w.dice("cancel").chance(0.002) && c.op.client != proberID {
		incarnation := g.p.incarnation
		g.w.after(g.w.dice("cancel").between(0, sec), func() {
			if g.p.incarnation != incarnation {
				return
			}
			g.p.post(func() {
				g.flush() // a call that the core has finished already is answered first
				if g.waiting[id] == nil {
					return
				}
				g.w.mark("client went away")
				delete(g.waiting, id)
				g.step(router.Cancel{Request: id})
				c.reply(router.Finish{Reply: sharding.Doubt(sharding.Unavailable, "cancelled")})
			})
		})
	}
}

func (g *gatewayNode) flush() {
	g.routerNode.flush()
	if g.ticked {
		g.ticked = false
		g.checkDeadlines()
	}
}

func (g *gatewayNode) stop() {
	g.closeLinks()
	for _, id := range sortedKeys(g.waiting) {
		g.waiting[id].reply(router.Finish{Reply: sharding.Doubt(sharding.Unavailable, "connection reset")})
	}
}
