package sim

import (
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

// routerLink is a link between a router, of a gateway or of a region, and a region incarnation. It
// has one lane: a stream of frames that is reliable and in order until it breaks. The two ends
// notice a break at different times; frames that an end has not read by then are lost. The
// link.Readers of the region decide when the region reads the link. The router.Sender of the router
// decides about writes to it.
type routerLink struct {
	w                      *World
	router                 *routerNode
	region                 *regionNode
	to                     sharding.NodeID
	laneID                 link.LaneID
	number                 uint64 // at the gateway, of those that were up
	routerOpen, regionOpen bool
	up, down               direction // to the region, to the router
	buffer                 buffer
	unread                 int    // commands that have come from the router of the same region, and whose answers it has not read
	welcomed               func() // is called when the region begins to read the link

	handing bool     // the region's reader is held up while it hands over a command
	behind  []func() // reads of the commands that have come meanwhile
}

// frame is something on its way; attempt is 0 on the way to the router.
type frame struct {
	attempt router.Attempt
	arrive  func()
}

// direction is one direction of a link.
type direction struct {
	from, to int
	frames   []frame // not in progress yet
	pumping  bool    // a call of pump is scheduled
	last     int64   // when the newest frame is delivered: no later frame may overtake it
	stuckAt  int64   // since when no frame has got through; 0: frames get through
	patience int64   // after how long without any the link breaks
	reset    bool    // frames that were not delivered are lost
}

// push sends a frame in one direction.
func (l *routerLink) push(n *direction, f frame) {
	n.frames = append(n.frames, f)
	if l.w.dice("link").chance(l.w.weather.LinkBreak) {
		l.w.mark("link broken")
		l.snap()
	}
	if !n.pumping {
		l.pump(n)
	}
}

// pump sends the frames on their way if the network lets them through. If it has let none through
// for a while, pump breaks the link.
func (l *routerLink) pump(n *direction) {
	w := l.w
	n.pumping = false
	if len(n.frames) == 0 || n.reset || !l.routerOpen && !l.regionOpen {
		n.frames = nil
		return
	}
	if w.net.blocked(n.from, n.to) {
		switch {
		case n.stuckAt == 0:
			n.stuckAt, n.patience = w.now, w.dice("link").between(500*ms, 3*sec)
		case n.patience > 0 && w.now-n.stuckAt > n.patience:
			n.patience = 0
			w.mark("link timed out")
			l.snap()
		}
		n.pumping = true
		w.after(50*ms, func() { l.pump(n) })
		return
	}
	n.stuckAt = 0
	for _, f := range n.frames {
		delay := w.net.frameDelay()
		for w.dice("link").chance(w.weather.Loss) {
			delay += 200 * ms // sent again
		}
		n.last = max(n.last+1, w.now+delay)
		w.after(n.last-w.now, func() {
			if !n.reset {
				f.arrive()
			}
		})
	}
	n.frames = n.frames[:0]
}

// snap breaks the link. Each end learns of the break at a time of its own. The frames in progress in
// one direction are lost, or still arrive.
func (l *routerLink) snap() {
	d := l.w.dice("link")
	if d.chance(0.5) {
		l.up.reset = true
	}
	if d.chance(0.5) {
		l.down.reset = true
	}
	l.w.after(d.between(0, sec), l.closeRouter)
	l.w.after(d.between(0, 3*sec), l.closeRegion)
}

// closeRouter closes the router's end of the link. The router may know of some frames that they
// were never written to the network.
func (l *routerLink) closeRouter() {
	if !l.routerOpen {
		return
	}
	l.routerOpen = false
	l.w.trace(l.router.p, "UNLINK", l.to)
	var unsent []router.Attempt
	written := l.w.dice("unsent").IntN(len(l.up.frames) + 1)
	for _, f := range l.up.frames[written:] {
		l.w.mark("gateway: never written to a lost link")
		unsent = append(unsent, f.attempt)
	}
	l.up.frames = l.up.frames[:written]
	l.router.linkLost(l, unsent)
	l.announceClose(&l.up, l.closeRegion)
}

// closeRegion closes the region's end of the link: the region reads no more frames from it, and
// sends no more answers on it.
func (l *routerLink) closeRegion() {
	if !l.regionOpen {
		return
	}
	l.regionOpen, l.behind = false, nil
	l.dropReplies()
	if !l.handing {
		l.region.readerEnded(l)
	}
	l.announceClose(&l.down, l.closeRouter)
}

// announceClose is called when one end of the link is closed. way is the direction to the other
// end, and learn closes the other end: soon if the network lets the news through, otherwise when the
// other end gives up without it.
func (l *routerLink) announceClose(way *direction, learn func()) {
	w := l.w
	if w.net.blocked(way.from, way.to) {
		w.after(w.dice("link").between(500*ms, 4*sec), learn)
		return
	}
	w.after(w.net.delay(), learn)
}

// toRegion sends a command to the region; read runs in the region's loop.
func (l *routerLink) toRegion(a router.Attempt, read func()) {
	if l.isLocal() {
		l.unread++
		l.region.carry(&l.region.fromRouter, read)
		return
	}
	l.push(&l.up, frame{a, func() { l.arrived(read) }})
}

// arrived handles a command that has arrived at the region's end of the link. Sometimes the
// reader is held up while it hands over a command. Then the later commands wait, and are dropped
// if the link ends; the command that is being handed over is not dropped.
func (l *routerLink) arrived(read func()) {
	w, incarnation := l.w, l.region.p.incarnation
	switch {
	case !l.regionOpen:
		w.mark("frame dropped unread")
	case l.handing:
		l.behind = append(l.behind, read)
	case w.dice("held up").chance(w.weather.HeldUp):
		l.handing = true
		if w.dice("held up").chance(0.3) {
			w.mark("link broken")
			l.snap()
		}
		w.after(w.dice("held up").between(0, 2*sec), func() {
			if l.region.p.incarnation == incarnation {
				l.region.p.post(read)
				l.handedOver()
			}
		})
	default:
		l.region.p.post(read)
	}
}

func (l *routerLink) handedOver() {
	l.handing = false
	if !l.regionOpen {
		l.w.mark("region: a command handed over after the end of its link")
		l.region.readerEnded(l)
		return
	}
	behind := l.behind
	l.behind = nil
	for _, read := range behind {
		l.arrived(read)
	}
}

// toRouter sends a frame to the router; read runs in the router's loop.
func (l *routerLink) toRouter(read func()) {
	if !l.regionOpen {
		return
	}
	if l.isLocal() {
		l.region.carry(&l.region.toRouter, func() {
			l.unread--
			read()
		})
		return
	}
	l.push(&l.down, frame{0, func() {
		if l.routerOpen {
			l.router.p.post(read)
		}
	}})
}
