package sim

import (
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// process is one driver loop and its memory: inputs wait in the
// inbox until the loop gets to them, a batch at a time; then the outputs are
// performed in order. A crash loses the inbox and everything that the program
// held; a pause only defers it.
type process struct {
	w    *World
	host int
	name string
	addr string
	// program makes the memory of a new incarnation.
	program func(p *process) program

	uid sharding.NodeUID
	// opened is the generation of the journal when the process started, and restores how often it had
	// been restored then.
	opened   sharding.Generation
	restores int
	// incarnation is a number that changes at every start and at every crash, so that what one
	// incarnation has begun does not come back to a later one. 0: the process never ran.
	incarnation int
	up          bool
	paused      bool
	pausedAt    int64 // when the last pause began
	resumed     int64 // when it ended
	waiting     bool  // the loop will run
	tickDue     bool
	gone        bool // left permanently
	inOrder     bool // it ends by its own decision, as after a shutdown
	inbox       []func()
	body        program
	// unread are the callers whose request is in the inbox: a crash refuses
	// them.
	unread []func()

	started   int64
	offset    int64 // of the process's monotonic clock
	drift     int64 // parts per million
	wall      int64 // error of its clock on the wall, which survives it
	tickEvery int64
}

// program is the code of one incarnation.
type program interface {
	tick()  // time passes
	flush() // performs what the steps of a batch put out
	stop()  // the process is gone; nothing may be said any more
}

var clockStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// now is the process's own clock.
func (p *process) now() time.Time {
	t := p.w.now - p.started
	return clockStart.Add(time.Duration(p.offset + t + t*p.drift/1_000_000))
}

// moment is the time at which the process commits: its clock on the wall may be set, its own
// time continues.
func (p *process) moment() journal.Moment {
	return journal.Moment{
		Wall: clockStart.Add(nanos(p.w.now + p.wall)), Writer: uint64(p.uid), Elapsed: p.now().Sub(clockStart),
	}
}

// left is the time until an instant of the process's clock.
func (p *process) left(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(t.Sub(p.now()), 1)
}

// deadline turns time left into an instant of the process's clock.
func (p *process) deadline(left time.Duration) time.Time {
	if left == 0 {
		return time.Time{}
	}
	return p.now().Add(left)
}

// id is the current incarnation.
func (p *process) id() sharding.NodeID { return sharding.NodeID{Addr: p.addr, UID: p.uid} }

// start makes a new incarnation.
func (p *process) start() {
	if p.up || p.gone {
		return
	}
	w := p.w
	p.incarnation++
	p.up, p.paused, p.waiting, p.tickDue, p.inOrder = true, false, false, false, false
	p.uid = sharding.NodeUID(w.dice("uid").Uint64() | 1)
	p.opened, p.restores = w.journal.ledger.Generation(), w.journal.restores
	p.started = w.now
	p.offset = w.dice("clock").between(0, 1000*sec)
	p.drift = w.dice("clock").between(-w.weather.DriftPPM, w.weather.DriftPPM+1)
	p.inbox = nil
	w.trace(p, "START", p.id())
	p.body = p.program(p)
	p.nextTick(p.incarnation)
	p.wake()
}

func (p *process) nextTick(incarnation int) {
	p.w.after(p.tickEvery, func() {
		if p.incarnation != incarnation || !p.up {
			return
		}
		p.tickDue = true
		p.wake()
		p.nextTick(incarnation)
	})
}

// crash ends the incarnation; its memory is lost.
func (p *process) crash(why string) {
	if !p.up {
		return
	}
	p.w.trace(p, "CRASH", why)
	p.up = false
	p.incarnation++
	p.inbox = nil
	body, unread := p.body, p.unread
	p.body, p.unread = nil, nil
	body.stop()
	for _, refuse := range unread {
		refuse()
	}
	p.w.crashed(p)
}

// exit is a crash by the process's own decision, after which a supervisor
// starts it again.
func (p *process) exit(why string) {
	if !p.up {
		return
	}
	p.crash(why)
	p.w.after(p.w.dice("restart").between(100*ms, 2*sec), p.start)
}

// post puts an input into the inbox.
func (p *process) post(fn func()) {
	if !p.up {
		return
	}
	p.inbox = append(p.inbox, fn)
	p.wake()
}

// ifAlive binds a completion to this incarnation: it is posted if the incarnation
// still lives when it comes.
func (p *process) ifAlive(fn func()) func() {
	incarnation := p.incarnation
	return func() {
		if p.incarnation == incarnation {
			p.post(fn)
		}
	}
}

func (p *process) pause() {
	if p.up && !p.paused {
		p.w.trace(p, "PAUSE", nil)
		p.paused, p.pausedAt = true, p.w.now
	}
}

func (p *process) resume() {
	if p.up && p.paused {
		p.w.trace(p, "RESUME", nil)
		p.paused, p.resumed = false, p.w.now
		p.wake()
	}
}

func (p *process) wake() {
	if p.waiting || p.paused || !p.up {
		return
	}
	p.waiting = true
	incarnation := p.incarnation
	p.w.after(p.w.dice("loop").exp(p.w.weather.Loop), func() {
		if p.incarnation == incarnation {
			p.loop()
		}
	})
}

// loop steps the batch, then the tick, then performs the outputs.
func (p *process) loop() {
	p.waiting = false
	if p.paused {
		return
	}
	incarnation := p.incarnation
	batch := p.inbox
	p.inbox = nil
	for _, fn := range batch {
		fn()
		if p.incarnation != incarnation {
			return
		}
	}
	if p.tickDue {
		p.tickDue = false
		p.body.tick()
	}
	if p.incarnation == incarnation {
		p.body.flush()
	}
	if p.incarnation == incarnation && len(p.inbox) > 0 {
		p.wake()
	}
}
