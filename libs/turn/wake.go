package turn

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// wake is something to do at a later time. If the entity has another incarnation
// by then, the wake is obsolete.
type wake struct {
	at          time.Time
	order       uint64 // breaks ties between equal times
	kind        wakeKind
	shard       *shard
	entity      *entity
	incarnation Incarnation
	timer       *timer
	fence       uint64    // number of the fence read
	asked       time.Time // when the load began
	id          sharding.CommandID
}

type wakeKind uint8

const (
	wakeLoad      wakeKind = iota + 1 // load again, after a failure or because the limits allowed no load
	wakeLoadCheck                     // a load may still be unanswered
	wakeMailbox                       // deadlines may have passed in the mailbox
	wakeLookup                        // a lookup may still be unanswered
	wakeSettle                        // settle again
	wakeDrain                         // drain timeout
	wakeTimer                         // timer fires
	wakeFence                         // read the fence again
)

// schedule adds a wake. Obsolete wakes are removed whenever the heap has doubled:
// an entity that replaces its timer with every command must not leave a wake
// behind each time.
func (m *Machine) schedule(w wake) {
	if len(m.wakes) >= m.sweepAt {
		due := m.wakes
		m.wakes = make(wakeHeap, 0, len(due)/2)
		for _, old := range due {
			if m.relevant(old) {
				m.wakes.push(old)
			}
		}
		m.sweepAt = max(minSweep, 2*len(m.wakes))
	}
	m.lastOrder++
	w.order = m.lastOrder
	m.wakes.push(w)
}

// minSweep is the number of wakes below which obsolete ones are kept.
const minSweep = 1024

// relevant reports whether a wake is not obsolete.
func (m *Machine) relevant(w wake) bool {
	switch w.kind {
	case wakeDrain:
		return w.shard.registered() && w.shard.phase == draining
	case wakeFence:
		return w.shard.registered() && w.shard.fence.issued == w.fence && w.shard.fence.completed < w.fence
	case wakeLoad, wakeLoadCheck:
		return w.entity.inc == w.incarnation && (w.entity.state == loading || w.entity.state == lookup)
	case wakeMailbox:
		return w.entity.inc == w.incarnation && w.entity.mailboxCheck
	case wakeLookup:
		if w.entity.inc != w.incarnation || w.entity.state != live {
			return false
		}
		c := w.entity.find(w.id)
		return c != nil && c.lookupPending
	case wakeSettle:
		return w.entity.inc == w.incarnation && w.entity.state == settling
	case wakeTimer:
		return w.entity.inc == w.incarnation && w.entity.state == live && w.timer.active
	}
	return false
}

func (m *Machine) handleWake(w wake) {
	if !m.relevant(w) {
		return
	}
	switch w.kind {
	case wakeDrain:
		m.drainTimedOut(w.shard)
	case wakeFence:
		m.emit(ReadFence{Shard: w.shard.id, Epoch: w.shard.epoch, Number: w.fence})
	case wakeLoad:
		m.retryLoad(w.entity)
	case wakeLoadCheck:
		m.checkLoad(w)
	case wakeMailbox:
		m.checkMailbox(w.entity)
	case wakeLookup:
		m.lookedUp(LookedUp{Incarnation: w.incarnation, ID: w.id, Failed: true})
	case wakeSettle:
		m.emitSettle(w.entity)
	case wakeTimer:
		m.fire(w.entity, w.timer)
	}
}

// timer is a timer of a live incarnation.
type timer struct {
	Timer
	active bool // not cancelled, not replaced
	firing bool // the command of its last firing is not done yet
}

