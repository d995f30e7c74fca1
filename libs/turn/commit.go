package turn

import (
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// turnDone stages what a turn produced and lets the entity go on.
func (m *Machine) turnDone(in *TurnDone) {
	e := m.find(in.Incarnation)
	if e == nil || e.state != live || e.running == nil || e.running.ran != in.Request {
		return // a late result of an ended incarnation stages nothing
	}
	c := e.running
	e.running = nil
	mailbox := c.reply.Timing.Mailbox
	e.took(m.now.Sub(c.arrived) - mailbox) // with its wait for a processor
	c.done, c.finished, c.reply = true, m.now, in.Reply
	c.reply.Timing.Mailbox, c.reply.Timing.Handler = mailbox, in.Handler
	spoiled := in.Spoiled || c.desc.ReadOnly && len(in.Events) > 0
	events := in.Events
	if spoiled {
		m.stats.Spoiled++
		events = nil
	}
	if m.maybeStored(e, c) {
		c.done = false
		m.end(e) // and have another turn, unless the journal has the reply
		m.flush(e)
		return
	}
	switch {
	case e.volatile():
		m.answer(e, c, &c.reply)
	case !c.desc.ReadOnly && c.reply.Outcome == sharding.OK && (len(events) > 0 || c.recordable()):
		m.stage(e, c, events)
	default:
		c.seq = e.staged
		if c.desc.Stale { // of whatever was durable once: the fence does not matter
			if mutant.On("stale-gate") {
				m.answer(e, c, &c.reply)
			}
		} else if !mutant.On("read-fence") {
			c.fence = m.wantFence(e)
		}
	}
	if spoiled {
		m.end(e)
	} else {
		for _, t := range in.Timers {
			m.setTimer(e, t)
		}
		e.passivate = e.passivate || in.Passivate
	}
	m.handOver(e)
	m.flush(e)
	m.advance(e)
}

// maybeStored tells whether a failed command may be the repeat of one that
// succeeded: a success would meet the stored one at its append, a failure
// appends nothing and would be taken for the first one's. Input that cannot be
// read could not be read the first time either.
func (m *Machine) maybeStored(e *entity, c *command) bool {
	return c.reply.Outcome == sharding.Rejected && c.reply.Code != sharding.InvalidArgument &&
		c.recordable() && !c.looked && !e.volatile()
}

// stage gives the turn's events, or only its reply, the next sequence number.
func (m *Machine) stage(e *entity, c *command, events []sharding.Event) {
	e.staged++
	c.record, c.seq = e.staged, e.staged
	reply := c.reply
	reply.Timing = sharding.Timing{}
	e.pending = append(e.pending, sharding.Record{
		Seq: e.staged, Command: c.env.ID, Hash: c.hash(), Events: events, Reply: reply,
	})
	e.sinceSnapshot += max(1, len(events))
	e.bytesSince += e.pending[len(e.pending)-1].ReplaySize()
	if c.recordable() {
		m.recent.add(e.inc, c.env.ID)
	}
}

// handOver gives what is pending to the journal as one unit, unless a unit is
// in flight: two units of an entity are never under way at a time, because a
// delayed one could land after the other's outcome was settled.
func (m *Machine) handOver(e *entity) {
	if len(e.inflight) > 0 && !mutant.On("one-unit") || len(e.pending) == 0 {
		return
	}
	n, size := 0, 0
	for n < len(e.pending) && n < m.cfg.UnitRecords {
		size += e.pending[n].Size()
		if n > 0 && size > m.cfg.UnitBytes {
			break
		}
		n++
	}
	e.inflight, e.pending = e.pending[:n:n], e.pending[n:]
	m.emit(Append{Incarnation: e.inc, Append: sharding.Append{
		Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.id, Records: e.inflight,
	}})
}

// flush answers the commands whose gate has opened.
func (m *Machine) flush(e *entity) {
	for _, c := range e.cmds[:e.next] {
		if c.answered || !c.done {
			continue
		}
		if c.seq > e.durable && !mutant.On("output-gate") {
			break // so are all behind it
		}
		if c.fence <= e.shard.fence.done {
			c.reply.Timing.Journal = m.now.Sub(c.finished)
			m.answer(e, c, &c.reply)
		}
	}
	m.leave(e)
	if e.state == ending && len(e.inflight) == 0 && len(e.pending) == 0 && !e.gated() {
		m.revive(e)
	}
}

// gated tells whether a finished turn still waits for its gate.
func (e *entity) gated() bool {
	for _, c := range e.cmds[:e.next] {
		if c.done && !c.answered {
			return true
		}
	}
	return false
}

// appended takes the journal's verdict on the unit in flight.
func (m *Machine) appended(in Appended) {
	e := m.places.at(in.Incarnation) // it may have ended: its unit goes on
	if e == nil || len(e.inflight) == 0 || e.inflight[0].Seq != in.Seq {
		return
	}
	if e.state == settling {
		m.settled(e, in)
		return
	}
	switch in.Verdict {
	case sharding.Durable:
		e.durable = e.inflight[len(e.inflight)-1].Seq
		e.inflight = nil
		m.handOver(e)
		m.flush(e)
		m.advance(e)
	case sharding.UnknownOutcome:
		m.stats.Unknown++
		m.doubt(e)
		m.end(e)
		if mutant.On("settle-by-write") {
			e.inflight = nil
			m.revive(e)
			return
		}
		e.state = settling
		e.pending = nil
		e.inflight = []sharding.Record{{Seq: in.Seq}}
		m.emitSettle(e)
	case sharding.RefusedEpoch:
		e.inflight = nil
		m.fenced(e.shard, in.Fence.Epoch)
	case sharding.RefusedFull, sharding.RefusedDamaged:
		m.answerRefused(e, in)
		e.inflight = nil
		m.end(e)
		m.revive(e)
	default: // sequence or command id: somebody else's record is in the way
		m.doubt(e)
		e.inflight = nil
		m.end(e)
		if e.shard.phase == aborting {
			m.lookup(e)
		} else {
			m.revive(e)
		}
	}
}

// doubt marks the commands of the unit in flight, so that they are looked up
// before they run again.
func (m *Machine) doubt(e *entity) {
	first, last := e.inflight[0].Seq, e.inflight[len(e.inflight)-1].Seq
	for _, c := range e.cmds {
		if !c.answered && c.record >= first && c.record <= last {
			c.doubt = true
		}
	}
}

// answerRefused refuses the commands of a unit that the store has no room for, or
// that needs what is damaged in it.
func (m *Machine) answerRefused(e *entity, in Appended) {
	last := e.inflight[len(e.inflight)-1].Seq
	code := sharding.ResourceExhausted
	if in.Verdict == sharding.RefusedDamaged && !mutant.On("damage-is-loss") {
		code = sharding.DataLoss
	}
	reply := sharding.Reject(code, "the journal cannot take it: "+in.Reason)
	for _, c := range e.cmds[:e.next] {
		if !c.answered && c.record > 0 && c.record <= last {
			m.answer(e, c, &reply)
		}
	}
}

// emitSettle writes an empty record where the outcome is unknown.
func (m *Machine) emitSettle(e *entity) {
	m.emit(Append{Incarnation: e.inc, Append: sharding.Append{
		Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.id, Records: e.inflight,
	}})
}

// settled takes the verdict on the empty record: durable or refused, the
// outcome of the unit before it cannot change any more.
func (m *Machine) settled(e *entity, in Appended) {
	switch in.Verdict {
	case sharding.UnknownOutcome, sharding.RefusedFull:
		m.plan(wake{at: m.now.Add(m.cfg.Retry), kind: wakeSettle, ent: e, inc: e.inc})
		return
	case sharding.RefusedDamaged:
		// No write settles it as long as the damage lasts. Whoever waits is told
		// that it is not known; if the unit still arrives, it is the next record
		// or none.
		if mutant.On("damage-settles") {
			m.plan(wake{at: m.now.Add(m.cfg.Retry), kind: wakeSettle, ent: e, inc: e.inc})
			return
		}
		e.inflight = nil
		m.outOfOrder(e, &Loaded{Err: "the journal cannot take it: " + in.Reason, Code: sharding.DataLoss})
		return
	case sharding.RefusedEpoch:
		e.inflight = nil
		e.state = ending
		m.fenced(e.shard, in.Fence.Epoch)
		return
	}
	e.inflight = nil
	if e.shard.phase == aborting {
		m.lookup(e)
		return
	}
	m.revive(e)
}

// lookup asks the journal for the commands in doubt of a shard that is not
// ours any more. Nothing of ours can be written to it now, so that a read is
// enough.
func (m *Machine) lookup(e *entity) {
	m.leave(e)
	if len(e.cmds) == 0 {
		m.gone(e)
		return
	}
	m.begin(e, lookup)
	m.emitLoad(e)
}
