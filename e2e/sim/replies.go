package sim

import (
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

// In harsh weather replies have a size, and a link takes its time for every byte.
// A region holds what it owes; what it may owe is bounded, and commands that find
// no room wait, with the later ones for the same entity. A gateway that is paused, or from time
// to time for no reason, reads nothing, and is cut off when that lasts.

// Sizes of replies, and what a region may owe.
const (
	largeReply = 3_000
	smallReply = 300
)

var replyLimits = replies.Config{
	Total: 24_000, Connection: 12_000, Largest: largeReply, Unknown: largeReply,
	EntityShare: 0.75, Waiting: 20, WaitingBytes: 100_000, WaitingShare: 0.5,
}

// silence bounds the time that a gateway reads nothing while replies wait for it.
const silence = sec

// replyBudget is a region's account of the replies that it owes.
type replyBudget struct {
	budget    *replies.Budget
	estimates map[string]*replies.SizeEstimate
	short     replies.SizeEstimate // of refusals, and of mere acknowledgements
	posted    bool                 // the unread replies will be checked
}

// estimate returns the estimate for a command. A tell is answered at once, without a result.
func (o *replyBudget) estimate(env *sharding.Envelope) *replies.SizeEstimate {
	name := string(env.Entity.Type) + "/" + env.Command
	if env.Tell && !env.Keyed {
		return &o.short
	}
	k := o.estimates[name]
	if k == nil {
		k = &replies.SizeEstimate{}
		o.estimates[name] = k
	}
	return k
}

// buffer is the region's end of a link, with all that waits there.
type buffer struct {
	queue  replies.Queue[command]
	unread []command
	frames []outgoing
	unsent int   // bytes of frames
	moved  int64 // when the last byte was taken, or the first one came
	deaf   int64 // until when the gateway reads nothing
	timer  bool
}

// command is one that has arrived.
type command struct {
	env *sharding.Envelope
	// take hands it over, or refuses it if there is a reason.
	take func(ticket replies.Ticket, refused string)
}

// outgoing is an answer that waits for the link.
type outgoing struct {
	size  int
	frame func()
}

// whenRoom calls take when there is room for the command's reply, or with the reason of the
// refusal.
func (n *regionNode) whenRoom(l *routerLink, env *sharding.Envelope, take func(replies.Ticket, string)) {
	if n.replyBudget == nil {
		take(replies.Ticket{}, "")
		return
	}
	l.buffer.unread = append(l.buffer.unread, command{env, take})
	n.readOn(l)
}

// readOn continues with the waiting commands, and with later ones.
func (n *regionNode) readOn(l *routerLink) {
	q, budget := &l.buffer.queue, n.replyBudget.budget
	for _, late := range q.Late(budget, n.p.now(), &n.replyBudget.short) {
		n.w.mark("region: a command has waited too long for room")
		late.Command.take(late.Ticket, "there was no room for the reply in time")
	}
	for {
		c, ticket, ok := q.Next(budget)
		if !ok {
			break
		}
		n.w.mark("region: a command has waited for room")
		c.take(ticket, "")
	}
	for len(l.buffer.unread) > 0 {
		c, refused := l.buffer.unread[0], ""
		ticket, verdict := q.Admit(budget, n.p.now(), &replies.Request{
			Entity: c.env.Entity, Estimate: n.replyBudget.estimate(c.env), Size: c.env.Size(), Deadline: c.env.Deadline,
		}, &c)
		if verdict == replies.Full {
			var ok bool
			if ticket, ok = budget.Reserve(&q.Account, &n.replyBudget.short); !ok {
				return
			}
			n.w.mark("region: too many commands wait for room")
			refused = "too many wait for room"
		}
		l.buffer.unread = l.buffer.unread[1:]
		switch verdict {
		case replies.Waits:
			n.w.mark("region: a command waits for room")
		case replies.Dropped:
			n.w.mark("region: a command comes behind what was dropped")
		default:
			c.take(ticket, refused)
		}
	}
}

// readAll has the region look soon at all that waits.
func (n *regionNode) readAll() {
	if n.replyBudget.posted {
		return
	}
	n.replyBudget.posted = true
	n.p.post(func() {
		n.replyBudget.posted = false
		for _, l := range n.links {
			n.readOn(l)
		}
	})
}

// send sends an answer and counts it.
func (n *regionNode) send(c caller, in router.Input, frame func()) {
	if n.replyBudget == nil {
		c.link.toRouter(frame)
		return
	}
	size, learned := replies.Overhead, 0
	if a, ok := in.(router.Answer); ok && a.Reply.Outcome == sharding.Executed && !(c.env.Tell && !c.env.Keyed) {
		if size = smallReply; c.env.Command == cmdGet || c.env.Command == cmdAdd2 {
			size = largeReply
		}
		learned = size
	}
	if size > c.ticket.Expected() && !n.replyBudget.budget.Grow(&c.ticket, size) {
		n.w.violate("a reply finds room", "%s: the answer to %q of %d bytes, which had room before it ran", n.p.name, c.key, size)
	}
	l := c.link
	if l.isLocal() { // the router has it at once
		n.replyBudget.budget.Answered(c.ticket, learned)
		l.toRouter(frame)
		n.readAll()
		return
	}
	l.hold(outgoing{size, frame})
	n.replyBudget.budget.SetUnsent(&l.buffer.queue.Account, l.buffer.unsent)
	n.replyBudget.budget.Answered(c.ticket, learned)
	held := 0
	for _, l := range n.links {
		held += l.buffer.unsent
	}
	if held > int(replyLimits.Total) || l.buffer.unsent > int(replyLimits.Connection) {
		n.w.violate("replies are bounded", "%s holds %d bytes of replies, and %d of one link; at most %d and %d are allowed", n.p.name, held, l.buffer.unsent, replyLimits.Total, replyLimits.Connection)
	}
	n.readAll()
}

// hold keeps an answer until the link has taken it.
func (l *routerLink) hold(o outgoing) {
	b := &l.buffer
	if !l.regionOpen {
		return
	}
	if len(b.frames) == 0 {
		b.moved = l.w.now
	}
	b.frames = append(b.frames, o)
	b.unsent += o.size
	l.drain()
}

// drain lets the link take one answer after the other, while the gateway reads.
func (l *routerLink) drain() {
	w, b := l.w, &l.buffer
	if b.timer || len(b.frames) == 0 || !l.regionOpen {
		return
	}
	b.timer = true
	again := func(after int64, then func()) {
		w.after(after, func() {
			b.timer = false
			if l.regionOpen {
				then()
				l.drain()
			}
		})
	}
	if w.dice("replies").chance(w.weather.Harsh.Deaf) {
		b.deaf = max(b.deaf, w.now+w.dice("replies").between(100*ms, 3*sec))
	}
	reads := func() bool { return !l.router.p.paused && w.now >= b.deaf }
	if reads() {
		again(int64(b.frames[0].size)*w.weather.Harsh.PerByte, func() {
			o := b.frames[0]
			b.frames = b.frames[1:]
			b.unsent -= o.size
			b.moved = w.now
			l.toRouter(o.frame)
			l.region.replyBudget.budget.SetUnsent(&b.queue.Account, b.unsent)
			l.region.readAll()
		})
		return
	}
	again(50*ms, func() {
		if w.now-b.moved > silence && !reads() {
			w.mark("region: a gateway that reads nothing is cut off")
			l.closeRegion()
		}
	})
}

// dropReplies drops all that waits at the region's end.
func (l *routerLink) dropReplies() {
	if l.region.replyBudget == nil {
		return
	}
	l.buffer.unread, l.buffer.frames, l.buffer.unsent = nil, nil, 0
	l.buffer.queue.Drop(l.region.replyBudget.budget)
	l.region.readAll()
}
