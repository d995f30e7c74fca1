package sim

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

// routerNode is the driver of a router, of a gateway or of a region: it has the links, and the
// calls that have not ended. The maps last to unknown are for checks.
type routerNode struct {
	p       *process
	w       *World
	core    *router.Machine
	sender  *router.Sender[*routerLink]
	numbers uint64 // how many links have come up: the number of the newest one
	dials   uint64 // how many links were dialled: the number of the newest one
	out     []router.Output
	next    router.RequestID
	waiting map[router.RequestID]*call // calls that are not finished
	links   map[sharding.NodeID]*routerLink
	here    *routerLink              // the way into the region that this router is in; nil: it is in a gateway
	wanted  map[sharding.NodeID]bool // regions that the core wants a link to
	dialing map[sharding.NodeID]bool
	last    map[sharding.CommandID]router.SendCommand // how a command was sent last
	sent    map[router.Attempt]router.SendCommand     // attempts that have no answer yet
	refused map[sharding.ShardID]sharding.Epoch       // the highest epoch that a region has refused
	unknown map[sharding.CommandID]bool               // commands that a region has refused because its version lacks them
	// finished, if set, is called with the end of every call.
	finished func(*call, *router.Finish)
}

// call is one attempt of a client at one gateway, or one command of an entity at the router of its region.
type call struct {
	op       *op
	reply    func(router.Finish)
	due      time.Time     // the deadline
	readOnly bool          // the sender relies on it to change nothing
	timeLeft time.Duration // how long before the deadline the call came
}

func newRouterNode(w *World, p *process, core *router.Machine) *routerNode {
	return &routerNode{
		p: p, w: w, core: core,
		sender:  router.NewSender[*routerLink](),
		waiting: map[router.RequestID]*call{},
		links:   map[sharding.NodeID]*routerLink{},
		wanted:  map[sharding.NodeID]bool{},
		dialing: map[sharding.NodeID]bool{},
		last:    map[sharding.CommandID]router.SendCommand{},
		sent:    map[router.Attempt]router.SendCommand{},
		refused: map[sharding.ShardID]sharding.Epoch{},
		unknown: map[sharding.CommandID]bool{},
	}
}

// route hands a command to the core.
func (g *routerNode) route(env sharding.Envelope, c *call) router.RequestID {
	g.next++
	id := g.next
	c.due = env.Deadline
	g.waiting[id] = c
	g.step(router.Submit{Request: id, Env: &env, ReadOnly: c.readOnly})
	return id
}

func (g *routerNode) step(in router.Input) {
	g.w.trace(g.p, "in", in)
	at := len(g.out)
	g.out = g.core.Step(g.p.now(), in, g.out)
	g.w.stepped(g.p, g.core, len(g.out)-at)
	for _, o := range g.out[at:] {
		switch o := o.(type) {
		case router.SendCommand:
			if o.Epoch <= g.refused[o.Shard] {
				g.w.violate("a refused epoch is over", "%s sends to %v at epoch %v after a refusal at %v", g.p.name, o.Shard, o.Epoch, g.refused[o.Shard])
			}
		case router.Finish:
			g.checkVersion(&o)
		}
	}
}

// read is called when the router reads the answer to an attempt. If a region has refused an
// epoch, the epoch is remembered: the router may send nothing at that epoch any more. If a
// region has rejected a command, read counts whether the router learns that in time.
func (g *routerNode) read(a router.Attempt, answer router.Input) {
	s := g.sent[a]
	delete(g.sent, a)
	switch answer := answer.(type) {
	case router.NotMine:
		g.refused[s.Shard] = max(g.refused[s.Shard], s.Epoch)
	case router.Answer:
		// A refusal is read in time if the command was not sent to another owner, or on
		// another link, meanwhile. Then the order of commands must be kept.
		if last := g.last[s.Env.ID]; refuses(&answer.Reply) && s.Epoch == last.Epoch && s.Link == last.Link {
			g.w.refusedUnread[s.Env.ID]--
		}
		if answer.Reply.Code == sharding.UnknownCommand {
			g.unknown[s.Env.ID] = true
		}
	}
	g.step(answer)
}

