package sim

import (
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
)

// gatewayLink is a link between a gateway and a region incarnation. It has one lane: a
// stream of frames that is reliable and in order until it breaks. The two ends notice a
// break at different times; what was not read by then is lost. The link.Readers of the
// region decide when it reads the link; the router.Sender of the gateway decides what is
// written to it.
type gatewayLink struct {
	w                  *World
	gateway            *routerNode
	region             *regionNode
	to                 sharding.NodeID
	laneID             link.LaneID
	number             uint64 // at the gateway, of those that were up
	gwOpen, regionOpen bool
	up, down           direction // to the region, to the gateway
	buffer             buffer
	unread             int    // commands that have come from the router of the same region, and whose answers it has not read
	welcomed           func() // is called when the region begins to read the link

	// The region's reader hands a command over, and what has come meanwhile waits.
	handing bool
	behind  []func()
}

// frame is something on its way; attempt is 0 on the way to the gateway.
type frame struct {
	attempt router.Attempt
	arrive  func()
}

// direction is one direction of a link.
type direction struct {
	from, to int
	frames   []frame // not under way yet
	pumping  bool    // somebody will try again
	last     int64   // the newest delivery: streams do not overtake
	stuckAt  int64   // since when nothing gets through; 0: something does
	patience int64   // how long that is borne
	reset    bool    // what was not delivered is lost
}

// push sends a frame in one direction.
func (l *gatewayLink) push(n *direction, f frame) {
	n.frames = append(n.frames, f)
	if l.w.dice("link").chance(l.w.weather.LinkBreak) {
		l.w.mark("link broken")
		l.snap()
	}
	if !n.pumping {
		l.pump(n)
	}
}

// pump moves frames while the way is free, and breaks the link when it has not
// been for a while.
func (l *gatewayLink) pump(n *direction) {
	w := l.w
	n.pumping = false
	if len(n.frames) == 0 || n.reset || !l.gwOpen && !l.regionOpen {
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

// snap breaks the link: each end learns of it in its own time, and the frames
// under way are lost, or not.
func (l *gatewayLink) snap() {
	d := l.w.dice("link")
	if d.chance(0.5) {
		l.up.reset = true
	}
	if d.chance(0.5) {
		l.down.reset = true
	}
	l.w.after(d.between(0, sec), l.closeGateway)
	l.w.after(d.between(0, 3*sec), l.closeRegion)
}

// closeGateway is the end of the link for the gateway. Of what is not under way yet it
// may know that it never will be.
func (l *gatewayLink) closeGateway() {
	if !l.gwOpen {
		return
	}
	l.gwOpen = false
	l.w.trace(l.gateway.p, "UNLINK", l.to)
	var unsent []router.Attempt
	written := l.w.dice("unsent").IntN(len(l.up.frames) + 1)
	for _, f := range l.up.frames[written:] {
		l.w.mark("gateway: never written to a lost link")
		unsent = append(unsent, f.attempt)
	}
	l.up.frames = l.up.frames[:written]
	l.gateway.linkLost(l, unsent)
	l.announceClose(&l.up, l.closeRegion)
}

// closeRegion is the end of the link for the region: it reads no more frames,
// and answers nothing on it.
func (l *gatewayLink) closeRegion() {
	if !l.regionOpen {
		return
	}
	l.regionOpen, l.behind = false, nil
	l.forgetReplies()
	if !l.handing {
		l.region.readerEnded(l)
	}
	l.announceClose(&l.down, l.closeGateway)
}

// announceClose is called when one end of the link is closed. The news goes to the other end
// in the given direction, and learn closes that end: soon if the network lets the news
// through, and otherwise when the other end gives up by itself.
func (l *gatewayLink) announceClose(way *direction, learn func()) {
	w := l.w
	if w.net.blocked(way.from, way.to) {
		w.after(w.dice("link").between(500*ms, 4*sec), learn)
		return
	}
	w.after(w.net.delay(), learn)
}

// toRegion sends a command to the region; read runs in its loop.
func (l *gatewayLink) toRegion(a router.Attempt, read func()) {
	if l.isHere() {
		l.unread++
		l.region.carry(&l.region.fromRouter, read)
		return
	}
	l.push(&l.up, frame{a, func() { l.arrived(read) }})
}

// arrived is a command at the region's end of the link. Now and then its reader is
// held up while it hands one over: then those behind it wait, and are dropped if the
// link ends; this one is handed over all the same.
func (l *gatewayLink) arrived(read func()) {
	w, gen := l.w, l.region.p.gen
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
			if l.region.p.gen == gen {
				l.region.p.post(read)
				l.handedOver()
			}
		})
	default:
		l.region.p.post(read)
	}
}

func (l *gatewayLink) handedOver() {
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

// toGateway sends a frame to the gateway; read runs in its loop.
func (l *gatewayLink) toGateway(read func()) {
	if !l.regionOpen {
		return
	}
	if l.isHere() {
		l.region.carry(&l.region.toRouter, func() {
			l.unread--
			read()
		})
		return
	}
	l.push(&l.down, frame{0, func() {
		if l.gwOpen {
			l.gateway.p.post(read)
		}
	}})
}
