package turn

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// An ask is a command that a running turn sends to another entity. The turn waits for the answer. A turn
// waits for one answer at a time, so the turns that wait for each other form a chain.
//
// An ask is *changing* if it may change the other entity. The first changing ask of a turn waits for the
// barrier: everything staged before the turn is durable, and the shard's fence was read after that. Without
// the barrier, an owner that dies or was deposed could change another entity because of a state that never
// existed. What the turn itself stages becomes durable later, or never. So if a turn that has sent a
// changing ask fails, its command is in doubt, and runs again with the same key. Then its asks have the same
// keys as before, and take effect once.

// ask is the ask whose answer a running turn waits for.
type ask struct {
	number   uint64 // chosen by the driver
	env      *sharding.Envelope
	readOnly bool
	sent     bool
	// The turn passes the barrier when record seq is durable, and a fence read that began after that is
	// answered. fence is the number of this fence read; 0: it was not requested yet.
	seq   uint64
	fence uint64
	began time.Time // when the turn began to wait
	// since is the time at which the ask was sent, in Unix nanoseconds. probePause is the time between two
	// probes.
	since      int64
	probePause time.Duration
}

// sentAsk counts the changing asks of a turn to one command of one entity.
type sentAsk struct {
	target  sharding.Entity
	command string
	times   int
}

// NotAsked is the reply to an ask that has not left and never will. It is also for a driver that
// has ended before it could step the ask.
func NotAsked(why string) sharding.Reply { return sharding.Reject(sharding.Aborted, "not sent: "+why) }

// startAsk begins an ask of a running turn, or refuses it.
func (m *Machine) startAsk(in *Ask) {
	e := m.find(in.Incarnation)
	//mutant:false ask-turn e.running.turn != in.Turn
	//mutant:false ask-ended e.state != live || e.running.turn != in.Turn
	if e == nil || e.running == nil || e.state != live || e.running.turn != in.Turn {
		m.askDone(in.Incarnation, in.Number, NotAsked("the turn is over, or its result is not wanted any more"))
		return
	}
	c := e.running
	if refusal := m.refuseAsk(e, c, in); refusal != nil {
		m.askDone(in.Incarnation, in.Number, *refusal)
		return
	}
	a := &ask{number: in.Number, readOnly: in.ReadOnly, env: m.askEnvelope(e, c, in), seq: e.staged, began: m.now}
	e.ask = a
	m.stats.Waiting++
	m.schedule(alarm{at: a.env.Deadline, kind: alarmAsk, entity: e, incarnation: e.inc, number: a.number})
	if a.readOnly || e.volatile() || c.barrierOpen {
		m.sendAsk(e)
		return
	}
	m.passBarrier(e)
}

// passBarrier sends the first changing ask of a turn as soon as nothing can undo what the turn
// has seen.
func (m *Machine) passBarrier(e *entity) {
	a := e.ask
	if a == nil || a.sent {
		return
	}
	// Invariant: a turn may change other entities only when two things are certain: the state that the turn has read is
	// durable, and the turn's region still owned the shard at some moment after this state had become durable.
	// Guarded by: `turn.passBarrier`: the first changing ask of a turn waits for two things. Everything staged before
	// the turn is durable, and the fence was read after that. `turn.startAsk`: once the incarnation has ended, no ask
	// leaves.
	// Mutants: ask-barrier, ask-fence
	if e.durable < a.seq { //mutant:false ask-barrier
		return
	}
	if a.fence == 0 { //mutant:false ask-fence
		a.fence = m.requestFenceRead(e)
	}
	if e.shard.fence.completed >= a.fence {
		m.sendAsk(e)
	}
}

func (m *Machine) sendAsk(e *entity) {
	a, c := e.ask, e.running
	a.sent = true
	if !a.readOnly {
		c.barrierOpen, c.asked = true, true
	}
	a.since = m.now.UnixNano()
	m.scheduleProbe(e, m.cfg.ProbeAfter)
	m.stats.Asks++
	m.emit(SendAsk{Incarnation: e.inc, Number: a.number, Env: *a.env, ReadOnly: a.readOnly})
}

