package turn

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// alarm is something to do at a later time. If the incarnation of the entity has ended by then, the
// alarm is obsolete.
type alarm struct {
	at          time.Time
	order       uint64 // breaks ties between equal times
	kind        alarmKind
	shard       *shard
	entity      *entity
	incarnation Incarnation
	timer       *timer
	fence       uint64 // number of the fence read
	loadBegan   time.Time
	id          sharding.CommandID
	number      uint64 // of the ask
}

type alarmKind uint8

const (
	alarmLoad      alarmKind = iota + 1 // load again, after a failure or because the limits allowed no load
	alarmLoadCheck                      // a load may still be unanswered
	alarmMailbox                        // deadlines may have passed in the mailbox
	alarmLookup                         // a lookup may still be unanswered
	alarmSettle                         // settle again
	alarmDrain                          // drain timeout
	alarmTimer                          // timer fires
	alarmFence                          // read the fence again
	alarmKeptIdle                       // kept states of entities that received no command are dropped
	alarmKeptTimer                      // a timer of an entity whose state is kept is due
	alarmAsk                            // the time of an ask is over
	alarmProbe                          // a turn still waits: perhaps in a circle
)

// schedule adds an alarm. Obsolete alarms are removed whenever the heap has doubled:
// an entity that replaces its timer with every command must not leave an alarm
// behind each time.
func (m *Machine) schedule(a alarm) {
	if len(m.alarms) >= m.sweepAt {
		all := m.alarms
		m.alarms = all[:0] // the write position never overtakes the read position
		for _, old := range all {
			if m.relevant(old) {
				m.alarms.push(old)
			}
		}
		clear(all[len(m.alarms):])
		m.sweepAt = max(minSweep, 2*len(m.alarms))
		if cap(all) > 4*m.sweepAt { // after a burst
			m.alarms = append(make(alarmHeap, 0, m.sweepAt), m.alarms...)
		}
	}
	m.lastOrder++
	a.order = m.lastOrder
	m.alarms.push(a)
}

// minSweep is the number of alarms below which obsolete ones are kept.
const minSweep = 1024

// relevant reports whether an alarm is not obsolete.
func (m *Machine) relevant(a alarm) bool {
	switch a.kind {
	case alarmDrain:
		return a.shard.registered() && a.shard.phase == draining
	case alarmFence:
		return a.shard.registered() && a.shard.fence.issued == a.fence && a.shard.fence.completed < a.fence
	case alarmLoad, alarmLoadCheck:
		return a.entity.inc == a.incarnation && (a.entity.state == loading || a.entity.state == lookup)
	case alarmMailbox:
		return a.entity.inc == a.incarnation && a.entity.mailboxCheck
	case alarmLookup:
		if a.entity.inc != a.incarnation || a.entity.state != live {
			return false
		}
		c := a.entity.find(a.id)
		return c != nil && c.lookupPending
	case alarmSettle:
		return a.entity.inc == a.incarnation && a.entity.state == settling
	case alarmKeptIdle:
		return a.shard.registered() && a.shard.phase == open && len(a.shard.kept.byID) > 0
	case alarmKeptTimer:
		_, kept := a.shard.kept.byID[sharding.EntityID(a.id)]
		return a.shard.registered() && a.shard.phase == open && kept
	case alarmTimer:
		return a.entity.inc == a.incarnation && a.entity.state == live && a.timer.active
	case alarmAsk, alarmProbe:
		return a.entity.inc == a.incarnation && a.entity.ask != nil && a.entity.ask.number == a.number
	}
	return false
}

func (m *Machine) handleAlarm(a alarm) {
	if !m.relevant(a) {
		return
	}
	switch a.kind {
	case alarmDrain:
		m.drainTimedOut(a.shard)
	case alarmFence:
		m.emit(ReadFence{Shard: a.shard.id, Epoch: a.shard.epoch, Number: a.fence})
	case alarmLoad:
		m.retryLoad(a.entity)
	case alarmLoadCheck:
		m.checkLoad(a)
	case alarmMailbox:
		m.checkMailbox(a.entity)
	case alarmLookup:
		m.lookedUp(LookedUp{Incarnation: a.incarnation, ID: a.id, Failed: true})
	case alarmSettle:
		m.emitSettle(a.entity)
	case alarmTimer:
		m.fire(a.entity, a.timer)
	case alarmKeptIdle:
		m.dropIdle(a.shard)
	case alarmKeptTimer:
		m.wakeKept(a.shard, sharding.EntityID(a.id))
	case alarmProbe:
		m.sendProbe(a.entity)
	case alarmAsk:
		m.askTimedOut(a.entity)
	}
}

// timer is a timer of a live incarnation.
type timer struct {
	Timer
	due    time.Time // when it fires next
	active bool      // not cancelled, not replaced
	queued bool      // the command of its last firing is not done yet
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
		m.stats.FailedUnwatched++
		return
	}
	tm := &timer{Timer: t, due: m.now.Add(t.After), active: true}
	m.allocWork(e)
	e.timers = append(e.timers, tm)
	m.schedule(alarm{at: m.now.Add(t.After), kind: alarmTimer, entity: e, incarnation: e.inc, timer: tm})
}

// fire puts the timer's command into the mailbox. A repeating timer whose last
// command is not done skips a firing: a slow entity must not be flooded by its own
// timers. If the mailbox is full, the timer fires later. A command that is larger than
// the limits has its turn when there is no other.
func (m *Machine) fire(e *entity, t *timer) {
	if e.shard.phase == draining && e.shard.keeps() {
		return // it is kept, and fires at the next owner
	}
	env := sharding.Envelope{
		Entity: e.address(), Command: t.Command, ID: timerID(e.shard.epoch, m.lastTimer+1), Tell: true,
		Encoding: t.Encoding, Payload: t.Payload, Deadline: m.now.Add(m.timeout(e.shard.typ, t.Command)),
	}
	size, room := env.Size(), m.room(false)
	if len(e.cmds) >= m.cfg.MailboxCommands || m.stats.Commands >= room.Commands ||
		m.stats.Commands > 0 && (e.bytes+size > m.cfg.MailboxBytes || m.stats.Bytes+size > room.Bytes) {
		m.schedule(alarm{at: m.now.Add(m.cfg.Retry), kind: alarmTimer, entity: e, incarnation: e.inc, timer: t})
		return
	}
	if t.Every > 0 {
		t.due = m.now.Add(t.Every)
		m.schedule(alarm{at: t.due, kind: alarmTimer, entity: e, incarnation: e.inc, timer: t})
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
	if t.queued || e.shard.phase != open || !ok {
		m.advance(e) // without this timer the entity may be idle
		return
	}
	t.queued = true
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

// alarmHeap is a binary heap ordered by time, then by order of scheduling.
type alarmHeap []alarm

func (h alarmHeap) less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].order < h[j].order
}

func (h *alarmHeap) push(a alarm) {
	*h = append(*h, a)
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

func (h *alarmHeap) pop() alarm {
	s := *h
	top := s[0]
	n := len(s) - 1
	s[0] = s[n]
	s[n] = alarm{}
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
