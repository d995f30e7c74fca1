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
}

// lane is one direction of a link.
type lane struct {
	from, to int
	frames   []func()
	last     int64 // the newest delivery: streams do not overtake
	pumping  bool
	reset    bool // what was not delivered is lost
	progress int
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

// pump moves frames while the way is free, and breaks the link after a while
// when it is not.
func (l *link) pump(n *lane) {
	w := l.w
	n.pumping = false
	if len(n.frames) == 0 || n.reset {
		n.frames = nil
		return
	}
	if w.net.blocked(n.from, n.to) {
		n.pumping = true
		seen := n.progress
		w.after(50*ms, func() { l.pump(n) })
		if len(n.frames) > 0 && !l.doomed(n) {
			n.progress = -seen - 1 // somebody watches this stall
			w.after(w.dice("link").between(500*ms, 3*sec), func() {
				if n.progress == -seen-1 {
					w.mark("link timed out")
					l.snap()
				}
			})
		}
		return
	}
	n.progress = max(n.progress, -n.progress-1) + 1
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

func (l *link) doomed(n *lane) bool { return n.progress < 0 }

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