// refuseAsk returns the reply to an ask that is refused, and nil if the ask is allowed.
func (m *Machine) refuseAsk(e *entity, c *command, in *Ask) *sharding.Reply {
	refuse := func(code sharding.Code, why string) *sharding.Reply {
		r := sharding.Reject(code, "not sent: "+why)
		return &r
	}
	env := sharding.Envelope{Entity: in.Target, Command: in.Command, ID: in.Key, Keyed: in.Key != ""}
	err := env.Check()
	waiting := m.cfg.WaitingTurns
	if len(c.env.Chain) == 0 { //mutant:false ask-reserve
		waiting -= m.cfg.WaitingTurns / ReservedShare
	}
	switch {
	case err != nil:
		return refuse(sharding.InvalidArgument, err.Error())
	case sharding.IsBuiltin(in.Command): //mutant:false ask-builtin
		return refuse(sharding.InvalidArgument, in.Command+" is for operators, and no entity may ask it of another one")
	case len(in.Payload) > sharding.MaxPayload:
		return refuse(sharding.InvalidArgument, "the input has "+strconv.Itoa(len(in.Payload))+" bytes, at most "+strconv.Itoa(sharding.MaxPayload)+" are allowed")
	case e.ask != nil:
		return refuse(sharding.FailedPrecondition, "the turn waits for another answer already; a turn asks for one at a time")
	// Invariant: if turns wait for each other in a cycle, exactly one of these turns gives up. So no turn waits
	// forever.
	// Guarded by: `turn.refuseAsk`: no turn asks an entity of its own chain. `turn.probed`: the youngest turn of a
	// cycle gives up. `turn.follow` passes probes on, also in a draining shard.
	// Mutants: call-cycle, ask-chain, probe-youngest, probe-stale, probe-again, probe-drain
	case in.Target == e.address() || slices.Contains(c.env.Chain, in.Target): //mutant:false call-cycle
		return refuse(sharding.FailedPrecondition, "call cycle "+cycle(c.env.Chain, e.address(), in.Target))
	case len(c.env.Chain) >= sharding.MaxChain: //mutant:false ask-depth
		return refuse(sharding.FailedPrecondition, "more than "+strconv.Itoa(sharding.MaxChain)+" entities would wait for one another: "+cycle(c.env.Chain, e.address(), in.Target))
	case !in.ReadOnly && c.desc.ReadOnly: //mutant:false ask-read-only
		return refuse(sharding.FailedPrecondition, c.env.Command+" changes nothing, so it may send read-only commands only")
	// Invariant: an ask takes effect once, however often the command of its turn runs.
	// Guarded by: `turn.refuseAsk`: only a turn with a key may send changing asks. `turn.askKey` derives the key of an
	// ask from the turn's command. `turn.askAnswered` detects a key that was used before with another input.
	// Mutants: ask-unkeyed, ask-read-only, asked-read-only, ask-key, ask-ordinal, ask-conflict, ask-turn, asks-again
	case !in.ReadOnly && c.origin(e) == nil: //mutant:false ask-unkeyed
		return refuse(sharding.FailedPrecondition, c.env.Command+" has no idempotency key, so "+in.Command+" could not be distinguished from a repeat; send "+c.env.Command+" with one (the header Idempotency-Key; entity.Key in Go), or use a reminder instead of a timer")
	case !in.ReadOnly && len(c.asksMade) >= m.cfg.AsksPerTurn && !c.asks(in): //mutant:true asks-again !c.asks(in)
		return refuse(sharding.FailedPrecondition, "the turn has asked "+strconv.Itoa(len(c.asksMade))+" entities already for something that changes them; use Send for so many")
	// Invariant: a command that a turn waits for is admitted even if other commands have reached the limits. The
	// command is also admitted if its shard is draining.
	// Guarded by: `turn.room` reserves a fifth of each limit for commands with a chain. `turn.refuseAsk` limits the
	// number of turns that wait. `turn.admits`: a draining shard takes the commands that its own turns wait for.
	// `router.flushChained` sends these commands to the draining shard.
	// Mutants: ask-waiting, ask-reserve, ask-drain, route-chained
	case m.stats.Waiting >= waiting: //mutant:false ask-waiting
		return refuse(sharding.ResourceExhausted, "too many turns of the region wait for answers of other entities")
	}
	return nil
}

// cycle returns the text of a chain that leads to the target. If the target is in the chain, the text begins
// with the target.
func cycle(chain []sharding.Entity, asker, target sharding.Entity) string {
	chain = append(slices.Clip(chain), asker)
	if i := slices.Index(chain, target); i >= 0 {
		chain = chain[i:]
	}
	var b strings.Builder
	for _, e := range chain {
		b.WriteString(e.String() + " → ")
	}
	return b.String() + target.String()
}

