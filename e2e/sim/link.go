package sim

import "github.com/roost-cluster/roost/libs/sharding"

// link is one stream of frames between a gateway and a region incarnation:
// reliable and in order until it breaks. The two ends notice a break at
// different times; what was not read by then is lost. A region stops reading
// the old link of a gateway before it reads the new one.
type link struct {
	w              *World
	gateway        *gatewayNode
	region         *regionNode
	to             sharding.NodeID
	gwOpen, rgOpen bool
	up, down       lane // to the region, to the gateway
	buffer         buffer
}

// lane is one direction of a link.
type lane struct {
	from, to int
	frames   []func() // not under way yet
	pumping  bool     // somebody will try again
	last     int64    // the newest delivery: streams do not overtake
	stuckAt  int64    // since when nothing gets through; 0: something does
	patience int64    // how long that is borne
	reset    bool     // what was not delivered is lost
}

// push puts a frame on a lane.
func (l *link) push(n *lane, frame func()) {
	n.frames = append(n.frames, frame)
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
func (l *link) pump(n *lane) {
	w := l.w
	n.pumping = false
	if len(n.frames) == 0 || n.reset || !l.gwOpen && !l.rgOpen {
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
	for _, frame := range n.frames {
		delay := w.net.frameDelay()
		for w.dice("link").chance(w.weather.Loss) {
			delay += 200 * ms // sent again
		}
		n.last = max(n.last+1, w.now+delay)
		w.after(n.last-w.now, func() {
			if !n.reset {
				frame()
			}
		})
	}
	n.frames = n.frames[:0]
}

// snap breaks the link: each end learns of it in its own time, and the frames
// under way are lost, or not.
func (l *link) snap() {
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

// closeGateway is the end of the link for the gateway.
func (l *link) closeGateway() {
	if !l.gwOpen {
		return
	}
	l.gwOpen = false
	l.w.trace(l.gateway.p, "UNLINK", l.to)
	l.gateway.linkLost(l)
	l.afterFar(l.down.to, l.up.to, l.closeRegion)
}

// closeRegion is the end of the link for the region: it reads no more frames,
// and answers nothing on it.
func (l *link) closeRegion() {
	if !l.rgOpen {
		return
	}
	l.rgOpen = false
	l.forgetReplies()
	l.afterFar(l.up.to, l.down.to, l.closeGateway)
}

// afterFar lets the far end learn of a closed connection: soon if the way is
// free, else when it gives up by itself.
func (l *link) afterFar(from, to int, learn func()) {
	w := l.w
	if w.net.blocked(from, to) {
		w.after(w.dice("link").between(500*ms, 4*sec), learn)
		return
	}
	w.after(w.net.delay(), learn)
}

// toRegion sends a frame to the region; read runs in its loop.
func (l *link) toRegion(read func()) {
	l.push(&l.up, func() {
		if l.rgOpen {
			l.region.p.post(read)
		} else {
			l.w.mark("frame dropped unread")
		}
	})
}

// toGateway sends a frame to the gateway; read runs in its loop.
func (l *link) toGateway(read func()) {
	if !l.rgOpen {
		return
	}
	l.push(&l.down, func() {
		if l.gwOpen {
			l.gateway.p.post(read)
		}
	})
}