// overdue is the latest end of a request after its deadline, if the
// router is not paused.
const overdue = 500 * time.Millisecond

func (g *routerNode) flush() {
	g.performAll()
	for in, ok := g.sender.Next(); ok; in, ok = g.sender.Next() {
		g.step(in)
		g.performAll()
	}
}

func (g *routerNode) performAll() {
	for len(g.out) > 0 {
		out := g.out
		g.out = nil
		for _, o := range out {
			g.w.trace(g.p, "out", o)
			g.perform(o)
		}
	}
}

// checkDeadlines checks that every request is finished soon after its deadline.
func (g *routerNode) checkDeadlines() {
	now := g.p.now()
	var late []router.RequestID
	for id, c := range g.waiting { // sorted below
		if now.Sub(c.due) > overdue {
			late = append(late, id)
		}
	}
	slices.Sort(late)
	for _, id := range late {
		g.w.violate("one outcome", "%s: request %d of %v is not finished %v after its deadline", g.p.name, id, g.waiting[id].op, overdue)
	}
}

func (g *routerNode) perform(o router.Output) {
	w := g.w
	switch o := o.(type) {
	case router.SendCommand:
		g.sendCommand(o)
	case router.Finish:
		g.finish(o)
	case router.Connect:
		if g.here != nil && o.Region == g.p.id() {
			g.connectHere()
			return
		}
		if !g.wanted[o.Region] {
			g.wanted[o.Region] = true
			g.dial(o.Region)
		}
	case router.Disconnect:
		w.mark("router: a link is not needed any more")
		delete(g.wanted, o.Region)
		g.sender.Close(o.Region)
		if l := g.links[o.Region]; l != nil {
			l.closeRouter()
		}
	case router.Send:
		if !control.IsCall(o.Msg) {
			w.tell(g.p, sharding.NodeID{Addr: o.To}, o.Msg)
			return
		}
		w.call(g.p, o.To, o.Msg, func(a control.Message) {
			g.step(router.Replied{From: o.To, Asked: o.Msg, Msg: a})
		})
	default:
		w.violate("driver", "router output %T is not known here", o)
	}
}

func (g *routerNode) sendCommand(o router.SendCommand) {
	l, ok := g.sender.Link(&o)
	if !ok {
		g.w.mark("gateway: no link to send on")
		return
	}
	if full := g.w.dice("link full").chance(g.w.weather.LinkFull); full || !l.routerOpen {
		if full {
			g.w.mark("gateway: link full")
		}
		g.sender.Failed(&o)
		return
	}
	g.sent[o.Attempt] = o
	if last, again := g.last[o.Env.ID]; again && last.Epoch < o.Epoch {
		g.w.mark("gateway: command enters again at a newer epoch")
	}
	g.last[o.Env.ID] = o
	left := g.p.left(o.Env.Deadline)
	env := o.Env
	l.toRegion(o.Attempt, func() { l.region.command(l, o.Attempt, o.Epoch, env, left) })
}

func (g *routerNode) finish(o router.Finish) {
	c := g.waiting[o.Request]
	if c == nil {
		g.w.violate("one outcome", "%s: request %d is finished twice, or was never submitted", g.p.name, o.Request)
		return
	}
	delete(g.waiting, o.Request)
	g.step(router.Delivered{Bytes: o.Held})
	if o.Attempts > 1 {
		g.w.mark("gateway: command sent again")
	}
	if g.finished != nil {
		g.finished(c, &o)
	}
	c.reply(o)
}

