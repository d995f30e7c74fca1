package turn

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// The firing of a wake-up is a unit of its own, with the record of its turn if there is one.
// The journal refuses the unit unless the setting of the wake-up stands, so at most one of two
// firings takes effect. No other turn is in the unit, so the refusal affects no other turn.

// fireWakeup admits the command of a wake-up, or reports that it cannot run now.
func (m *Machine) fireWakeup(in *Fire) {
	s := m.shard(in.Shard)
	ended := FiringEnded{Shard: in.Shard, Epoch: in.Epoch, Entity: in.Entity, Ref: in.Wakeup.WakeRef, End: FiringFailed}
	if s == nil || s.phase != open || s.epoch != in.Epoch {
		ended.End = FiringGone
		m.emitShardEvent(ended)
		return
	}
	w := &in.Wakeup
	fail := func(code sharding.Code, message string) {
		ended.Code, ended.Message = code, message
		m.emitShardEvent(ended)
	}
	desc, ok := s.typ.Desc.Command(w.Input.Command)
	if !ok {
		fail(sharding.UnknownCommand, m.cfg.Program+" has no command "+w.Input.Command+" of type "+string(s.id.Type))
		return
	}
	env := sharding.Envelope{
		Entity: in.Entity, Command: w.Input.Command, ID: timerID(s.epoch, m.lastTimer+1), Tell: true,
		Encoding: w.Input.Encoding, Payload: w.Input.Payload, Deadline: m.now.Add(m.timeout(s.typ, w.Input.Command)),
	}
	if w.Answer != nil {
		env.Encoding, env.Payload = w.Answer.Reply.Encoding, w.Answer.Reply.Payload
	}
	e := m.lookUp(s.typ, in.Entity.ID)
	size, room := env.Size(), m.room(false)
	switch {
	case e != nil && (len(e.cmds) >= m.cfg.MailboxCommands || len(e.cmds) > 0 && e.bytes+size > m.cfg.MailboxBytes):
		fail(sharding.ResourceExhausted, "the mailbox of the entity is full")
	case m.stats.Commands >= room.Commands || m.stats.Commands > 0 && m.stats.Bytes+size > room.Bytes:
		fail(sharding.ResourceExhausted, FullText)
	case e == nil && !m.mayLoad(in.Entity, false):
		fail(sharding.Unavailable, "too many loads are in progress, of its entity or of all entities of its shard core")
	default:
		m.lastTimer++
		c := m.newCommand()
		wakeup := *w
		c.env, c.desc, c.arrived, c.wakeup = env, desc, m.now, &wakeup
		m.admit(s, e, c)
	}
}

// timeout returns how long the command of a timer or of a wake-up may take.
func (m *Machine) timeout(typ *typeState, command string) time.Duration {
	// Invariant: the command of a timer, of a reminder, or one that takes an answer, has its own time-out.
	// Mutants: command-timeout
	if d := typ.Timeouts[command]; d > 0 { //mutant:false command-timeout
		return d
	}
	return m.cfg.TimerTimeout
}

// stageFiring stages that a wake-up has fired, with what its turn has staged.
func (m *Machine) stageFiring(e *entity, c *command, st *staged) {
	c.waitsForRecord = e.staged
	if !st.empty() || c.endedSend != nil {
		m.stage(e, c, st)
	}
	e.nextReporters = append(e.nextReporters, c)
}

// appending reports whether a unit of the entity is in flight.
func (e *entity) appending() bool { return len(e.inflight) > 0 || e.reporter != nil }

// unitSeq is the sequence number of the first record of the unit in flight, 0 if it has none.
func (e *entity) unitSeq() uint64 {
	if len(e.inflight) == 0 {
		return 0
	}
	return e.inflight[0].Seq
}

// firingIsNext reports whether the next unit belongs to the command nextReporters[0]: all records that the turn
// of this command has seen are in earlier units.
func (e *entity) firingIsNext() bool {
	if len(e.nextReporters) == 0 {
		return false
	}
	f := e.nextReporters[0]
	return len(e.pending) == 0 || e.pending[0].Seq > f.waitsForRecord || e.pending[0].Seq == f.ownRecord
}

// recordsBeforeFiring returns how many pending records are before the next firing.
func (e *entity) recordsBeforeFiring() int {
	if len(e.nextReporters) == 0 {
		return len(e.pending)
	}
	f, n := e.nextReporters[0], 0
	for n < len(e.pending) && e.pending[n].Seq <= f.waitsForRecord && e.pending[n].Seq != f.ownRecord {
		n++
	}
	return n
}

// appendFiring hands the unit of a firing to the journal.
func (m *Machine) appendFiring(e *entity) {
	f := e.nextReporters[0]
	e.reporter, e.nextReporters = f, e.nextReporters[1:]
	if f.ownRecord > 0 {
		e.inflight, e.pending = e.pending[:1:1], e.pending[1:]
		e.shard.noteForms(e.inflight)
		e.shard.work.JournalBytes += uint64(e.inflight[0].Size())
	}
	a := sharding.Append{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address(), Records: e.inflight}
	switch {
	case f.wakeup == nil:
		a.Delivered = f.endedRow()
	case f.wakeup.Kind == sharding.SendWake:
		a.Delivered = f.deliveredRow()
	default:
		a.Fired = f.firedRow()
	}
	m.emit(Append{Incarnation: e.inc, Append: a})
}

// ofOtherLife reports whether the command takes the answer to a send of a life that has ended.
func (c *command) ofOtherLife(e *entity) bool {
	return c.wakeup != nil && c.wakeup.Kind == sharding.SendWake && c.wakeup.Seq <= e.life
}

