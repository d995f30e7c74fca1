package sim

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/gateway"
)

// gatewayNode is the driver of a gateway: it has its links and the calls of its clients. The
// last four fields are for checks.
type gatewayNode struct {
	p       *process
	w       *World
	core    *gateway.Machine
	shedder *gateway.Shedder
	sender  *gateway.Sender[*gatewayLink]
	numbers uint64 // how many links have come up: the number of the newest one
	dials   uint64 // how many links were dialled: the number of the newest one
	out     []gateway.Output
	next    gateway.RequestID
	waiting map[gateway.RequestID]*call // calls that are not finished
	links   map[sharding.NodeID]*gatewayLink
	wanted  map[sharding.NodeID]bool // regions to which the core wants a link
	dialing map[sharding.NodeID]bool
	ticked  bool                                       // since the last flush
	last    map[sharding.CommandID]gateway.SendCommand // how a command was sent last
	sent    map[gateway.Attempt]gateway.SendCommand    // attempts that have no answer yet
	refused map[sharding.ShardID]sharding.Epoch        // the highest epoch that a region has refused
	unknown map[sharding.CommandID]bool                // commands that a region has refused because its version lacks them
}

// call is one attempt of a client at one gateway.
type call struct {
	op       *op
	reply    func(gateway.Finish)
	due      time.Time     // the deadline
	timeLeft time.Duration // how long before the deadline the call came
}

func (w *World) gatewayProgram(p *process) program {
	g := &gatewayNode{
		p: p, w: w,
		shedder: gateway.NewShedder(16),
		sender:  gateway.NewSender[*gatewayLink](),
		waiting: map[gateway.RequestID]*call{},
		links:   map[sharding.NodeID]*gatewayLink{},
		wanted:  map[sharding.NodeID]bool{},
		dialing: map[sharding.NodeID]bool{},
		last:    map[sharding.CommandID]gateway.SendCommand{},
		sent:    map[gateway.Attempt]gateway.SendCommand{},
		refused: map[sharding.ShardID]sharding.Epoch{},
		unknown: map[sharding.CommandID]bool{},
	}
	g.core = newGateway(w, p)
	p.post(func() { g.step(gateway.Coordinators{Addrs: w.discovered(), Regions: w.regionAddrs()}) })
	return g
}

func (g *gatewayNode) step(in gateway.Input) {
	g.w.trace(g.p, "in", in)
	at := len(g.out)
	g.out = g.core.Step(g.p.now(), in, g.out)
	g.w.stepped(g.p, g.core, len(g.out)-at)
	for _, o := range g.out[at:] {
		if s, ok := o.(gateway.SendCommand); ok && s.Epoch <= g.refused[s.Shard] {
			g.w.violate("a refused epoch is over", "%s sends to %v at epoch %v after a refusal at %v", g.p.name, s.Shard, s.Epoch, g.refused[s.Shard])
		}
	}
}

// read is called when the gateway reads the answer to an attempt. If a region has refused an
// epoch, the epoch is remembered: the gateway may send nothing at that epoch any more. If a
// region has rejected a command, read counts whether the gateway learns that in time.
func (g *gatewayNode) read(a gateway.Attempt, answer gateway.Input) {
	s := g.sent[a]
	delete(g.sent, a)
	switch answer := answer.(type) {
	case gateway.NotMine:
		g.refused[s.Shard] = max(g.refused[s.Shard], s.Epoch)
	case gateway.Answer:
		// A rejection is read in time if the command was not sent to another owner, or on
		// another link, meanwhile. Then the order of commands must be kept.
		if last := g.last[s.Env.ID]; answer.Reply.Outcome == sharding.Rejected && s.Epoch == last.Epoch && s.Link == last.Link {
			g.w.refusedUnread[s.Env.ID]--
		}
		if answer.Reply.Code == sharding.UnknownCommand {
			g.unknown[s.Env.ID] = true
		}
	}
	g.step(answer)
}

func (g *gatewayNode) tick() {
	g.shedder.Forget(g.p.now())
	g.step(gateway.Tick{})
	g.ticked = true
}

// overdue is how long after its deadline a request must be finished at the latest, if the
// gateway is not paused.
const overdue = 500 * time.Millisecond

func (g *gatewayNode) flush() {
	g.performAll()
	for in, ok := g.sender.Next(); ok; in, ok = g.sender.Next() {
		g.step(in)
		g.performAll()
	}
	if g.ticked {
		g.ticked = false
		g.checkDeadlines()
	}
}

