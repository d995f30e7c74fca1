package turn

import (
	"github.com/roost-cluster/roost/libs/sharding"
)

// turnDone stages what a turn produced and starts the entity's next turn.
func (m *Machine) turnDone(in *TurnDone) {
	e := m.find(in.Incarnation)
	if e == nil || e.state != live || e.running == nil || e.running.runID != in.Request {
		return // a late result of an ended incarnation is ignored
	}
	c := e.running
	m.endUnwantedAsk(e) // a goroutine that the handler has started, and not waited for, may still wait for an answer
	e.running = nil
	mailbox := c.reply.Timing.Mailbox
	e.observeTurn(m.now.Sub(c.arrived) - mailbox) // includes the wait for a processor
	e.shard.work.note(in.Handler-c.waited, mailbox)
	of := e.address()
	m.hot.Add(m.now, &of, in.Handler-c.waited)
	c.done, c.finished, c.reply = true, m.now, in.Reply
	c.reply.Timing.Mailbox, c.reply.Timing.Handler = mailbox, in.Handler
	fits, recount := m.countReminders(e, c, in)
	st := staged{events: in.Events, wakes: in.Wakes, sends: in.Sends, deleted: in.Deleted && !e.volatile()}
	spoiled := in.Spoiled || c.desc.ReadOnly && !st.empty() || !fits
	if c.askConflict {
		spoiled = spoiled || !st.empty()
		c.reply = sharding.Doubt(sharding.Aborted, c.env.Command+" was undone: it has run before, and then it sent other input to an entity that it asks")
	} else if refusal, again := m.refuseSends(e, c, st.sends); again && !spoiled {
		spoiled, recount = true, true
	} else if refusal != nil && !spoiled {
		spoiled, c.reply.Outcome, c.reply.Code, c.reply.Message, c.reply.Payload = true, refusal.Outcome, refusal.Code, refusal.Message, nil
	}
	c.endsForGood()
	if spoiled {
		m.stats.Spoiled++
		st = staged{}
	}
	if st.deleted {
		st.wakes = nil
	}
	if !spoiled {
		m.noteRemembered(e, c, &st, in.Forgotten)
	}
	if m.mayBeStored(e, c) || recount {
		c.done = false
		m.endIncarnation(e) // the reload runs the command again, unless its reply is stored
		m.releaseReplies(e)
		return
	}
	switch {
	case e.volatile():
		m.answer(e, c, &c.reply)
	case c.wakeup != nil && c.reply.Outcome != sharding.Executed:
		m.answer(e, c, &c.reply) // the setting of the wake-up still stands, so it fires again
	case c.wakeup != nil, c.endedSend != nil && c.reply.Outcome == sharding.Executed:
		m.stageFiring(e, c, &st)
	case !c.desc.ReadOnly && c.reply.Outcome == sharding.Executed && (!st.empty() || c.recordable()):
		m.stage(e, c, &st)
	default:
		c.waitsForRecord = e.staged
		if c.desc.Stale { // may show any state that was durable once: needs no fence read
			// Invariant: a stale read shows only a state that is or was durable.
			// Guarded by: `turn.turnDone`: like the reply to a write, the reply to a stale read waits until everything
			// staged before the reply is durable.
			// Mutants: stale-gate
			//mutant:do stale-gate m.answer(e, c, &c.reply)
		} else {
			// Invariant: a read sees every effect that was answered before the read was sent.
			// Mutants: read-fence
			c.waitsForFenceRead = m.requestFenceRead(e) //mutant:skip read-fence
		}
	}
	switch {
	case spoiled:
		m.endIncarnation(e)
	case st.deleted && c.ownRecord > 0:
		m.deleteEntity(e)
	default:
		for _, t := range in.Timers {
			m.setTimer(e, t)
		}
		e.passivate = e.passivate || in.Passivate
		m.grown(e, in.Size)
	}
	m.appendPending(e)
	m.releaseReplies(e)
	if c.done && !c.answered {
		m.hold(e, c, len(c.reply.Payload)+st.size())
	}
	m.advance(e)
}

// staged holds everything that a turn has staged.
type staged struct {
	events []sharding.Event
	wakes  []sharding.Wake
	sends  []sharding.Send
	// deleted is true if the turn deleted the entity.
	deleted bool
}

func (s *staged) empty() bool {
	return len(s.events)+len(s.wakes)+len(s.sends) == 0 && !s.deleted
}

func (s *staged) size() (n int) {
	for i := range s.events {
		n += len(s.events[i].Name) + len(s.events[i].Payload)
	}
	for i := range s.wakes {
		n += len(s.wakes[i].Name) + len(s.wakes[i].Input.Payload)
	}
	for i := range s.sends {
		n += len(s.sends[i].To.ID) + len(s.sends[i].Input.Payload)
	}
	return n
}