// setTimer sets, replaces or cancels a timer of the entity.
func (m *Machine) setTimer(e *entity, t Timer) {
	for i, old := range e.timers {
		if old.Name == t.Name {
			old.active = false
			e.timers = append(e.timers[:i:i], e.timers[i+1:]...)
			break
		}
	}
	if t.After <= 0 {
		return
	}
	if len(e.timers) >= m.cfg.TimersPerEntity {
		m.stats.LostTells++
		return
	}
	tm := &timer{Timer: t, active: true}
	m.allocWork(e)
	e.timers = append(e.timers, tm)
	m.schedule(wake{at: m.now.Add(t.After), kind: wakeTimer, entity: e, incarnation: e.inc, timer: tm})
}

// fire puts the timer's command into the mailbox. A repeating timer whose last
// command is not done skips a firing: a slow entity must not be flooded by its own
// timers. If the mailbox is full, the timer fires later. A command that is larger than
// the limits has its turn when there is no other.
func (m *Machine) fire(e *entity, t *timer) {
	env := sharding.Envelope{
		Entity: e.id, Command: t.Command, ID: timerID(e.shard.epoch, m.lastTimer+1), Tell: true,
		Encoding: t.Encoding, Payload: t.Payload, Deadline: m.now.Add(m.cfg.TimerTimeout),
	}
	size := env.Size()
	if len(e.cmds) >= m.cfg.MailboxCommands || m.stats.Commands >= m.limit.Commands ||
		m.stats.Commands > 0 && (e.bytes+size > m.cfg.MailboxBytes || m.stats.Bytes+size > m.limit.Bytes) {
		m.schedule(wake{at: m.now.Add(m.cfg.Retry), kind: wakeTimer, entity: e, incarnation: e.inc, timer: t})
		return
	}
	if t.Every > 0 {
		m.schedule(wake{at: m.now.Add(t.Every), kind: wakeTimer, entity: e, incarnation: e.inc, timer: t})
	} else {
		t.active = false
		for i, old := range e.timers {
			if old == t {
				e.timers = append(e.timers[:i:i], e.timers[i+1:]...)
				break
			}
		}
	}
	desc, ok := e.shard.typ.Desc.Command(t.Command)
	if t.firing || e.shard.phase != open || !ok {
		m.advance(e) // without this timer the entity may be idle
		return
	}
	t.firing = true
	m.lastTimer++
	c := m.newCommand()
	c.env, c.desc, c.arrived, c.timer = env, desc, m.now, t
	m.enqueue(e, c)
	m.advance(e)
}

const hexDigits = "0123456789abcdef"

// timerID returns the command id of a firing. No other claim of the shard has the
// same epoch, so an entity never sees the same id twice.
func timerID(epoch sharding.Epoch, n uint64) sharding.CommandID {
	b := make([]byte, 0, 40)
	b = append(b, sharding.ReservedPrefix+"timer:"...)
	b = appendHex(b, uint64(epoch))
	b = append(b, ':')
	b = appendHex(b, n)
	return sharding.CommandID(b)
}

func appendHex(b []byte, v uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		if d := v >> shift & 15; d != 0 || shift == 0 || b[len(b)-1] != ':' {
			b = append(b, hexDigits[d])
		}
	}
	return b
}

// wakeHeap is a binary heap ordered by time, then by order of scheduling.
type wakeHeap []wake

func (h wakeHeap) less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].order < h[j].order
}

func (h *wakeHeap) push(w wake) {
	*h = append(*h, w)
	s := *h
	for i := len(s) - 1; i > 0; {
		p := (i - 1) / 2
		if !s.less(i, p) {
			break
		}
		s[i], s[p] = s[p], s[i]
		i = p
	}
}

func (h *wakeHeap) pop() wake {
	s := *h
	top := s[0]
	n := len(s) - 1
	s[0] = s[n]
	s[n] = wake{}
	*h = s[:n]
	s = s[:n]
	for i := 0; ; {
		l := 2*i + 1
		if l >= n {
			return top
		}
		if r := l + 1; r < n && s.less(r, l) {
			l = r
		}
		if !s.less(l, i) {
			return top
		}
		s[i], s[l] = s[l], s[i]
		i = l
	}
}