func (g *gatewayNode) performAll() {
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
func (g *gatewayNode) checkDeadlines() {
	now := g.p.now()
	var late []gateway.RequestID
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

func (g *gatewayNode) perform(o gateway.Output) {
	w := g.w
	switch o := o.(type) {
	case gateway.SendCommand:
		g.sendCommand(o)
	case gateway.Finish:
		g.finish(o)
	case gateway.Connect:
		if !g.wanted[o.Region] {
			g.wanted[o.Region] = true
			g.dial(o.Region)
		}
	case gateway.Disconnect:
		delete(g.wanted, o.Region)
		g.sender.Close(o.Region)
		if l := g.links[o.Region]; l != nil {
			l.closeGateway()
		}
	case gateway.Send:
		if !control.IsCall(o.Msg) {
			w.tell(g.p, sharding.NodeID{Addr: o.To}, o.Msg)
			return
		}
		w.call(g.p, o.To, o.Msg, func(a control.Message) {
			g.step(gateway.Replied{From: o.To, Asked: o.Msg, Msg: a})
		})
	default:
		w.violate("driver", "gateway output %T is not known here", o)
	}
}

func (g *gatewayNode) sendCommand(o gateway.SendCommand) {
	l, ok := g.sender.Link(&o)
	if !ok {
		g.w.mark("gateway: no link to send on")
		return
	}
	if full := g.w.dice("link full").chance(g.w.weather.LinkFull); full || !l.gwOpen {
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

func (g *gatewayNode) finish(o gateway.Finish) {
	c := g.waiting[o.Request]
	if c == nil {
		g.w.violate("one outcome", "%s: request %d is finished twice, or was never submitted", g.p.name, o.Request)
		return
	}
	delete(g.waiting, o.Request)
	g.checkVersion(c.op, o)
	g.step(gateway.Delivered{Bytes: o.Held})
	if o.Attempts > 1 {
		g.w.mark("gateway: command sent again")
	}
	g.shedder.Observe(c.op.entity, c.timeLeft, &o, g.p.now())
	c.reply(o)
}

// checkVersion checks how a command ended that not all versions of the regions have. If the
// gateway refuses it without sending it, the owner of its shard must really lack it.
func (g *gatewayNode) checkVersion(op *op, o gateway.Finish) {
	w := g.w
	switch {
	case o.Reply.Code != sharding.UnknownCommand:
		if o.Reply.Outcome == sharding.OK && g.unknown[op.key] {
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
		row, _ := g.core.Table().Row(sharding.ShardID{Type: t.Type, Index: sharding.ShardOf(op.entity.ID, t.Shards)})
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

// submit hands a command of a client to the core, unless the gateway sheds it.
func (g *gatewayNode) submit(env sharding.Envelope, timeLeft time.Duration, c *call) {
	if g.shedder.Sheds(env.Entity, timeLeft, g.p.now()) {
		g.w.mark("gateway: command shed")
		c.reply(gateway.DefaultConfig().Shed())
		return
	}
	g.next++
	id := g.next
	env.Deadline = g.p.deadline(timeLeft)
	c.due, c.timeLeft = env.Deadline, timeLeft
	g.waiting[id] = c
	g.step(gateway.Submit{Request: id, Env: &env})
	if g.core.Stats().Deferred > 0 {
		g.w.mark("gateway: a command waits for a version that has it")
	}
	if !g.w.calm && g.w.dice("cancel").chance(0.002) && c.op.client != proberID {
		gen := g.p.gen
		g.w.after(g.w.dice("cancel").between(0, sec), func() {
			if g.p.gen != gen {
				return
			}
			g.p.post(func() {
				g.flush() // a call that the core has finished already is answered first
				if g.waiting[id] == nil {
					return
				}
				g.w.mark("client went away")
				delete(g.waiting, id)
				g.step(gateway.Cancel{Request: id})
				c.reply(gateway.Finish{Reply: sharding.Doubt(sharding.Unavailable, "cancelled")})
			})
		})
	}
}

// dial tries to open a link to a region incarnation. It tries again and again, until the link
// is up or the core does not want it any more.
func (g *gatewayNode) dial(to sharding.NodeID) {
	if g.dialing[to] || g.links[to] != nil || !g.wanted[to] {
		return
	}
	g.dialing[to] = true
	g.dials++
	id, number := link.LaneID{Client: g.p.uid}, g.dials
	w, d, gen := g.w, g.w.dice("dial"), g.p.gen
	region := w.process(to.Addr)
	settled := false
	settle := func(l *gatewayLink) {
		if settled || g.p.gen != gen {
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
				if g.p.gen == gen {
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
		if !region.up || region.uid != to.UID {
			w.after(w.net.delay(), func() { settle(nil) }) // refused
			return
		}
		region.post(func() {
			region.body.(*regionNode).accept(g, to, id, number, func(l *gatewayLink) {
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

func (g *gatewayNode) linked(l *gatewayLink) {
	g.numbers++
	l.gwOpen, l.number = true, g.numbers
	g.links[l.to] = l
	g.p.post(func() {
		if g.wanted[l.to] {
			g.flush() // outputs that are older than the link are performed without it
			g.sender.Up(gateway.LinkUp{Region: l.to, Link: l.number}, l)
			g.flush()
		}
	})
	if !l.regionOpen { // the region has closed its end meanwhile
		g.w.after(g.w.net.delay(), l.closeGateway)
	}
}

// linkLost is called when the gateway's end of a link is closed. unsent are the commands that
// were certainly not written to it. Everything that was read from the link comes first.
func (g *gatewayNode) linkLost(l *gatewayLink, unsent []gateway.Attempt) {
	if g.links[l.to] == l {
		delete(g.links, l.to)
		g.p.post(func() {
			g.flush()
			g.sender.Down(gateway.LinkDown{Region: l.to, Link: l.number}, unsent)
			g.flush()
		})
		g.w.after(g.w.dice("link").between(10*ms, 300*ms), func() { g.dial(l.to) })
	}
}

func (g *gatewayNode) stop() {
	for _, to := range sortedNodes(g.links) {
		l := g.links[to]
		l.gwOpen = false
		if g.w.dice("link").chance(0.5) {
			l.up.reset = true // commands that are still under way are lost
		}
		l.announceClose(&l.up, l.closeRegion)
	}
	for _, id := range sortedKeys(g.waiting) {
		g.waiting[id].reply(gateway.Finish{Reply: sharding.Doubt(sharding.Unavailable, "connection reset")})
	}
}