// askEnvelope makes the command that is sent.
func (m *Machine) askEnvelope(e *entity, c *command, in *Ask) *sharding.Envelope {
	env := &sharding.Envelope{
		Entity: in.Target, Command: in.Command, Keyed: !in.ReadOnly, Encoding: in.Encoding, Payload: in.Payload,
		Principal: c.env.Principal, Trace: in.Trace, Deadline: m.askDeadline(c, in),
		Chain: append(slices.Clip(c.env.Chain), e.address()),
	}
	//mutant:do ask-chain env.Chain = nil
	switch {
	case in.ReadOnly:
		m.lastTimer++
		env.ID = sharding.DerivedKey(sharding.AskPrefix, time.Time{}, "read", e.address().String(), string(timerID(e.shard.epoch, m.lastTimer)))
	case in.Key != "":
		env.ID = in.Key
		c.note(in)
	default:
		env.ID = m.askKey(e, c, in)
	}
	return env
}

// askDeadline returns the deadline of an ask. It leaves the turn some time to use the answer.
func (m *Machine) askDeadline(c *command, in *Ask) time.Time {
	at := m.now.Add(m.cfg.AskTimeout)
	if d := c.env.Deadline; !d.IsZero() {
		at = m.now.Add(time.Duration(float64(max(0, d.Sub(m.now))) * m.cfg.AskShare))
	}
	if d := in.Deadline; !d.IsZero() && d.Before(at) {
		return d
	}
	return at
}

// origin identifies the command of the running turn, in the same way whenever and wherever the
// command runs again; nil: it cannot be identified. The command of a timer cannot: when the
// incarnation ends, the timer ends, so no later run would repeat what the turn has begun. For a
// wake-up, the time is a part of the origin: the records of an entity that was purged begin at 1
// again, while targets still remember the keys of its earlier asks.
func (c *command) origin(e *entity) []string {
	switch {
	case c.env.Keyed:
		return []string{"key", e.address().String(), string(c.env.ID)}
	case c.wakeup != nil:
		w := c.wakeup
		at := w.Due
		if w.Answer != nil {
			at = w.Answer.SentAt.UnixMilli()
		}
		//mutant:do ask-life at = 0
		return []string{"wake-up", e.address().String(), string(rune(w.Kind)), w.Name, strconv.FormatUint(w.Seq, 10), strconv.FormatUint(w.Number, 10), strconv.FormatInt(at, 10)}
	}
	return nil
}

// askKey returns the idempotency key of a changing ask. It has the time of the command's own
// key, so that both are forgotten at the same age.
func (m *Machine) askKey(e *entity, c *command, in *Ask) sharding.CommandID {
	at, _ := sharding.KeyTime(c.env.ID)
	parts := c.origin(e)
	times := c.note(in)
	// With the mutant: another one in every run
	//mutant:do ask-key m.lastTimer++; parts = append(parts, strconv.FormatUint(m.lastTimer, 10))
	//mutant:skip ask-key
	switch {
	case in.KeyName != "":
		parts = append(parts, "step", in.KeyName)
	default:
		parts = append(parts, "nth", in.Target.String(), in.Command)
		parts = append(parts, strconv.Itoa(times)) //mutant:skip ask-ordinal
	}
	return sharding.DerivedKey(sharding.AskPrefix, at, parts...)
}

// asks reports whether the turn has sent the same command to the same entity before.
func (c *command) asks(in *Ask) bool {
	return slices.ContainsFunc(c.asksMade, func(n sentAsk) bool { return n.target == in.Target && n.command == in.Command })
}

// note counts a changing ask, and returns how many asks of the turn were sent to the same command of the
// same entity before.
func (c *command) note(in *Ask) int {
	for i := range c.asksMade {
		if n := &c.asksMade[i]; n.target == in.Target && n.command == in.Command {
			n.times++
			return n.times - 1
		}
	}
	c.asksMade = append(c.asksMade, sentAsk{target: in.Target, command: in.Command, times: 1})
	return 0
}

// askAnswered takes the answer to an ask.
func (m *Machine) askAnswered(in AskAnswered) {
	e := m.find(in.Incarnation)
	if e == nil || e.ask == nil || e.ask.number != in.Number || !e.ask.sent {
		return
	}
	reply := in.Reply
	//mutant:false ask-conflict
	if !e.ask.readOnly && reply.Outcome == sharding.NotApplied && reply.Code == sharding.AlreadyExists {
		e.running.askConflict = true
		reply = sharding.Doubt(sharding.Aborted, "the turn has run before, and then it sent "+e.ask.env.Command+" with another input to "+e.ask.env.Entity.String()+": that took effect. The input of an ask must follow from the command alone")
	}
	//mutant:do ask-refused if reply.Outcome == sharding.NotApplied { e.running.asked = false }
	m.endAsk(e, &reply)
}