// mayBeStored reports whether a failed command may be a repeat of a command that has succeeded before. If a
// repeat succeeds, its append is refused, because the command is stored, and the stored reply is the answer.
// But a repeat that fails appends nothing, so nothing shows that it is a repeat, and the caller would take
// the failure for the answer to the first attempt. (If the input cannot be decoded now, the first attempt
// cannot have succeeded either.)
func (m *Machine) mayBeStored(e *entity, c *command) bool {
	return c.reply.Outcome == sharding.NotApplied && c.reply.Code != sharding.InvalidArgument &&
		c.recordable() && !c.lookedUpFirst && !e.volatile()
}

// stage makes a record of the staged data of a turn, or of its reply alone, with the next sequence number.
func (m *Machine) stage(e *entity, c *command, st *staged) {
	e.staged++
	c.ownRecord, c.waitsForRecord = e.staged, e.staged
	// Invariant: a record of an operator's built-in command does not count as data. If a life of an entity has only
	// such records, the entity is still fresh (`Ctx.Fresh`).
	// Mutants: operator-record
	//mutant:false operator-record c.builtin != nil && !st.deleted
	r := sharding.Record{Seq: e.staged, Events: st.events, Wakes: st.wakes, Sends: st.sends, Operator: c.builtin != nil && !st.deleted}
	e.sends += uint32(len(st.sends))
	if c.wakeup == nil { // the command of a wake-up has no caller, so no caller repeats it
		r.Command, r.Hash, r.Reply = c.env.ID, c.hash(), c.reply
		r.Reply.Timing = sharding.Timing{}
	}
	e.pending = append(e.pending, r)
	e.fresh = e.fresh && r.Operator
	e.sinceSnapshot += max(1, len(st.events))
	e.bytesSinceSnapshot += e.pending[len(e.pending)-1].ReplaySize()
	if c.recordable() {
		m.recent.add(e.inc, c.env.ID)
	}
}

// appendPending hands the pending records to the journal as one unit, unless a
// unit is in flight. An entity has at most one unit in flight, because a delayed
// one could be committed after the outcome of the other was settled.
func (m *Machine) appendPending(e *entity) {
	if e.appending() { //mutant:false one-unit
		return
	}
	if e.firingIsNext() {
		m.appendFiring(e)
		return
	}
	last := e.recordsBeforeFiring()
	if last == 0 {
		return
	}
	n, size := 0, 0
	for n < last && n < m.cfg.UnitRecords {
		more := e.pending[n].Size()
		if n > 0 && size+more > m.cfg.UnitBytes {
			break
		}
		size += more
		n++
	}
	e.shard.work.JournalBytes += uint64(size)
	e.inflight, e.pending = e.pending[:n:n], e.pending[n:]
	e.shard.noteForms(e.inflight)
	m.emit(Append{Incarnation: e.inc, Append: sharding.Append{
		Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address(), Records: e.inflight,
	}})
}

// releaseReplies answers the commands whose output gate has opened.
func (m *Machine) releaseReplies(e *entity) {
	for _, c := range e.cmds[:e.next] {
		if c.answered || !c.done {
			continue
		}
		// Invariant: a reply of an entity leaves only when everything staged before the reply is durable. A snapshot
		// contains only what is durable.
		// Guarded by: `turn.releaseReplies` (output gate), `turn.advance`.
		// Mutants: output-gate, snapshot-durable
		//mutant:false output-gate
		if c.waitsForRecord > e.durable {
			break // the commands after it wait as well
		}
		if c.wakeup != nil && !c.fired {
			continue // it has no record: nothing depends on it
		}
		if c.waitsForFenceRead <= e.shard.fence.completed {
			c.reply.Timing.Journal = m.now.Sub(c.finished)
			m.answer(e, c, &c.reply)
		}
	}
	m.removeAnswered(e)
	if e.state == ending && !e.appending() && len(e.pending)+len(e.nextReporters) == 0 && !e.gated() {
		m.reload(e)
	}
}

// gated reports whether the reply of a finished turn is still held back.
func (e *entity) gated() bool {
	for _, c := range e.cmds[:e.next] {
		if c.done && !c.answered {
			return true
		}
	}
	return false
}

// appended handles the journal's verdict on the unit in flight.
func (m *Machine) appended(in Appended) {
	e := m.slots.at(in.Incarnation) // a unit outlives its incarnation
	if e == nil || !e.appending() || e.unitSeq() != in.Seq {
		return
	}
	switch e.state {
	case settling:
		m.settled(e, in)
		return
	case settleRefused:
		return // the answer to a write that was repeated
	}
	if in.Verdict != sharding.Durable && in.Verdict != sharding.RefusedEpoch && m.firingRefused(e, in) {
		return
	}
	switch in.Verdict {
	case sharding.Durable:
		m.noteSends(e, in.At)
		m.noteWakes(e)
		if n := len(e.inflight); n > 0 {
			e.durable = e.inflight[n-1].Seq
		}
		e.inflight = nil
		m.appendPending(e)
		m.releaseReplies(e)
		m.passBarrier(e)
		m.advance(e)
	case sharding.UnknownOutcome:
		m.stats.Unknown++
		m.markInDoubt(e)
		m.endIncarnation(e)
		// Invariant: an unknown outcome stays unknown until a write settles it. Until then, no state of the entity is
		// shown.
		// Mutants: settle-by-write, settle-refused-stays
		//mutant:do settle-by-write e.inflight = nil; m.reload(e); return
		e.state = settling
		e.pending = nil
		e.inflight = []sharding.Record{{Seq: in.Seq}}
		m.emitSettle(e)
	case sharding.RefusedEpoch:
		e.inflight, e.reporter = nil, nil
		m.fenced(e.shard, in.Fence.Epoch)
	case sharding.RefusedFull, sharding.RefusedTooLarge, sharding.RefusedDamaged:
		m.answerRefused(e, in)
		e.inflight = nil
		m.endIncarnation(e)
		m.reload(e)
	default:
		// Refused by sequence number: a record is stored that this incarnation does not know. Refused by
		// command id: the command is stored already. Refused by wake-up: the turn of the firing has no
		// effect, but later turns have seen what it staged. In all cases the instance is wrong.
		m.markInDoubt(e)
		e.inflight = nil
		m.wakesUnknown(e)
		m.endIncarnation(e)
		if e.shard.phase == aborting {
			m.lookup(e)
		} else {
			m.reload(e)
		}
	}
}

