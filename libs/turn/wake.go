package turn

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// wake is something to do at a later time. What it is about may be gone by
// then; the incarnation tells.
type wake struct {
	at    time.Time
	ord   uint64 // keeps equal times in their order
	kind  wakeKind
	shard *shard
	ent   *entity
	inc   Incarnation
	timer *timer
	fence uint64    // number of the question
	asked time.Time // when the load began
	id    sharding.CommandID
}

type wakeKind uint8

const (
	wakeLoad   wakeKind = iota + 1 // load again, after a failure or for want of room
	wakeLate                       // a load is still without an answer
	wakeLookup                     // a lookup is still without an answer
	wakeSettle                     // settle again
	wakeDrain                      // drain time-out
	wakeTimer                      // timer fires
	wakeFence                      // read the fence again
)

// plan adds a wake. Those that have become pointless are swept out when the
// heap has doubled: an entity that sets its timer anew with every command must
// not leave one behind each time.
func (m *Machine) plan(w wake) {
	if len(m.wakes) >= m.sweepAt {
		due := m.wakes
		m.wakes = make(wakeHeap, 0, len(due)/2)
		for _, old := range due {
			if m.wanted(old) {
				m.wakes.push(old)
			}
		}
		m.sweepAt = max(minSweep, 2*len(m.wakes))
	}
	m.ord++
	w.ord = m.ord
	m.wakes.push(w)
}

// minSweep is the number of wakes below which none are swept out.
const minSweep = 1024

// wanted tells whether what the wake is about is still to be done.
func (m *Machine) wanted(w wake) bool {
	switch w.kind {
	case wakeDrain:
		return w.shard.held() && w.shard.phase == draining
	case wakeFence:
		return w.shard.held() && w.shard.fence.asked == w.fence && w.shard.fence.done < w.fence
	case wakeLoad, wakeLate:
		return w.ent.inc == w.inc && (w.ent.state == loading || w.ent.state == lookup)
	case wakeLookup:
		if w.ent.inc != w.inc || w.ent.state != live {
			return false
		}
		c := w.ent.find(w.id)
		return c != nil && c.asked
	case wakeSettle:
		return w.ent.inc == w.inc && w.ent.state == settling
	case wakeTimer:
		return w.ent.inc == w.inc && w.ent.state == live && w.timer.live
	}
	return false
}

func (m *Machine) wake(w wake) {
	if !m.wanted(w) {
		return
	}
	switch w.kind {
	case wakeDrain:
		m.giveUp(w.shard)
	case wakeFence:
		m.emit(ReadFence{Shard: w.shard.id, Epoch: w.shard.epoch, Number: w.fence})
	case wakeLoad:
		m.loadAgain(w.ent)
	case wakeLate:
		m.loadLate(w)
	case wakeLookup:
		m.lookedUp(LookedUp{Incarnation: w.inc, ID: w.id, Failed: true})
	case wakeSettle:
		m.emitSettle(w.ent)
	case wakeTimer:
		m.fire(w.ent, w.timer)
	}
}

// A timer of a live incarnation.
type timer struct {
	Timer
	live bool // not cancelled, not replaced
	busy bool // its last firing is not done yet
}

// setTimer sets, replaces or cancels a timer of the entity.
func (m *Machine) setTimer(e *entity, t Timer) {
	for i, old := range e.timers {
		if old.Name == t.Name {
			old.live = false
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
	tm := &timer{Timer: t, live: true}
	m.employ(e)
	e.timers = append(e.timers, tm)
	m.plan(wake{at: m.now.Add(t.After), kind: wakeTimer, ent: e, inc: e.inc, timer: tm})
}

// fire puts the timer's command into the mailbox. A repeating timer whose last
// firing still waits skips one: a slow entity must not be buried by its own
// clock. When the mailbox is full, the timer waits for room.
func (m *Machine) fire(e *entity, t *timer) {
	env := sharding.Envelope{
		Entity: e.id, Command: t.Command, ID: timerID(e.shard.epoch, m.timers+1), Tell: true,
		Encoding: t.Encoding, Payload: t.Payload, Deadline: m.now.Add(m.cfg.TimerTimeout),
	}
	size := env.Size()
	if m.stats.Commands > 0 && (len(e.cmds) >= m.cfg.MailboxCommands || e.bytes+size > m.cfg.MailboxBytes ||
		m.stats.Commands >= m.cfg.TotalCommands || m.stats.Bytes+size > m.cfg.TotalBytes) {
		m.plan(wake{at: m.now.Add(m.cfg.Retry), kind: wakeTimer, ent: e, inc: e.inc, timer: t})
		return
	}
	if t.Every > 0 {
		m.plan(wake{at: m.now.Add(t.Every), kind: wakeTimer, ent: e, inc: e.inc, timer: t})
	} else {
		t.live = false
		for i, old := range e.timers {
			if old == t {
				e.timers = append(e.timers[:i:i], e.timers[i+1:]...)
				break
			}
		}
	}
	desc, ok := e.shard.typ.Desc.Command(t.Command)
	if t.busy || e.shard.phase != open || !ok {
		m.advance(e) // it may have held the entity alive
		return
	}
	t.busy = true
	m.timers++
	c := m.newCommand()
	c.env, c.desc, c.arrived, c.timer = env, desc, m.now, t
	m.enqueue(e, c)
	m.advance(e)
}

const hexDigits = "0123456789abcdef"

// timerID names a firing: the epoch belongs to this claim of the shard alone,
// so the name is never used twice for an entity.
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

// wakeHeap is a binary heap by time, then order of planning.
type wakeHeap []wake

func (h wakeHeap) less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].ord < h[j].ord
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
