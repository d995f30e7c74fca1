package turn

import (
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// begin gives the entity another incarnation: what comes back for those before
// it is known as theirs.
func (m *Machine) begin(e *entity, state entityState) {
	m.lives++
	e.inc, e.state = incarnation(e.inc.Place(), m.lives), state
}

// load brings the entity to life. Nothing of the entity is unsettled.
func (m *Machine) load(e *entity) {
	m.begin(e, loading)
	e.touched = m.now
	m.emitLoad(e)
}

// emitLoad asks for a load, now or when there is room for one more.
func (m *Machine) emitLoad(e *entity) {
	if !m.mayLoad(e.id) && !mutant.On("load-limit") {
		m.plan(wake{at: m.now.Add(m.cfg.Retry), kind: wakeLoad, ent: e, inc: e.inc})
		return
	}
	m.loads.began(e.inc, e.id)
	o := Load{
		Entity: e.id, Shard: e.shard.id, Epoch: e.shard.epoch, Incarnation: e.inc,
		Volatile: e.volatile(), LookupOnly: e.state == lookup,
	}
	if !o.Volatile {
		for _, c := range e.cmds {
			if !c.answered && !c.desc.ReadOnly && (c.env.Keyed || c.doubt) && !mutant.On("lookup-first") {
				c.looked = true
				o.Lookup = append(o.Lookup, c.env.ID)
			}
		}
	}
	m.emit(o)
	m.plan(wake{at: m.now.Add(m.cfg.LoadCheck), kind: wakeLate, ent: e, inc: e.inc, asked: m.now})
}

// loadLate deals with a load that has no answer yet: commands whose deadline has
// passed are answered, and after Config.LoadTimeout the entity is loaded again,
// if there may be another load of it: else this one is still waited for. The journal
// may never answer the first time.
func (m *Machine) loadLate(w wake) {
	e := w.ent
	m.expire(e)
	left := m.cfg.LoadTimeout - m.now.Sub(w.asked)
	switch {
	case len(e.cmds) == 0:
		m.gone(e) // nobody waits for it any more
	case left <= 0 && m.mayLoad(e.id) && !mutant.On("load-again"):
		m.begin(e, e.state)
		m.emitLoad(e)
	case 0 < left && left < m.cfg.LoadCheck:
		w.at = m.now.Add(left)
		m.plan(w)
	default:
		w.at = m.now.Add(m.cfg.LoadCheck)
		m.plan(w)
	}
}

// expire answers the commands of an entity that is being loaded whose deadline
// has passed. None of them has had a turn that is not in doubt.
func (m *Machine) expire(e *entity) {
	doubt := sharding.Doubt(sharding.DeadlineExceeded, "the deadline passed before the journal said whether the command was applied")
	reject := sharding.Reject(sharding.DeadlineExceeded, "the deadline passed before the journal had answered with the entity's state")
	for _, c := range e.cmds {
		if c.answered || c.env.Deadline.IsZero() || m.now.Before(c.env.Deadline) || mutant.On("load-deadline") {
			continue
		}
		if c.doubt {
			m.answer(e, c, &doubt)
		} else {
			m.answer(e, c, &reject)
		}
	}
	m.leave(e)
}

// loadAgain begins the load of an entity that could not be loaded a moment ago.
func (m *Machine) loadAgain(e *entity) {
	if m.expire(e); len(e.cmds) == 0 {
		m.gone(e)
		return
	}
	m.emitLoad(e)
}

func (m *Machine) loaded(in *Loaded) {
	m.loads.ended(in.Incarnation)
	e := m.find(in.Incarnation)
	if e == nil || e.state != loading && e.state != lookup {
		if e == nil && in.Err == "" {
			m.emit(Drop{Entity: in.Entity, Incarnation: in.Incarnation})
		}
		return
	}
	if in.Err != "" && in.Retry {
		if m.expire(e); len(e.cmds) == 0 {
			m.gone(e)
			return
		}
		m.begin(e, e.state)
		m.plan(wake{at: m.now.Add(m.cfg.Retry), kind: wakeLoad, ent: e, inc: e.inc})
		return
	}
	if in.Err != "" {
		m.outOfOrder(e, in)
		return
	}
	for _, c := range e.cmds {
		s, found := in.Stored[c.env.ID]
		m.settle(e, c, found, &s)
	}
	m.leave(e)
	if e.state == lookup {
		for _, c := range e.cmds {
			if !c.answered {
				m.turnAway(e, c)
			}
		}
		m.leave(e)
		m.gone(e)
		return
	}
	m.stats.Activations++
	e.state = live
	e.staged, e.durable = in.LastSeq, in.LastSeq
	e.sinceSnapshot, e.bytesSince = in.Events, in.Bytes
	for _, t := range in.Timers {
		m.setTimer(e, t)
	}
	m.advance(e)
}

// lookedUp takes what the journal has of a command that may be a repeat. If it
// has nothing, or does not say, the command has its turn like any other one.
func (m *Machine) lookedUp(in LookedUp) {
	e := m.find(in.Incarnation)
	if e == nil || e.state != live {
		return
	}
	c := e.find(in.ID)
	if c == nil || !c.asked {
		return
	}
	c.asked, c.looked = false, !in.Failed
	m.settle(e, c, in.Found, &in.Stored)
	m.leave(e)
	m.advance(e)
}

// settle ends a command that the journal has already; otherwise it did not
// happen.
func (m *Machine) settle(e *entity, c *command, found bool, s *sharding.Stored) {
	c.doubt = false
	switch {
	case !found || c.answered:
	case s.Expired:
		reply := sharding.Doubt(sharding.Aborted,
			"the idempotency key is older than what the entity remembers; whether it ran is not known any more")
		m.answer(e, c, &reply)
	case s.Hash != c.hash() && !mutant.On("key-conflict"):
		reply := sharding.Reject(sharding.AlreadyExists, conflictMessage)
		m.answer(e, c, &reply)
	default:
		m.stats.Duplicates++
		m.recent.add(e.inc, c.env.ID)
		m.answer(e, c, &s.Reply)
	}
}

// outOfOrder ends the commands of an entity that cannot be brought to life.
func (m *Machine) outOfOrder(e *entity, in *Loaded) {
	doubt, reject := sharding.Doubt(in.Code, in.Err), sharding.Reject(in.Code, in.Err)
	for _, c := range e.cmds {
		switch {
		case c.answered:
		case c.doubt:
			m.answer(e, c, &doubt)
		default:
			m.answer(e, c, &reject)
		}
	}
	m.leave(e)
	m.gone(e)
}

// gone forgets an entity without commands and without an instance.
func (m *Machine) gone(e *entity) {
	m.unlist(e)
	m.places.free(e.inc.Place())
	e.inc, e.state = 0, 0
	e.shard.exit(e)
	m.stats.Entities--
	m.checkDrained(e.shard)
}

// advance gives the entity its next turn, or lets it rest.
func (m *Machine) advance(e *entity) {
	if e.state != live || e.running != nil {
		return
	}
	if m.snapshotDue(e) {
		if e.durable < e.staged && !mutant.On("snapshot-durable") {
			return // the cut waits for the journal, and the next turn for the cut
		}
		e.sinceSnapshot, e.bytesSince = 0, 0
		m.emit(Snapshot{Entity: e.id, Shard: e.shard.id, Epoch: e.shard.epoch, Incarnation: e.inc, Seq: e.durable})
	}
	for e.next < len(e.cmds) {
		c := e.cmds[e.next]
		if c.answered {
			e.next++
			continue
		}
		if !c.env.Deadline.IsZero() && !m.now.Before(c.env.Deadline) {
			reply := sharding.Reject(sharding.DeadlineExceeded, "the deadline passed in the mailbox")
			m.answer(e, c, &reply)
			e.next++
			continue
		}
		if c.asked {
			return
		}
		e.next++
		e.running = c
		c.ran = c.requestID()
		c.reply.Timing.Mailbox = m.now.Sub(c.arrived)
		run := &c.run
		if c.lent {
			run = &Run{}
		}
		*run = Run{
			Entity: e.id, Shard: e.shard.id, Epoch: e.shard.epoch, Incarnation: e.inc,
			Request: c.ran, Env: &c.env, ReadOnly: c.desc.ReadOnly, Timer: c.timer != nil,
		}
		m.emit(run)
		return
	}
	m.leave(e)
	m.rest(e)
}

// requestID names the command's turn; accepted tells and timers have none.
func (c *command) requestID() RequestID {
	if len(c.requests) == 0 {
		return 0
	}
	return c.requests[0]
}

func (m *Machine) snapshotDue(e *entity) bool {
	n := e.shard.typ.SnapshotEvery
	return n > 0 && (e.sinceSnapshot >= n || e.bytesSince >= m.cfg.SnapshotBytes) && !e.volatile()
}

// rest puts a live entity without work to the idle ones, or stops it. One that
// has a timer is not idle: stopping it would lose what it has set itself to do.
func (m *Machine) rest(e *entity) {
	if e.busy() {
		return
	}
	switch {
	case e.shard.phase == draining:
		m.stop(e, HandedOff)
	case e.passivate:
		m.stop(e, Passivated)
	default:
		e.touched = m.now
		m.unlist(e)
		if len(e.timers) == 0 || mutant.On("timer-holds") {
			m.list(e)
		}
		m.dismiss(e)
	}
}

// stop runs the stop hook of a live entity that has nothing to do. What
// arrives meanwhile waits and brings it to life again.
func (m *Machine) stop(e *entity, why StopReason) {
	m.unlist(e)
	e.state, e.passivate = stopping, false
	m.clearTimers(e)
	if why == Passivated {
		m.stats.Passivations++
	}
	m.emit(Stop{Entity: e.id, Incarnation: e.inc, Reason: why})
}

func (m *Machine) stopped(in Stopped) {
	e := m.find(in.Incarnation)
	if e == nil || e.state != stopping {
		return
	}
	if len(e.cmds) > 0 && e.shard.phase != aborting {
		m.load(e)
		return
	}
	m.gone(e)
}

func (m *Machine) clearTimers(e *entity) {
	for _, t := range e.timers {
		t.live = false
	}
	e.timers = nil
}

// end ends the incarnation: its instance is dropped, a late result of its turn
// is ignored, and every command that is not answered will have its turn again.
// What was handed to the journal goes on.
func (m *Machine) end(e *entity) {
	m.unlist(e)
	if e.state == live || e.state == stopping {
		m.emit(Drop{Entity: e.id, Incarnation: e.inc})
	}
	m.clearTimers(e)
	if e.running != nil {
		e.running.lent = true
	}
	m.begin(e, ending)
	e.running, e.passivate = nil, false
}

// again lets all unanswered commands have their turn again, in order.
func (m *Machine) again(e *entity) {
	e.pending = nil
	e.next = 0
	for _, c := range e.cmds {
		c.done, c.asked, c.record, c.seq, c.fence = false, false, 0, 0, 0
	}
}

// revive loads an ended entity whose appends are settled, or lets it go.
func (m *Machine) revive(e *entity) {
	m.again(e)
	m.leave(e)
	if len(e.cmds) == 0 {
		m.gone(e)
		return
	}
	m.load(e)
}
