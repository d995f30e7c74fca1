package sim

import (
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/gateway"
)

// In harsh weather replies have a size, and a link takes its time for every byte.
// A region holds what it owes; what it may owe is bounded, and commands for which
// there is no room wait unread in their order. A gateway that is paused, or now and
// then for no reason, reads nothing, and is cut off when that lasts.

// Sizes of replies, and what a region may owe.
const (
	largeReply = 3_000
	smallReply = 300
)

var replyLimits = replies.Config{Total: 24_000, Connection: 12_000, Largest: largeReply, Unknown: largeReply}

// silence is how long a gateway may read nothing while replies wait for it.
const silence = sec

// owing is what a region knows of the replies that it owes.
type owing struct {
	budget *replies.Budget
	kinds  map[string]*replies.Kind
	posted bool // somebody will look at what waits unread
}

// kind is that of a command; what a tell is answered at once says nothing.
func (o *owing) kind(env *sharding.Envelope) *replies.Kind {
	name := string(env.Entity.Type) + "/" + env.Command
	if env.Tell && !env.Keyed {
		name = "tell"
	}
	k := o.kinds[name]
	if k == nil {
		k = &replies.Kind{}
		o.kinds[name] = k
	}
	return k
}

// buffer is the region's end of a link, with all that waits there.
type buffer struct {
	account replies.Account
	unread  []unread
	frames  []outgoing
	unsent  int   // bytes of frames
	moved   int64 // when the last byte was taken, or the first one came
	deaf    int64 // until when the gateway reads nothing
	timer   bool
}

// unread is a command that waits for room.
type unread struct {
	env  *sharding.Envelope
	take func(replies.Ticket)
}

// outgoing is an answer that waits for the link.
type outgoing struct {
	size  int
	frame func()
}

// read takes a command up if there is room for its reply and nothing waits before
// it.
func (n *regionNode) read(l *link, env *sharding.Envelope, take func(replies.Ticket)) {
	if n.owes == nil {
		take(replies.Ticket{})
		return
	}
	l.buffer.unread = append(l.buffer.unread, unread{env, take})
	n.readOn(l)
	if len(l.buffer.unread) > 0 {
		n.w.mark("region: a command waits unread for room")
	}
}

// readOn takes up what waits while there is room.
func (n *regionNode) readOn(l *link) {
	b := &l.buffer
	for len(b.unread) > 0 && l.rgOpen {
		u := b.unread[0]
		ticket, ok := n.owes.budget.Admit(&b.account, n.owes.kind(u.env))
		if !ok {
			return
		}
		b.unread = b.unread[1:]
		u.take(ticket)
	}
}

// readAll has the region look soon at all that waits.
func (n *regionNode) readAll() {
	if n.owes.posted {
		return
	}
	n.owes.posted = true
	n.p.post(func() {
		n.owes.posted = false
		for _, l := range n.links {
			n.readOn(l)
		}
	})
}

// send sends an answer and counts it.
func (n *regionNode) send(t ticket, in gateway.Input, frame func()) {
	if n.owes == nil {
		t.link.toGateway(frame)
		return
	}
	size, learned := replies.Overhead, 0
	if a, ok := in.(gateway.Answer); ok && a.Reply.Outcome == sharding.OK && !(t.env.Tell && !t.env.Keyed) {
		if size = smallReply; t.env.Command == cmdGet || t.env.Command == cmdAdd2 {
			size = largeReply
		}
		learned = size
	}
	if size > t.room.Expected() && !n.owes.budget.Grow(&t.room, size) {
		n.w.violate("a reply finds room", "%s: the answer to %q of %d bytes, for which there was room before it ran", n.p.name, t.key, size)
	}
	l := t.link
	l.hold(outgoing{size, frame})
	n.owes.budget.Unsent(&l.buffer.account, l.buffer.unsent)
	n.owes.budget.Answered(t.room, learned)
	held := 0
	for _, l := range n.links {
		held += l.buffer.unsent
	}
	if held > replyLimits.Total {
		n.w.violate("replies are bounded", "%s holds %d bytes of replies, at most %d are allowed", n.p.name, held, replyLimits.Total)
	}
	n.readAll()
}

// hold keeps an answer until the link has taken it.
func (l *link) hold(o outgoing) {
	b := &l.buffer
	if !l.rgOpen {
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
func (l *link) drain() {
	w, b := l.w, &l.buffer
	if b.timer || len(b.frames) == 0 || !l.rgOpen {
		return
	}
	b.timer = true
	again := func(after int64, then func()) {
		w.after(after, func() {
			b.timer = false
			if l.rgOpen {
				then()
				l.drain()
			}
		})
	}
	if w.dice("replies").chance(w.weather.Harsh.Deaf) {
		b.deaf = max(b.deaf, w.now+w.dice("replies").between(100*ms, 3*sec))
	}
	reads := func() bool { return !l.gateway.p.paused && w.now >= b.deaf }
	if reads() {
		again(int64(b.frames[0].size)*w.weather.Harsh.PerByte, func() {
			o := b.frames[0]
			b.frames = b.frames[1:]
			b.unsent -= o.size
			b.moved = w.now
			l.toGateway(o.frame)
			l.region.owes.budget.Unsent(&b.account, b.unsent)
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

// forgetReplies drops all that waits at the region's end.
func (l *link) forgetReplies() {
	if l.region.owes == nil {
		return
	}
	l.buffer.unread, l.buffer.frames, l.buffer.unsent = nil, nil, 0
	l.region.owes.budget.Unsent(&l.buffer.account, 0)
	l.region.readAll()
}