func (c *command) firedRow() []sharding.Fired {
	return []sharding.Fired{{WakeRef: c.wakeup.WakeRef, Next: c.wakeup.Next}}
}

// changedBy reports whether a unit changes the wake-up whose firing the command is, or ends the send
// whose answer the command takes. The unit has the given records; f is its reporter, or nil. The delete
// of an entity ends none of its sends, see ofOtherLife.
func (c *command) changedBy(records []sharding.Record, f *command) bool {
	ref := &c.wakeup.WakeRef
	if slices.ContainsFunc(records, func(r sharding.Record) bool {
		return r.Delete && ref.Kind != sharding.SendWake ||
			slices.ContainsFunc(r.Wakes, func(w sharding.Wake) bool { return w.Kind == ref.Kind && w.Name == ref.Name })
	}) {
		return true
	}
	switch {
	case f == nil:
		return false
	case f.endedSend != nil:
		//mutant:false drop-overtakes
		return ref.Kind == sharding.SendWake && f.endedSend.Seq == ref.Seq && uint64(f.endedSend.Sends[0]) == ref.Number
	}
	return f.wakeup.WakeRef == *ref
}

// hasStagedChange reports whether something that is staged, and not durable yet, changes the wake-up
// whose firing the command is, or ends the send whose answer the command takes.
func (e *entity) hasStagedChange(c *command) bool {
	return c.changedBy(e.inflight, e.reporter) || c.changedBy(e.pending, nil) ||
		slices.ContainsFunc(e.nextReporters, func(f *command) bool { return c.changedBy(nil, f) })
}

// overtake marks the waiting firings whose wake-ups the unit in flight has changed. The unit is durable
// now. A caller that has cancelled a reminder gets its reply next, and after that the reminder's handler
// must not begin.
func (e *entity) overtake() {
	for _, c := range e.cmds[e.next:] {
		if !c.answered && c.wakeup != nil && c.changedBy(e.inflight, e.reporter) { //mutant:false overtaken-firing
			c.overtakenEnd = FiringObsolete
		}
	}
}

// wakesUnknown reports that wake-ups of the entity may have changed, and marks the waiting firings, because
// their wake-ups may be among these.
func (m *Machine) wakesUnknown(e *entity) {
	m.emitShardEvent(WakesUnknown{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address()})
	for _, c := range e.cmds {
		if !c.answered && c.wakeup != nil { //mutant:false unknown-firing
			c.overtakenEnd = FiringInDoubt
		}
	}
}

// noteWakes reports how the unit in flight, which is durable now, has changed wake-ups.
func (m *Machine) noteWakes(e *entity) {
	e.overtake()
	f := e.reporter
	if f != nil {
		f.fired, e.reporter = true, nil
	}
	if f != nil && f.wakeup == nil {
		f = nil // the field sends is not changed here: package outbox knows whether the send was pending, see SendsEnded
	}
	if f != nil && f.wakeup.Kind == sharding.SendWake {
		e.sends -= min(1, e.sends)
		f = nil
	}
	if f == nil && !slices.ContainsFunc(e.inflight, func(r sharding.Record) bool { return len(r.Wakes) > 0 || r.Delete }) {
		return
	}
	changed := WakesChanged{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address(), Records: e.inflight}
	if f != nil {
		changed.Fired = f.firedRow()
		e.remindersFired(changed.Fired)
	}
	m.emitShardEvent(changed)
}

// firingRefused ends the firing that the unit in flight reports, if any, because the unit was refused or
// its outcome is unknown. It returns true if nothing else is to be done: the unit had no records, so no
// other turn has seen anything that is lost now.
func (m *Machine) firingRefused(e *entity, in Appended) (all bool) {
	f := e.reporter
	if f == nil {
		return false
	}
	e.reporter = nil
	if f.wakeup == nil {
		return false // not a firing but a built-in command: it is answered like the other commands of the unit
	}
	switch in.Verdict {
	case sharding.RefusedWake:
		//mutant:do refused-wake m.answer(e, f, &f.reply); break
		m.endFiring(e, f, FiringObsolete)
	case sharding.RefusedFull, sharding.RefusedTooLarge, sharding.RefusedDamaged:
		reply := sharding.Reject(refusalCode(in.Verdict, 1), "the journal cannot take it: "+in.Reason)
		m.answer(e, f, &reply)
	default:
		m.endFiring(e, f, FiringInDoubt)
	}
	if len(e.inflight) > 0 {
		return false
	}
	if in.Verdict == sharding.UnknownOutcome {
		m.stats.Unknown++
	}
	m.appendPending(e)
	m.releaseReplies(e)
	m.advance(e)
	return true
}

// emitFiringEnded reports how a firing has ended whose command has a reply.
func (m *Machine) emitFiringEnded(e *entity, c *command, reply *sharding.Reply) {
	ended := FiringEnded{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address(), Ref: c.wakeup.WakeRef, End: FiringDone}
	if reply.Outcome != sharding.Executed {
		ended.End, ended.Code, ended.Message = FiringFailed, reply.Code, reply.Message
	}
	m.emitShardEvent(ended)
}

// endFiring ends a firing whose command has no reply.
func (m *Machine) endFiring(e *entity, c *command, end FiringEnd) {
	m.emitShardEvent(FiringEnded{Shard: e.shard.id, Epoch: e.shard.epoch, Entity: e.address(), Ref: c.wakeup.WakeRef, End: end})
	m.markAnswered(e, c)
}