// markInDoubt marks the commands of the unit in flight, so that they are looked up in the journal before
// they run again.
func (m *Machine) markInDoubt(e *entity) {
	first, last := e.inflight[0].Seq, e.inflight[len(e.inflight)-1].Seq
	for _, c := range e.cmds {
		if !c.answered && c.ownRecord >= first && c.ownRecord <= last {
			c.inDoubt = true
		}
	}
}

// answerRefused rejects the commands of a unit that the store has no capacity
// for, or that depends on damaged data.
func (m *Machine) answerRefused(e *entity, in Appended) {
	last := e.inflight[len(e.inflight)-1].Seq
	for _, c := range e.cmds[:e.next] {
		if c.answered || c.ownRecord == 0 || c.ownRecord > last {
			continue
		}
		reply := sharding.Reject(refusalCode(in.Verdict, len(e.inflight)), "the journal cannot take it: "+in.Reason)
		m.answer(e, c, &reply)
	}
}

// refusalCode returns the code of the replies to the commands of a refused unit.
func refusalCode(v sharding.Verdict, records int) sharding.Code {
	switch {
	// Invariant: operations that need a damaged part of the store are refused. No other operations are refused.
	// Guarded by: pages have checksums (`sqlite`, the VFS `roost-pages`), and so do records. `turn.answerRefused`,
	// `turn.settled`. `commit.isolateDamage` halves a batch until the operations that need the damaged part are alone.
	// Mutants: damage-is-loss, damage-settles
	case v == sharding.RefusedDamaged: //mutant:false damage-is-loss
		return sharding.DataLoss
	case v == sharding.RefusedTooLarge && records == 1:
		// The same command would be refused again. If the unit has several records, any of them may be
		// the large one, so their commands may be sent again.
		return sharding.FailedPrecondition
	}
	return sharding.ResourceExhausted
}

// emitSettle appends an empty record at the sequence number whose outcome is unknown.
func (m *Machine) emitSettle(e *entity) {
	m.emit(Append{Incarnation: e.inc, Append: sharding.Append{
		Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address(), Records: e.inflight,
	}})
}

// settled handles the verdict on the empty record. Once that record is durable or
// refused, the outcome of the unit before it can no longer change.
func (m *Machine) settled(e *entity, in Appended) {
	switch in.Verdict {
	case sharding.UnknownOutcome, sharding.RefusedFull, sharding.RefusedTooLarge:
		m.schedule(alarm{at: m.now.Add(m.cfg.Retry), kind: alarmSettle, entity: e, incarnation: e.inc})
		return
	case sharding.RefusedDamaged:
		// No write can settle the outcome while the damage lasts. Waiting callers learn that
		// the outcome is unknown. The entity is not loaded: when the damage is repaired, the unit may
		// still be committed, and the instance would lack its events.
		//mutant:do damage-settles m.schedule(alarm{at: m.now.Add(m.cfg.Retry), kind: alarmSettle, entity: e, incarnation: e.inc}); return
		why := "the journal cannot take it: " + in.Reason
		m.answerFailed(e, &Loaded{Err: why, Code: sharding.DataLoss})
		//mutant:true settle-refused-stays
		if e.state = settleRefused; e.shard.phase != open {
			m.removeEntity(e) // the next owner loads the entity after its claim at a higher epoch, which refuses the unit
			return
		}
		m.noteDead(e, sharding.DataLoss, why)
		return
	case sharding.RefusedEpoch:
		e.inflight = nil
		e.state = ending
		m.fenced(e.shard, in.Fence.Epoch)
		return
	}
	e.inflight = nil
	m.wakesUnknown(e)
	if e.shard.phase == aborting {
		m.lookup(e)
		return
	}
	m.reload(e)
}

// lookup looks the commands in doubt up in the journal, in a shard that this region no longer owns. The
// journal refuses all later writes of this region, so a read is enough.
func (m *Machine) lookup(e *entity) {
	m.removeAnswered(e)
	if len(e.cmds) == 0 {
		m.removeEntity(e)
		return
	}
	m.newIncarnation(e, lookup)
	m.emitLoad(e)
}
