package sim

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// In the harsh climate entities send commands to others: the turn of a Forward has another
// entity add a number, under a key of its own, and ends when that is answered. The region
// routes such a command by itself.

// forwarded is the number that the other entity adds.
func forwarded(x uint64) uint64 { return x | 1<<60 }

// forwardOf returns the command that the Forward of an entity sends, as the checkers know it.
// It is the same one whenever the Forward runs again.
func (w *World) forwardOf(env *sharding.Envelope) *op {
	x := decodeNumber(env.Payload)
	if o := w.forwards[x]; o != nil {
		return o
	}
	at := int(x*7+3) % len(w.entities)
	if w.entities[at] == env.Entity { // which waits for the answer
		at = (at + 1) % len(w.entities)
	}
	o := &op{id: int(x), client: forwarderID, entity: w.entities[at], cmd: cmdAdd, x: forwarded(x), key: sharding.CommandID(fmt.Sprintf("f%d", x)), keyed: true, called: w.now}
	if _, timed := journal.KeyTime(env.ID); timed {
		o.key = env.ID[:len(env.ID)-12] + sharding.CommandID(fmt.Sprintf("%012x", x|1<<40))
	}
	w.forwards[x] = o
	return o
}

// forwarderID is the client of commands between entities.
const forwarderID = -1

// newRegionRouter makes the router of a region. Its times are so short that links are closed
// and made again within a run.
func newRegionRouter(w *World, p *process) *router.Machine {
	cfg := router.DefaultConfig()
	cfg.Process, cfg.Fed = "region", true
	cfg.DefaultTimeout, cfg.MaxTimeout, cfg.LinkIdle = nanos(2*sec), nanos(2*sec), nanos(3*sec)
	if w.dice("router limits").chance(0.2) {
		cfg.MaxWaiting, cfg.MaxTotal = 2, 6
	}
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return router.New(cfg)
}

// startRouter makes the region's router with the first command of an entity.
func (n *regionNode) startRouter() {
	if n.router != nil {
		return
	}
	n.router = newRouterNode(n.w, n.p, newRegionRouter(n.w, n.p))
	n.router.here = &gatewayLink{w: n.w, gateway: n.router, region: n, to: n.p.id(), regionOpen: true}
	n.links = append(n.links, n.router.here)
	n.stepControl(region.FeedRouter{})
}

// isHere reports whether this is no link, but the way from a region's router into its inbox:
// nothing gets lost there, and the order is kept.
func (l *gatewayLink) isHere() bool { return l.gateway.here == l }

// connectHere opens the way into the region's own inbox.
func (g *routerNode) connectHere() {
	g.numbers++
	g.here.gwOpen, g.here.number = true, g.numbers
	g.sender.Up(router.LinkUp{Region: g.p.id(), Link: g.numbers}, g.here)
}

// forward sends the command of a Forward, and calls over with the end of its turn.
func (n *shardNode) forward(o *turn.Run, over func(sharding.Reply)) {
	w := n.w
	n.startRouter()
	f := w.forwardOf(o.Env)
	env := sharding.Envelope{
		Entity: f.entity, Command: f.cmd, ID: f.key, Keyed: true, Payload: number(f.x), Deadline: o.Env.Deadline, Principal: o.Env.Principal,
	}
	if env.Deadline.IsZero() {
		env.Deadline = n.p.deadline(nanos(sec))
	}
	t := &try{called: w.now}
	f.tries = append(f.tries, t)
	n.router.route(env, &call{op: f, reply: func(answer router.Finish) {
		if t.returned != 0 {
			w.violate("one outcome", "%s: the command that %v sends is answered twice", n.p.name, o.Entity)
		}
		t.returned, t.reply = w.now, answer.Reply
		t.list, t.told = decodeList(answer.Reply.Payload)
		switch {
		case answer.Region == n.p.id():
			w.mark("forward: answered by the same region")
		case !answer.Region.IsZero():
			w.mark("forward: answered by another region")
		}
		w.mark("forward: " + answer.Reply.Outcome.String())
		over(answer.Reply)
	}})
}

// forwardDone is the end of the turn of a Forward, by the answer to the command that it sent.
// The entity itself does not change.
func forwardDone(l list, answer *sharding.Reply) turn.TurnDone {
	if answer.Outcome != sharding.OK || answer.Code != "" {
		return turn.TurnDone{Reply: sharding.Reply{Outcome: sharding.OK, Code: sharding.Aborted, Message: fmt.Sprintf("%v %s: %s", answer.Outcome, answer.Code, answer.Message)}}
	}
	return turn.TurnDone{Reply: sharding.Reply{Outcome: sharding.OK, Payload: l.encode()}}
}

// forwards checks the commands between entities like those of clients, and that a client which
// was told that a Forward has succeeded can rely on what it has done elsewhere.
func (c *checker) forwards() {
	w := c.w
	for _, x := range sortedKeys(w.forwards) {
		f := w.forwards[x]
		if w.volatile(f.entity) {
			continue
		}
		c.effects(f)
		for _, t := range f.tries {
			if t.returned > 0 && t.reply.Outcome == sharding.OK {
				c.answer(f, t)
			}
		}
		c.sameReplies(f)
		for _, t := range w.byID[x].tries {
			if t.returned == 0 || t.reply.Outcome != sharding.OK || t.reply.Code != "" {
				continue
			}
			if at := c.where[f.x]; len(at) == 0 || c.pasts[f.entity].elements[at[0]-1].at > t.returned {
				w.violate("what is forwarded is done", "%v succeeded, and %v of it took effect at %v", w.byID[x], f, at)
			}
		}
	}
}
