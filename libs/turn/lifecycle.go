package turn

import (
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// newIncarnation gives the entity a new incarnation, so that late results of
// earlier incarnations can be recognised.
func (m *Machine) newIncarnation(e *entity, state entityState) {
	m.lastIncarnation++
	m.setSize(e, 0)
	e.inc, e.state = incarnation(e.inc.Slot(), m.lastIncarnation), state
	e.mailboxCheck, e.sendsUncertain = false, false
}

// load starts an incarnation. All appends of the entity must be settled.
func (m *Machine) load(e *entity) {
	e.bare, e.bareNext = e.bareNext || e.quarantined(), false
	if !e.bare && e.shard.makes(e.id) {
		m.newIncarnation(e, live)
		e.unmade = true
		m.advance(e)
		return
	}
	m.newIncarnation(e, loading)
	m.emitLoad(e)
}

// makes reports whether the first turn of an entity of the shard makes its instance, so that it is not loaded.
func (s *shard) makes(id sharding.EntityID) bool {
	if !s.typ.NoLoad {
		return false
	}
	_, kept := s.kept.byID[id]
	return !kept
}

// emitLoad requests a load, now or as soon as the limits allow one more.
func (m *Machine) emitLoad(e *entity) {
	if !m.mayLoad(e.address(), e.chained()) { //mutant:false load-limit
		m.schedule(alarm{at: m.now.Add(m.cfg.Retry), kind: alarmLoad, entity: e, incarnation: e.inc})
		return
	}
	m.loads.start(e.inc, e.address())
	o := Load{
		LoadRequest: journal.LoadRequest{
			Entity: e.address(), Shard: e.shard.id, LookupOnly: e.state == lookup,
			Wakes: !e.volatile() && e.state != lookup, Background: e.starting && len(e.cmds) == 0,
		},
		Epoch: e.shard.epoch, Incarnation: e.inc, Volatile: e.volatile(), Kept: e.keptState(),
		Bare: e.bare && e.state == loading, Suspect: e.suspect(),
	}
	if !o.Volatile {
		for _, c := range e.cmds {
			if !c.answered && !c.desc.ReadOnly && (c.env.Keyed || c.inDoubt) { //mutant:false lookup-first
				c.lookedUpFirst = true
				o.Lookup = append(o.Lookup, c.env.ID)
			}
		}
	}
	m.emit(o)
	m.schedule(alarm{at: m.nextCheck(e.cmds), kind: alarmLoadCheck, entity: e, incarnation: e.inc, loadBegan: m.now})
}

// checkLoad handles a load that has no answer yet. It answers the commands whose deadline has
// passed. After Config.LoadTimeout it loads the entity again, if the limits allow another load,
// because the load in progress may never be answered.
func (m *Machine) checkLoad(a alarm) {
	e := a.entity
	m.expire(e)
	left := m.cfg.LoadTimeout - m.now.Sub(a.loadBegan)
	switch {
	case len(e.cmds) == 0 && (left <= 0 || !e.starting):
		m.removeEntity(e) // no command waits for the entity any more
		//mutant:false load-again
	case left <= 0 && m.mayLoad(e.address(), e.chained()):
		m.newIncarnation(e, e.state)
		m.emitLoad(e)
	default:
		a.at = m.nextCheck(e.cmds)
		if again := m.now.Add(left); 0 < left && again.Before(a.at) {
			a.at = again
		}
		m.schedule(a)
	}
}

// expire answers the commands whose deadline has passed while their entity is being loaded. If an
// append with an unknown outcome may have stored a command, the answer is unknown. Otherwise the
// command is rejected.
func (m *Machine) expire(e *entity) {
	doubt := sharding.Doubt(sharding.DeadlineExceeded, "the deadline passed before the journal said whether the command was applied")
	reject := sharding.Reject(sharding.DeadlineExceeded, "the deadline passed before the journal had answered with the entity's state")
	for _, c := range e.cmds {
		// Invariant: if a load is never answered, the load delays no command beyond the command's deadline. The load is
		// started again.
		// Mutants: load-deadline, load-again
		if c.answered || !c.expired(m.now) { //mutant:true load-deadline
			continue
		}
		if c.inDoubt {
			m.answer(e, c, &doubt)
		} else {
			m.answer(e, c, &reject)
		}
	}
	m.removeAnswered(e)
}

// retryLoad repeats a load that failed or that the limits did not allow.
func (m *Machine) retryLoad(e *entity) {
	if m.expire(e); len(e.cmds) == 0 {
		m.removeEntity(e)
		return
	}
	m.emitLoad(e)
}

func (m *Machine) loaded(in *Loaded) {
	m.loads.done(in.Incarnation)
	e := m.find(in.Incarnation)
	if e == nil || e.state != loading && e.state != lookup {
		if e == nil && in.Err == "" {
			m.emit(Drop{Entity: in.Entity, Incarnation: in.Incarnation})
		}
		return
	}
	if in.Err != "" {
		m.endStart(e, StartFailed, in.Code, in.forOperators())
	}
	if in.Err != "" && in.Retry {
		if m.expire(e); len(e.cmds) == 0 {
			m.removeEntity(e)
			return
		}
		m.newIncarnation(e, e.state)
		m.schedule(alarm{at: m.now.Add(m.cfg.Retry), kind: alarmLoad, entity: e, incarnation: e.inc})
		return
	}
	if in.Err != "" {
		m.failEntity(e, in)
		return
	}
	for _, c := range e.cmds {
		s, found := in.Stored[c.env.ID]
		m.resolveStored(e, c, found, &s)
	}
	m.removeAnswered(e)
	if e.state == lookup {
		for _, c := range e.cmds {
			if !c.answered {
				m.answerNotMine(e, c)
			}
		}
		m.removeAnswered(e)
		m.removeEntity(e)
		return
	}
	unremembered := !e.bare && e.startedInVain(in)
	if !e.volatile() {
		e.noteRecords(in)
	}
	m.grown(e, in.Size)
	e.state = live
	if e.bare && e.quarantined() {
		m.endStart(e, StartFailed, sharding.EntityQuarantined, e.quarantineText())
	} else if e.bare {
		m.endStart(e, StartPostponed, "", "") // no instance was made, so the entity is not alive: it is started later
	} else {
		m.stats.Activations++
		m.endStart(e, StartDone, "", "")
	}
	m.takeKept(e)
	for _, t := range in.Timers {
		m.setTimer(e, t)
	}
	switch {
	case unremembered: // its start hook has run, so its stop hook must run, too
		//mutant:do forgotten-stops m.emit(Drop{Entity: e.address(), Incarnation: e.inc}); m.clearTimers(e); m.removeEntity(e)
		m.passivate(e, &e.shard.typ.passivations.Asked) //mutant:skip forgotten-stops
	default:
		m.advance(e)
	}
}

// noteRecords notes what a load has read of the records of the entity.
func (j *journaled) noteRecords(in *Loaded) {
	*j = journaled{
		staged: in.LastSeq, durable: in.LastSeq, rememberedActivity: in.RememberedActivity, reminders: in.Reminders, life: in.Life,
		sinceSnapshot: in.Events, bytesSinceSnapshot: in.Bytes, loadedSeq: in.LastSeq, sends: uint32(in.Pending),
		sendsUncertain: j.sendsUncertain, fresh: in.Fresh, trimmed: in.Trimmed,
	}
}

// lookedUp handles the journal's answer about a command that may be a repeat. If
// the command is not stored, or the lookup failed, it has a turn like any other.
func (m *Machine) lookedUp(in LookedUp) {
	e := m.find(in.Incarnation)
	if e == nil || e.state != live {
		return
	}
	c := e.find(in.ID)
	if c == nil || !c.lookupPending {
		return
	}
	c.lookupPending, c.lookedUpFirst = false, !in.Failed
	m.resolveStored(e, c, in.Found, &in.Stored)
	m.removeAnswered(e)
	m.advance(e)
}

// resolveStored answers a command that the journal has stored. A command that is
// not stored was not applied: it is no longer in doubt.
func (m *Machine) resolveStored(e *entity, c *command, found bool, s *sharding.Stored) {
	// The answer to an append can take longer than the journal remembers keys. Then the command may have been
	// applied and forgotten, for example with its deleted entity, so that it must not run again.
	//mutant:false doubt-outlives-key
	forgotten := !found && c.inDoubt && m.cfg.KeyAge > 0 && m.now.Sub(c.finished) >= m.cfg.KeyAge
	c.inDoubt = false
	switch {
	case c.answered:
	case forgotten:
		reply := sharding.Doubt(sharding.KeyExpired,
			"the journal did not answer for so long that the entity may have forgotten whether it has executed the command, and will not execute it now. Find out from the entity's state, and use a new key if the command is still wanted")
		m.answer(e, c, &reply)
	case !found:
	case s.Expired:
		reply := sharding.Doubt(sharding.KeyExpired,
			"the idempotency key is too old: the entity does not remember any more whether it has executed the command, and will not execute it now. Find out from the entity's state, and use a new key if the command is still wanted")
		m.answer(e, c, &reply)
	case s.Hash != c.hash(): //mutant:false key-conflict
		reply := sharding.Reject(sharding.AlreadyExists, conflictMessage)
		m.answer(e, c, &reply)
	default:
		m.stats.Duplicates++
		m.recent.add(e.inc, c.env.ID)
		m.answer(e, c, &s.Reply)
	}
}

// failEntity refuses the commands of an entity that cannot be loaded. The refusals say that data of the
// entity is lost or cannot be read. This would be wrong if this owner is deposed: the next owner may have
// stored data in a form that only newer code can read. So the refusals wait for a fence read, like the
// answers of turns. After the fence read, the entity is removed. If commands have arrived meanwhile, the
// entity is loaded again for them.
//
// Built-in commands are not refused. They need no instance, and an operator uses them to delete or
// repair an entity that cannot be loaded. For these commands, the entity is loaded once more, without
// an instance ([Load].Bare).
func (m *Machine) failEntity(e *entity, in *Loaded) {
	// Invariant: if a deposed owner merely cannot read some data, the owner does not report the data as lost.
	// Guarded by: `turn.failEntity`: if an entity cannot be loaded, the fence is read before the entity's commands are
	// refused.
	// Mutants: failed-fence
	if e.volatile() || e.state == lookup { //mutant:true failed-fence
		m.answerFailed(e, in)
		m.removeEntity(e)
		return
	}
	for _, c := range e.cmds {
		if c.wakeup != nil && !c.answered { // a firing does not wait for the fence: no client gets its reply, and the wake-up fires again later
			reply := sharding.Reject(in.Code, in.messageFor(c))
			m.answer(e, c, &reply)
		}
	}
	if m.removeAnswered(e); len(e.cmds) == 0 {
		m.removeEntity(e)
		return
	}
	m.newIncarnation(e, ending)
	// Invariant: an operator can delete and repair an entity that cannot be brought to life. None of the author's code
	// runs for this.
	// Guarded by: `turn.failEntity`: the entity is loaded once more, without an instance, for built-in commands only.
	// Mutants: bare-load, bare-turn
	fence, loadBare := uint64(0), !e.bare //mutant:false bare-load !e.bare
	for _, c := range e.cmds {
		if c.answered {
			continue
		}
		if loadBare && c.builtin != nil { // it is not refused: it runs after the bare load
			e.bareNext = true
			continue
		}
		if fence == 0 { // one read is enough for all commands
			fence = m.requestFenceRead(e)
		}
		c.done, c.finished, c.waitsForFenceRead = true, m.now, fence
		if c.reply = sharding.Reject(in.Code, in.messageFor(c)); c.inDoubt {
			c.reply = sharding.Doubt(in.Code, in.messageFor(c))
		}
	}
	if e.next = len(e.cmds); fence == 0 {
		m.reload(e)
	}
}

// forOperators returns why there is no instance, with the error itself.
func (in *Loaded) forOperators() string {
	if in.Cause == "" {
		return in.Err
	}
	return in.Cause + "; " + in.Err
}

// messageFor is forOperators if no client reads the reply to the command.
func (in *Loaded) messageFor(c *command) string {
	if c.wakeup != nil || c.env.ID.IsSend() {
		return in.forOperators()
	}
	return in.Err
}

// answerFailed answers all commands of an entity that cannot be loaded or settled.
func (m *Machine) answerFailed(e *entity, in *Loaded) {
	for _, c := range e.cmds {
		reply := sharding.Reject(in.Code, in.messageFor(c))
		if c.inDoubt {
			reply = sharding.Doubt(in.Code, in.messageFor(c))
		}
		if !c.answered {
			m.answer(e, c, &reply)
		}
	}
	m.removeAnswered(e)
}

// removeEntity removes an entity without commands and without an instance.
func (m *Machine) removeEntity(e *entity) {
	e.shard.typ.policy.Removed(e.node())
	m.setSize(e, 0)
	m.noteRemoved(e)
	m.remove(e)
	m.slots.free(e.inc.Slot())
	e.inc, e.state, e.inflight = 0, 0, nil
	m.stats.Entities--
	m.checkDrained(e.shard)
}

// refuseLate answers a command whose deadline has passed before its turn.
func (m *Machine) refuseLate(e *entity, c *command) {
	reply := sharding.Reject(sharding.DeadlineExceeded, "the deadline passed in the mailbox")
	reply.Timing.Mailbox = m.now.Sub(c.arrived)
	m.answer(e, c, &reply)
}

// checkMailbox answers the commands whose deadline has passed before their turn. It does not wait for
// the turn before them, which may never end. The answered commands leave the mailbox at once, so that
// the size of the mailbox is bounded.
func (m *Machine) checkMailbox(e *entity) {
	e.mailboxCheck = false
	if e.next == len(e.cmds) {
		return
	}
	remaining := e.cmds[:e.next]
	for _, c := range e.cmds[e.next:] {
		// Invariant: if a turn never ends, the turn delays no other command beyond the other command's deadline. The
		// sender of the delayed command hears in time that the command was not applied.
		// Mutants: mailbox-deadline, deadline-late, answer-reserve
		if !c.answered && c.expired(m.now) { //mutant:false mailbox-deadline
			m.refuseLate(e, c)
		}
		if c.answered {
			m.freeCommand(c)
		} else {
			remaining = append(remaining, c)
		}
	}
	clear(e.cmds[len(remaining):])
	e.cmds = remaining
	m.advance(e)
}

// expired reports whether the deadline of the command has passed.
func (c *command) expired(now time.Time) bool {
	return !c.env.Deadline.IsZero() && !now.Before(c.env.Deadline)
}

// advance starts the entity's next turn. If no command is left, the entity becomes idle.
// While commands still wait, their deadlines are checked.
func (m *Machine) advance(e *entity) {
	m.startTurn(e)
	if e.state == live && e.next < len(e.cmds) && !e.mailboxCheck {
		e.mailboxCheck = true
		m.schedule(alarm{at: m.nextCheck(e.cmds[e.next:]), kind: alarmMailbox, entity: e, incarnation: e.inc})
	}
}

// nextCheck returns the time of the next check of the deadlines of waiting commands. This is the
// earliest of the deadlines, but at most DeadlineCheck from now. A check long after a deadline would come
// too late: the router gives the command up soon after the deadline, and then it answers that the command
// is in doubt, although the command was not applied. Two checks are at least a tenth of DeadlineCheck
// apart, so that many deadlines close together cost little.
func (m *Machine) nextCheck(waiting []*command) time.Time {
	at := m.now.Add(m.cfg.DeadlineCheck)
	for _, c := range waiting {
		if d := c.env.Deadline; !c.answered && !d.IsZero() && d.Before(at) { //mutant:false deadline-late
			at = d
		}
	}
	if first := m.now.Add(m.cfg.DeadlineCheck / 10); at.Before(first) {
		return first
	}
	return at
}

// startTurn starts the next turn unless one is running.
func (m *Machine) startTurn(e *entity) {
	if e.state != live || e.running != nil {
		return
	}
	if m.snapshotDue(e) {
		//mutant:false snapshot-durable
		if e.durable < e.staged {
			return // a snapshot must show durable events only: the next turn waits until all are durable
		}
		e.sinceSnapshot, e.bytesSinceSnapshot = 0, 0
		e.shard.noteSnapshotForm()
		m.emit(Snapshot{Entity: e.address(), Shard: e.shard.id, Epoch: e.shard.epoch, Incarnation: e.inc, Seq: e.durable, Cut: e.shard.typ.cut(e.durable)})
	}
	for e.next < len(e.cmds) {
		c := e.cmds[e.next]
		if c.answered {
			e.next++
			continue
		}
		if c.expired(m.now) {
			m.refuseLate(e, c)
			e.next++
			continue
		}
		if c.lookupPending || m.holdsTooMuch(e) {
			return
		}
		// Invariant: a firing may wait in the mailbox. If its reminder is set again or removed meanwhile, the firing
		// does not run. If the firing brings the answer to a send and this send is dropped meanwhile, the firing does
		// not run.
		// Guarded by: `turn.startTurn` refuses a firing while a staged record changes the firing's wake-up.
		// `turn.overtake`: once the staged record is durable, the firing ends without a turn. `turn.wakesUnknown`: if
		// the outcome of an append is unknown, all waiting firings of the entity end without a turn.
		// Mutants: staged-wake, overtaken-firing, unknown-firing, drop-overtakes
		if c.wakeup != nil && e.hasStagedChange(c) { //mutant:false staged-wake
			reply := sharding.Reject(sharding.Aborted, "a turn before it has set the wake-up again or removed it, and that is not durable yet")
			m.answer(e, c, &reply)
			e.next++
			continue
		}
		// Invariant: the answer to a send is taken only in the life of the sender in which the send was staged. After a
		// delete, a later life of the same entity does not take it.
		// Mutants: answer-life
		if c.ofOtherLife(e) { //mutant:false answer-life
			m.endFiring(e, c, FiringOtherLife)
			e.next++
			continue
		}
		if c.overtakenEnd != 0 {
			m.endFiring(e, c, c.overtakenEnd)
			e.next++
			continue
		}
		if c.builtin == nil && e.quarantined() {
			m.refuseQuarantined(e, c)
			e.next++
			continue
		}
		//mutant:false bare-turn
		if e.bare && c.builtin == nil {
			m.endIncarnation(e) // the command needs an instance, so the entity is loaded again with one
			m.releaseReplies(e)
			return
		}
		e.next++
		e.running = c
		m.lastTurn++
		c.runID, c.turn = c.requestID(), m.lastTurn
		c.barrierOpen, c.asksMade, c.askConflict, c.askInDoubt, c.waited = false, nil, false, false, 0
		c.reply.Timing.Mailbox = m.now.Sub(c.arrived)
		if c.builtin != nil {
			c.builtin(m, e, c)
			return
		}
		run := &c.run
		if c.heldByOldTurn {
			run = &Run{}
		}
		if e.unmade {
			m.stats.Activations++
		}
		*run = Run{
			New: e.unmade, Entity: e.address(), Shard: e.shard.id, Epoch: e.shard.epoch, Incarnation: e.inc,
			Request: c.runID, Turn: c.turn, Env: &c.env, ReadOnly: c.desc.ReadOnly, Fresh: e.fresh, Timer: c.timer != nil, Wakeup: c.wakeup, Suspect: e.suspect(),
		}
		e.unmade = false
		m.emit(run)
		return
	}
	m.removeAnswered(e)
	m.goIdle(e)
}

// requestID returns the request that names the command's turn; 0 if no caller waits for an answer.
func (c *command) requestID() RequestID {
	if len(c.requests) == 0 {
		return 0
	}
	return c.requests[0]
}

// snapshotDue reports whether a snapshot is to be taken.
//
// Only types with KeepEvents trim events. So if events of the entity were trimmed and the type has no
// KeepEvents, an earlier version of the type had it. Then no snapshot is taken, because the entity could
// become unreadable. A type without
// KeepEvents does not declare the form of its snapshots, so the coordinator may give the shard to a region
// that cannot read this form. Usually such a region rebuilds the state from the events. Here it cannot,
// because the events that the snapshot covers may be trimmed. The earlier snapshot remains, and its form
// was declared.
//
// If the entity is fresh, no snapshot is taken either: with a snapshot it would not count as fresh.
func (m *Machine) snapshotDue(e *entity) bool {
	n := e.shard.typ.SnapshotEvery
	if e.trimmed && e.shard.typ.KeepEvents == 0 { //mutant:false untold-snapshot
		return false
	}
	return n > 0 && !e.fresh && !e.bare && (e.sinceSnapshot >= n || e.bytesSinceSnapshot >= int(m.cfg.SnapshotBytes)) && !e.volatile()
}

// goIdle tells the policy that a live entity has no work, or stops the entity.
func (m *Machine) goIdle(e *entity) {
	if e.busy() {
		return
	}
	switch {
	case e.unmade: // no command has had a turn
		m.removeEntity(e)
	case e.bare: // all built-in commands are done
		m.emit(Drop{Entity: e.address(), Incarnation: e.inc})
		e.rememberedActivity, e.unrememberedBy = 0, 0 // so that removeEntity does not report RememberedLost: without an instance, the entity was not alive
		m.removeEntity(e)
	case e.quarantined():
		m.endQuarantined(e)
	case e.shard.phase == draining:
		m.stop(e, HandedOff)
	case e.passivate:
		m.passivate(e, &e.shard.typ.passivations.Asked)
	default:
		m.markIdle(e, m.now)
		m.freeWork(e)
	}
}

// stop runs the stop hook of a live entity that is idle. Commands that arrive meanwhile wait. If
// commands wait when the hook has run, the entity is loaded again.
func (m *Machine) stop(e *entity, why StopReason) {
	e.shard.typ.policy.Removed(e.node())
	e.state, e.passivate, e.evicted = stopping, false, false
	keep := why == HandedOff && e.shard.keeps()
	if keep && len(e.timers) > 0 {
		e.keptTimers = e.pendingTimers(m.now)
	}
	m.clearTimers(e)
	m.emit(Stop{Entity: e.address(), Incarnation: e.inc, Reason: why, Keep: keep})
}

func (m *Machine) stopped(in Stopped) {
	e := m.find(in.Incarnation)
	if e == nil || e.state != stopping {
		return
	}
	m.stoppedWith(e, in.Kept)
	if len(e.cmds) > 0 && e.shard.phase != aborting {
		m.load(e)
		return
	}
	e.rememberedActivity, e.unrememberedBy = 0, 0 // so that removeEntity does not report RememberedLost: the entity is started again with its shard, not now
	m.removeEntity(e)
}

func (m *Machine) clearTimers(e *entity) {
	for _, t := range e.timers {
		t.active = false
	}
	e.timers = nil
}

// endIncarnation drops the instance. A late result of its turn will be ignored, and every command
// that is not answered will run again. Appends in progress continue.
func (m *Machine) endIncarnation(e *entity) {
	if e.state == live || e.state == stopping {
		m.emit(Drop{Entity: e.address(), Incarnation: e.inc})
	}
	m.clearTimers(e)
	if e.running != nil {
		e.running.heldByOldTurn = true
	}
	m.endUnwantedAsk(e)
	m.newIncarnation(e, ending)
	e.running, e.passivate = nil, false
}

// requeue makes all unanswered commands run again, in order.
func (m *Machine) requeue(e *entity) {
	e.pending, e.nextReporters = nil, nil
	e.next = 0
	for _, c := range e.cmds {
		m.hold(e, c, -c.resultBytes)
		c.done, c.fired, c.lookupPending, c.ownRecord, c.waitsForRecord, c.waitsForFenceRead = false, false, false, 0, 0, 0
		c.reply = sharding.Reply{}
	}
}

// reload loads an entity whose incarnation has ended and whose appends are settled. If neither a
// command nor a StartEntity waits for the entity, it is removed instead.
func (m *Machine) reload(e *entity) {
	m.requeue(e)
	m.removeAnswered(e)
	if len(e.cmds) == 0 && (!e.starting || e.shard.phase != open) {
		m.removeEntity(e)
		return
	}
	m.load(e)
}