// withdrawAsk ends an ask whose turn no longer waits for the answer.
func (m *Machine) withdrawAsk(in WithdrawAsk) {
	e := m.find(in.Incarnation)
	switch {
	case e == nil || e.ask == nil || e.ask.number != in.Number:
	case m.now.Before(e.ask.env.Deadline):
		m.giveUpAsk(e, sharding.Aborted, "the turn does not wait for the answer of "+e.ask.env.Entity.String()+" any more")
	default:
		m.askTimedOut(e)
	}
}

func (m *Machine) askTimedOut(e *entity) {
	m.giveUpAsk(e, sharding.DeadlineExceeded, "the time for the answer of "+e.ask.env.Entity.String()+" is over")
}

// endUnwantedAsk ends the ask of a turn that is over, or whose incarnation has ended.
func (m *Machine) endUnwantedAsk(e *entity) {
	if e.ask != nil { //mutant:false ask-unwanted
		m.giveUpAsk(e, sharding.Aborted, "the turn is over, or its result is not wanted any more")
	}
}

// giveUpAsk ends an ask without an answer.
func (m *Machine) giveUpAsk(e *entity, code sharding.Code, why string) {
	reply := sharding.Reject(code, "not sent: "+why)
	switch a := e.ask; {
	case a.sent && a.readOnly:
		reply = sharding.Reject(code, why)
	// Invariant: a turn receives exactly one result of its ask, even if the turn, its shard or its region ends. The
	// result is "not sent" only if the ask never leaves.
	// Guarded by: `turn.endAsk`: no other function ends an ask. `turn.giveUpAsk`, `endUnwantedAsk`.
	// Mutants: ask-sent, ask-unwanted
	case a.sent: //mutant:false ask-sent
		reply = sharding.Doubt(code, why)
	}
	m.endAsk(e, &reply)
}

// endAsk lets the turn go on, with a reply. No other function ends an ask, so each Ask has one AskDone.
func (m *Machine) endAsk(e *entity, reply *sharding.Reply) {
	a := e.ask
	e.ask = nil
	m.stats.Waiting--
	if c := e.running; c != nil {
		c.waited += m.now.Sub(a.began)
		c.askInDoubt = c.askInDoubt || reply.Outcome == sharding.Unknown
	}
	m.askDone(e.inc, a.number, *reply)
}

func (m *Machine) askDone(inc Incarnation, number uint64, reply sharding.Reply) {
	m.emit(AskDone{Incarnation: inc, Number: number, Reply: reply})
}

// withDoubt replaces the refusal of a command whose turn has sent changing asks. The asks may have taken
// effect, so the reply must not say that nothing happened. This also holds if all asks of this run were
// refused: the caller may repeat a command whose outcome was unknown, and in the earlier run, these asks and
// later ones may have taken effect.
func (c *command) withDoubt(reply *sharding.Reply) *sharding.Reply {
	// Invariant: if a turn has sent a changing ask and then fails, the outcome of the turn is in doubt. This holds even
	// if the ask was refused.
	// Mutants: ask-doubt, ask-refused
	if !c.asked || reply.Outcome != sharding.NotApplied { //mutant:true ask-doubt
		return reply
	}
	r := sharding.Doubt(reply.Code, withAsked(reply.Message))
	return &r
}

const butAsked = "; but its turn had sent commands to other entities, and what they did stays"

// withAsked appends butAsked to a message, unless an entity that was asked has appended it already.
func withAsked(message string) string {
	if strings.Contains(message, butAsked) {
		return message
	}
	return message + butAsked
}

// endsForGood makes the refusal of a command final, if its turn has sent changing asks and every further run
// would be refused for the same reason. Without it, the command would be in doubt, and would run again until
// its deadline for nothing. If the outcome of an ask is not known, the next run may learn it, so the refusal
// is not made final.
func (c *command) endsForGood() {
	// Invariant: if every repeat of a command would meet the same refusal, the refusal ends the command at once. This
	// holds even if the command's turn has sent changing asks. After any other refusal, the router sends the command
	// again, with growing pauses. Meanwhile, later commands for the same entity wait.
	// Mutants: ask-final, resend-back-off, rest-order
	//mutant:false ask-final
	if c.asked && !c.askInDoubt && c.reply.Outcome == sharding.NotApplied && c.reply.Code.Final() {
		c.reply.Outcome = sharding.Executed
		c.reply.Message = withAsked(c.reply.Message)
	}
}