// checkVersion checks how a command ended that not all versions of the regions have. If the
// router refuses it without sending it, the owner of its shard must really lack it, by the table
// that the router has now: when the refusal arrives, the shard may have another owner.
func (g *routerNode) checkVersion(o *router.Finish) {
	w, c := g.w, g.waiting[o.Request]
	if c == nil {
		return // finish is about that
	}
	op := c.op
	switch {
	case o.Reply.Code != sharding.UnknownCommand:
		if o.Reply.Outcome == sharding.Executed && g.unknown[op.key] {
			w.mark("gateway: a command has come to a version that has it")
		}
		return
	case o.Attempts > 0:
		w.mark("gateway: a command has come to a version that lacks it")
		return
	}
	w.mark("gateway: a command that the shard's region lacks is not sent")
	for _, t := range types {
		if t.Type != op.entity.Type {
			continue
		}
		row, _ := g.core.Table().Row(t.ShardOf(op.entity.ID))
		p := w.process(row.Owner.Addr)
		if p == nil {
			continue
		}
		n, up := p.body.(*regionNode)
		if !up || p.uid != row.Owner.UID {
			continue // the owner has ended; its version is not known here any more
		}
		for _, hosted := range n.cfg.Turn.Types {
			if _, has := hosted.Desc.Command(op.cmd); has && hosted.Desc.Type == t.Type {
				w.violate("what has a home is served", "%s refuses %v, which %s has", g.p.name, op, p.name)
			}
		}
	}
}

// dial tries to open a link to a region incarnation. It tries again and again, until the link
// is up or the core does not want it any more.
func (g *routerNode) dial(to sharding.NodeID) {
	if g.dialing[to] || g.links[to] != nil || !g.wanted[to] {
		return
	}
	g.dialing[to] = true
	g.dials++
	id, number := link.LaneID{Client: g.p.uid}, g.dials
	w, d, incarnation := g.w, g.w.dice("dial"), g.p.incarnation
	region, generation := w.process(to.Addr), g.core.Generation()
	settled := false
	settle := func(l *routerLink) {
		if settled || g.p.incarnation != incarnation {
			if l != nil {
				l.closeRegion()
			}
			return
		}
		settled = true
		delete(g.dialing, to)
		switch {
		case l == nil:
			w.after(d.between(50*ms, 400*ms), func() {
				if g.p.incarnation == incarnation {
					g.dial(to)
				}
			})
		case !g.wanted[to]:
			l.closeRegion()
		default:
			g.linked(l)
		}
	}
	if w.net.blocked(g.p.host, region.host) || d.chance(w.weather.Loss) {
		w.after(d.between(200*ms, sec), func() { settle(nil) })
		return
	}
	w.after(w.net.delay(), func() {
		other := region.up && generation.Other(region.opened)
		if other {
			w.mark("link: refused, because the table is of another generation")
		}
		if !region.up || region.uid != to.UID || other {
			w.after(w.net.delay(), func() { settle(nil) }) // refused
			return
		}
		region.post(func() {
			region.body.(*regionNode).accept(g, to, id, number, func(l *routerLink) {
				switch {
				case !w.net.blocked(region.host, g.p.host):
					w.after(w.net.delay(), func() { settle(l) })
				case l != nil:
					w.after(d.between(200*ms, sec), l.closeRegion)
				}
			})
		})
	})
	w.after(d.between(sec, 2*sec), func() { settle(nil) })
}

func (g *routerNode) linked(l *routerLink) {
	g.numbers++
	l.routerOpen, l.number = true, g.numbers
	g.links[l.to] = l
	g.p.post(func() {
		if g.wanted[l.to] {
			g.flush() // outputs that are older than the link are performed without it
			g.sender.Up(router.LinkUp{Region: l.to, Link: l.number}, l)
			g.flush()
		}
	})
	if !l.regionOpen { // the region has closed its end meanwhile
		g.w.after(g.w.net.delay(), l.closeRouter)
	}
}

// linkLost is called when the gateway's end of a link is closed. unsent are the commands that
// were certainly not written to it. Everything that was read from the link comes first.
func (g *routerNode) linkLost(l *routerLink, unsent []router.Attempt) {
	if g.links[l.to] == l {
		delete(g.links, l.to)
		g.p.post(func() {
			g.flush()
			g.sender.Down(router.LinkDown{Region: l.to, Link: l.number}, unsent)
			g.flush()
		})
		g.w.after(g.w.dice("link").between(10*ms, 300*ms), func() { g.dial(l.to) })
	}
}

// closeLinks ends the links of a router that is gone.
func (g *routerNode) closeLinks() {
	for _, to := range sortedNodes(g.links) {
		l := g.links[to]
		l.routerOpen = false
		if g.w.dice("link").chance(0.5) {
			l.up.reset = true // commands that are still in progress are lost
		}
		l.announceClose(&l.up, l.closeRegion)
	}
}
