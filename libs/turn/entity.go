package turn

import (
	"bytes"
	"math"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// entity is an entity that is alive, is being loaded, or has appends to settle. Most entities are idle.
// So the fields that only busy entities need are in the struct work. Entities of volatile types have no
// records. So the fields about records are in the struct journaled. The other fields take 64 bytes: a
// line of the processor's cache, because most entities are not in the cache when they get a command.
type entity struct {
	id         sharding.EntityID
	shard      *shard
	inc        Incarnation // 0: removed from the machine
	*work                  // Machine.noWork if the entity is idle
	*journaled             // Machine.notJournaled if the type is volatile

	state        entityState
	passivate    bool // the entity asked to be stopped as soon as it is idle
	evicted      bool // the policy has chosen the entity to be stopped as soon as it is idle
	mailboxCheck bool // an alarmMailbox is scheduled
	starting     bool // a StartEntity has not ended
	bare         bool // the entity has no instance, see Load.Bare
	unmade       bool // the entity has no instance yet: its first turn makes one, see Run.New
	bareNext     bool // the next load is to be bare
	// avgTurnMicros is a moving average of the length of the turns, in microseconds.
	// It begins at 0, so that one slow first turn does not dominate.
	avgTurnMicros uint32
	// shardIndex is the index of the entity in shard.entities.
	shardIndex uint32
}

// address returns the type and the id of the entity.
func (e *entity) address() sharding.Entity {
	return sharding.Entity{Type: e.shard.id.Type, ID: e.id}
}

// journaled holds the positions of an entity in the journal, and counts of its stored data.
type journaled struct {
	// staged is the sequence number of the newest record, durable the number of the newest durable record. The
	// records after that one are the unit in flight and the pending records.
	staged, durable uint64

	// rememberedActivity is the time of the entity's last activity according to its wake-up of the kind
	// RememberWake, in Unix milliseconds; 0: it has no such wake-up.
	rememberedActivity int64
	// unrememberedBy is the sequence number of the record that removes this wake-up, so that the entity is
	// no longer remembered. 0: no record does, or a later one sets the wake-up again.
	unrememberedBy uint64

	// reminders is an upper bound of how many reminders of the entity stand. It counts the reminders
	// that stood at the load, and every reminder set since then, even if it has replaced another one.
	reminders int

	life uint64 // the number of the entity's present life, see Loaded.Life

	// sinceSnapshot counts the events after the newest snapshot; bytesSinceSnapshot is the number of
	// bytes that a replay of these events reads.
	sinceSnapshot      int
	bytesSinceSnapshot int
	// loadedSeq is the sequence number of the newest record that the load has read. The load has
	// counted the pending sends of the records up to loadedSeq. The count in field sends grows when a
	// turn stages a send, and shrinks when a send of a record above loadedSeq ends.
	loadedSeq uint64
	// sends is an upper bound of how many sends of the entity are pending or staged.
	sends uint32
	// sendsUncertain is true if the count in field sends may be too high: a send of a record up to loadedSeq
	// has ended since the load began, and it is not known whether the load has counted it.
	sendsUncertain bool
	fresh          bool // no turn has staged a record in this life of the entity
	trimmed        bool // see Loaded.Trimmed
}

// allocEntity returns a new entity of a type.
func (m *Machine) allocEntity(ts *typeState) *entity {
	if ts.Desc.Volatile {
		return &entity{work: m.noWork, journaled: m.notJournaled}
	}
	var both struct { // one allocation
		entity
		of journaled
	}
	both.work, both.entity.journaled = m.noWork, &both.of
	return &both.entity
}

// work is the state of an entity that is not idle.
type work struct {
	// cmds is the mailbox: commands in order of arrival, beginning with the oldest one that is
	// not answered.
	cmds        []*command
	cmdsBuf     [2]*command // initial memory of cmds
	next        int         // index in cmds of the next command to run
	running     *command
	byID        map[sharding.CommandID]*command // cmds by id, if there are more than fewCommands
	bytes       int                             // size of cmds
	resultBytes int                             // sum of command.resultBytes
	// inflight is the unit that was handed to the journal. Records staged after it are in pending.
	inflight []sharding.Record
	pending  []sharding.Record
	// Some appends report to the journal that a wake-up has fired, or that a send is done. Each such
	// append belongs to one command: a firing, or a command that drops a send or sends a dead letter
	// again. reporter is the command that owns the append in flight; nil: this append reports
	// nothing. If the turn of a firing has staged nothing, its append has no records.
	reporter *command
	// nextReporters are the commands whose appends will report something, in order. These appends are
	// not in flight yet.
	nextReporters []*command
	timers        []*timer
	// keptTimers are the timers that were pending when the entity was stopped so that its state
	// could be kept for the next owner.
	keptTimers []Timer
	ask        *ask // the ask whose answer the running turn waits for
}

// allocWork gives an idle entity a work of its own. It must be called before a
// command or timer is added.
func (m *Machine) allocWork(e *entity) {
	if e.work != m.noWork {
		return
	}
	if last := len(m.workPool) - 1; last >= 0 {
		e.work, m.workPool = m.workPool[last], m.workPool[:last]
		return
	}
	e.work = &work{}
}

// maxPooledWork is the maximum number of unused work structs that are kept for reuse.
const maxPooledWork = 1024

// freeWork puts the work of an entity back into the pool if the entity has become idle.
func (m *Machine) freeWork(e *entity) {
	if e.work == m.noWork || e.busy() || e.running != nil || len(e.timers) > 0 {
		return
	}
	if len(m.workPool) < maxPooledWork {
		*e.work = work{}
		m.workPool = append(m.workPool, e.work)
	}
	e.work = m.noWork
}

type entityState uint8

const (
	loading  entityState = iota + 1 // Load is in progress
	live                            // has an instance
	stopping                        // Stop is in progress
	ending                          // no instance; what was staged must become durable or refused
	settling                        // no instance; a write settles an append with an unknown outcome
	// settleRefused: like settling, but the journal has refused the settling write, because data is
	// damaged.
	// The next command that arrives makes the machine try the write again.
	settleRefused
	// lookup: no instance. The shard has another owner, so the journal refuses all writes of
	// this owner. A load finds out which of the commands in doubt are stored.
	lookup
)

// command is one delivered command until its answer.
type command struct {
	env     sharding.Envelope
	desc    sharding.CommandDesc
	arrived time.Time
	// requests are the requests to answer. If duplicates have joined, there are several. The command
	// of a timer or a wake-up has none. Nor has a tell that was answered when it was accepted.
	requests    []RequestID
	requestsBuf [1]RequestID // initial memory of requests
	timer       *timer       // the timer whose command this is; nil: none
	wakeup      *Wakeup      // the wake-up whose firing this is; nil: the command is not a firing
	builtin     builtin      // nil: a command of the author
	// endedSend is the dead letter, or the pending send, that the turn of a built-in command makes done;
	// nil: none. The append with the command's record stores that the send is done.
	endedSend *sharding.Delivered
	// recounted is true if the entity was loaded again to count its reminders and sends.
	recounted bool
	// overtakenEnd is how the firing ends if it was overtaken: while the firing waited for its turn, its
	// wake-up has changed, or may have changed, so the firing must not have a turn. 0: it was not
	// overtaken.
	overtakenEnd FiringEnd
	// fired is true once the firing of the wake-up is durable.
	fired bool
	// runID is the request id that names the running turn. It is stored, because requests may change
	// when a duplicate joins.
	runID RequestID
	// turn is the number of the running turn. It is needed in addition to runID, because turns of tells, timers
	// and wake-ups have no request.
	turn uint64
	// lookedUpFirst is true if the command is looked up in the journal before it runs, so it does not run
	// if it is stored. Either the Load of this incarnation looks it up (the field is set when the Load is
	// emitted, because no turn begins before the answer), or a Lookup was answered.
	lookedUpFirst bool
	// lookupPending is true while a Lookup of the command has no answer. The turn waits for it.
	lookupPending bool

	// inDoubt is true if an append with the command had an unknown outcome.
	inDoubt bool
	// done is true once the turn is over and reply waits at the output gate.
	done  bool
	reply sharding.Reply
	// resultBytes is the size of the reply and of the events, in bytes, while the reply waits at the
	// output gate.
	resultBytes int
	// ownRecord is the sequence number of the record that the turn staged, or 0.
	ownRecord uint64
	// The reply leaves when the record with the number waitsForRecord is durable, and the fence read
	// with the number waitsForFenceRead is answered. 0: the reply waits for no record, or for no fence
	// read.
	waitsForRecord    uint64
	waitsForFenceRead uint64
	finished          time.Time     // when the turn was over
	answered          bool          // the command has ended, but is still in the mailbox
	asked             bool          // a changing ask of this or an earlier run of the command has left
	waited            time.Duration // how long the present run has waited for the answers to its asks
	// The next four fields are about changing asks of the present run.
	barrierOpen bool      // the turn has passed the barrier: its changing asks may leave
	asksMade    []sentAsk // the changing asks that have left
	askConflict bool      // a target had stored the key of an ask with another input
	askInDoubt  bool      // the outcome of an ask is not known
	// heldByOldTurn is true if a turn of an ended incarnation may still read env and run.
	heldByOldTurn bool
	run           Run // the output that starts its turn
}

// newCommand returns a zero command, from the pool if possible.
func (m *Machine) newCommand() *command {
	if last := len(m.commandPool) - 1; last >= 0 {
		c := m.commandPool[last]
		m.commandPool = m.commandPool[:last]
		return c
	}
	return &command{}
}

// maxPooledCommands is the maximum number of unused commands that are kept for reuse.
const maxPooledCommands = 1024

// freeCommand puts a command back into the pool. The command must not be in a mailbox any more. It is not
// put back if a turn of an ended incarnation may still read it.
func (m *Machine) freeCommand(c *command) {
	if c.heldByOldTurn || len(m.commandPool) == maxPooledCommands {
		return
	}
	*c = command{}
	m.commandPool = append(m.commandPool, c)
}

// hash returns the hash of the command's content. It distinguishes a repeat of a stored command
// from another command with the same id.
func (c *command) hash() sharding.Hash {
	//mutant:do principal return sharding.CommandHash("", c.env.Command, c.env.Payload)
	return c.env.Hash()
}

// recordable reports whether a turn of the command leaves a record even if it
// stages no events: its reply is kept for duplicates.
func (c *command) recordable() bool { return c.env.Keyed && !c.desc.ReadOnly }

func (e *entity) volatile() bool { return e.shard.typ.Desc.Volatile }

// busy reports whether the entity has commands or records to handle.
func (e *entity) busy() bool {
	return len(e.cmds) > 0 || len(e.inflight) > 0 || len(e.pending) > 0
}

// deliver admits a command or refuses it.
func (m *Machine) deliver(in *Deliver) {
	s := m.shard(in.Shard)
	if s == nil || !m.admits(s, in.Env) {
		refused := NotMine{Request: in.Request, Shard: in.Shard}
		if s != nil {
			refused.Epoch = s.epoch
		}
		m.emitShardEvent(refused)
		return
	}
	if in.Env.Command == sharding.ProbeCommand {
		m.probed(s, in)
		return
	}
	handler, desc, ok := s.typ.builtin(in.Env.Command)
	if !ok {
		desc, ok = s.typ.Desc.Command(in.Env.Command)
	}
	if !ok && sharding.IsBuiltin(in.Env.Command) && s.typ.Desc.Volatile {
		m.refuse(in.Request, sharding.FailedPrecondition, "entities of type "+string(s.id.Type)+" are volatile: nothing is stored of them, so there is nothing for "+in.Env.Command+
			" to change. Such an entity ends when it has been idle for long, or when one of its commands calls Passivate")
		return
	}
	if !ok {
		m.refuse(in.Request, sharding.UnknownCommand, m.cfg.Program+" has no command "+in.Env.Command+" of type "+string(s.id.Type))
		return
	}
	if !in.Env.Deadline.IsZero() && !m.now.Before(in.Env.Deadline) {
		m.refuse(in.Request, sharding.DeadlineExceeded, "the deadline passed before the command was delivered")
		return
	}
	chained := len(in.Env.Chain) > 0
	if chained && !in.Env.Keyed && !desc.ReadOnly { //mutant:false asked-read-only
		m.refuse(in.Request, sharding.FailedPrecondition, in.Env.Command+" changes something here, and another entity takes it for read-only; declare it in the same way on both sides")
		return
	}
	e := m.lookUp(s.typ, in.Env.Entity.ID)
	if e != nil {
		if c := e.find(in.Env.ID); c != nil {
			m.joinDuplicate(c, in)
			return
		}
	}
	size := in.Env.Size()
	full := e != nil && (len(e.cmds) >= m.cfg.MailboxCommands || e.bytes+size > m.cfg.MailboxBytes)
	// Invariant: buffers are limited in count and bytes.
	// Guarded by: every `Config` has limits, which the `Check` of its core checks. `replies.Budget` limits replies,
	// before a command enters a region.
	// Mutants: mailbox-limit, reply-budget
	if full { //mutant:false mailbox-limit
		m.refuse(in.Request, sharding.ResourceExhausted, "the mailbox of the entity is full")
		return
	}
	if e != nil && m.wouldBeLate(e, in.Env.Deadline) {
		m.refuse(in.Request, sharding.ResourceExhausted, "the commands before it in the entity's mailbox would take too much of the command's time")
		return
	}
	if room := m.room(chained); m.stats.Commands >= room.Commands || m.stats.Bytes+size > room.Bytes {
		m.refuse(in.Request, sharding.ResourceExhausted, FullText)
		return
	}
	// Invariant: the number of unanswered loads is limited, per entity and in total. Abandoned loads count too.
	// Mutants: load-limit
	if e == nil && !s.makes(in.Env.Entity.ID) && !m.mayLoad(in.Env.Entity, chained) { //mutant:false load-limit
		m.refuse(in.Request, sharding.Unavailable, "the command has not run: too many loads are in progress, of its entity or of all entities of its shard core")
		return
	}
	c := m.newCommand()
	c.env, c.desc, c.builtin, c.arrived = *in.Env, desc, handler, m.now
	if in.Env.Tell && !in.Env.Keyed {
		m.emitAnswer(in.Request, &sharding.Reply{Outcome: sharding.Executed})
	} else {
		c.requests = append(c.requestsBuf[:0], in.Request)
	}
	m.admit(s, e, c)
}

// admit puts a command into the mailbox of its entity. e is nil if the entity is not in memory.
func (m *Machine) admit(s *shard, e *entity, c *command) {
	if e == nil {
		e = m.newEntity(s, c.env.Entity.ID)
		m.enqueue(e, c)
		m.load(e)
		return
	}
	m.enqueue(e, c)
	if e.state == settleRefused {
		e.state = settling
		m.emitSettle(e)
	}
	if e.state == live && c.recordable() && m.recent.mayBeStored(e.inc, c.env.ID) {
		c.lookupPending = true
		m.emit(Lookup{Entity: e.address(), Incarnation: e.inc, ID: c.env.ID})
		m.schedule(alarm{at: m.now.Add(m.cfg.LookupTimeout), kind: alarmLookup, entity: e, incarnation: e.inc, id: c.env.ID})
	}
	m.advance(e)
}

// newEntity adds an entity to the shard, to be loaded.
func (m *Machine) newEntity(s *shard, id sharding.EntityID) *entity {
	e := m.allocEntity(s.typ)
	// The id may share memory with the envelope of the first command. It is copied, because it is
	// used for longer.
	e.id, e.shard = sharding.EntityID(strings.Clone(string(id))), s
	e.inc = incarnation(m.slots.alloc(e), 0)
	m.add(s, e)
	m.stats.Entities++
	return e
}

// wouldBeLate reports whether the turns before a command that arrives now are expected to take too much of its
// time.
func (m *Machine) wouldBeLate(e *entity, deadline time.Time) bool {
	if deadline.IsZero() {
		return false
	}
	before := len(e.cmds) - e.next
	if e.running != nil {
		before++
	}
	wait := time.Duration(before) * time.Duration(e.avgTurnMicros) * time.Microsecond
	return float64(wait) > m.cfg.MailboxShare*float64(deadline.Sub(m.now))
}

// observeTurn updates the moving average with the length of a turn.
func (e *entity) observeTurn(turn time.Duration) {
	avg := int64(e.avgTurnMicros)
	e.avgTurnMicros = uint32(min(avg+(max(0, turn.Microseconds())-avg)/8, math.MaxUint32))
}

func (m *Machine) refuse(r RequestID, code sharding.Code, msg string) {
	reply := sharding.Reject(code, msg)
	m.emitAnswer(r, &reply)
}

// joinDuplicate adds the request of a duplicate to the requests of c, the waiting command with
// the same id. It refuses a command that has the id of c and another content.
func (m *Machine) joinDuplicate(c *command, in *Deliver) {
	//mutant:true principal-joins c.env.Principal == in.Env.Principal
	same := c.env.Command == in.Env.Command && bytes.Equal(c.env.Payload, in.Env.Payload) &&
		c.env.Principal == in.Env.Principal
	if !same { //mutant:false key-conflict
		m.refuse(in.Request, sharding.AlreadyExists, conflictMessage)
		return
	}
	if len(c.requests) > m.cfg.MailboxCommands {
		m.refuse(in.Request, sharding.ResourceExhausted, "too many repeats of the command are waiting already")
		return
	}
	m.stats.Duplicates++
	c.requests = append(c.requests, in.Request)
}

const conflictMessage = "the idempotency key was used for another command or payload, or by another principal; give each command its own key"

// fewCommands is the number of commands that find still searches without an index.
const fewCommands = 8

// find returns the waiting command with the id, nil if there is none.
func (e *entity) find(id sharding.CommandID) *command {
	if e.byID != nil {
		return e.byID[id]
	}
	for _, c := range e.cmds {
		if !c.answered && c.env.ID == id {
			return c
		}
	}
	return nil
}

// index builds byID once the entity has more than fewCommands.
func (e *entity) index() {
	if e.byID != nil || len(e.cmds) <= fewCommands {
		return
	}
	e.byID = make(map[sharding.CommandID]*command, 2*fewCommands)
	for _, c := range e.cmds {
		if !c.answered {
			e.byID[c.env.ID] = c
		}
	}
}

func (m *Machine) enqueue(e *entity, c *command) {
	m.allocWork(e)
	if len(e.cmds) == 0 {
		e.cmds = e.work.cmdsBuf[:0]
	}
	e.cmds = append(e.cmds, c)
	if e.byID != nil {
		e.byID[c.env.ID] = c
	} else {
		e.index()
	}
	size := c.env.Size()
	e.bytes += size
	m.stats.Commands++
	m.stats.Bytes += size
	m.touch(e)
}

// removeAnswered removes the answered commands at the head of the mailbox.
func (m *Machine) removeAnswered(e *entity) {
	n := 0
	for n < len(e.cmds) && e.cmds[n].answered {
		m.freeCommand(e.cmds[n])
		e.cmds[n] = nil
		n++
	}
	if n == 0 {
		return
	}
	e.cmds = e.cmds[n:]
	e.next = max(0, e.next-n)
	if len(e.cmds) == 0 {
		e.cmds, e.byID = nil, nil
	}
}

// answer ends a command. removeAnswered must then take it out of the mailbox.
func (m *Machine) answer(e *entity, c *command, reply *sharding.Reply) {
	reply = c.withDoubt(reply)
	for _, r := range c.requests {
		m.emitAnswer(r, reply)
	}
	if len(c.requests) == 0 {
		m.emitUnwatchedDone(e, c, reply)
	}
	if c.wakeup != nil {
		m.emitFiringEnded(e, c, reply)
	}
	m.reportSendDropped(e, c, reply)
	m.markAnswered(e, c)
}

// emitUnwatchedDone reports the outcome of a command that has no waiting caller.
func (m *Machine) emitUnwatchedDone(e *entity, c *command, reply *sharding.Reply) {
	out := m.unwatched.next()
	*out = UnwatchedDone{
		Entity: e.address(), Command: c.env.Command, Timer: c.timer != nil, Trace: c.env.Trace, Arrived: c.arrived, Reply: *reply,
	}
	if c.wakeup != nil {
		out.Wakeup, out.Again = c.wakeup.WakeRef, reply.Outcome != sharding.Executed
	}
	if !out.Again && (reply.Outcome != sharding.Executed || reply.Code != "") {
		m.stats.FailedUnwatched++
	}
	m.emit(out)
}

// answerNotMine ends a command that was definitely not applied by this region.
func (m *Machine) answerNotMine(e *entity, c *command) {
	if c.wakeup != nil {
		m.endFiring(e, c, FiringGone)
		return
	}
	if c.asked {
		reply := sharding.Reject(sharding.Unavailable, "the shard moved before the turn was over")
		m.answer(e, c, &reply)
		return
	}
	if len(c.requests) == 0 {
		reply := sharding.Reject(sharding.Unavailable, "the shard moved before the command had its turn")
		m.emitUnwatchedDone(e, c, &reply)
	}
	for _, r := range c.requests {
		m.emitShardEvent(NotMine{Request: r, Shard: e.shard.id, Epoch: e.shard.epoch})
	}
	m.markAnswered(e, c)
}

// hold adds size to the bytes that a finished turn holds until its command is answered. size may
// be negative.
func (m *Machine) hold(e *entity, c *command, size int) {
	c.resultBytes += size
	e.resultBytes += size
	m.resultBytes += size
}

// holdsTooMuch reports whether the entity must wait for the journal before its next turn. If it waits,
// the next answer of the journal about this entity starts the turn. If the entity itself holds nothing,
// perhaps no operation of the entity is in progress. Then no answer would ever start the turn. So such an entity
// does not wait.
func (m *Machine) holdsTooMuch(e *entity) bool {
	// Invariant: the size of the results of finished turns is limited while these results wait for the journal.
	// Mutants: result-bytes
	//mutant:false result-bytes
	return e.resultBytes > 0 && (e.resultBytes >= m.cfg.ResultBytes || m.resultBytes >= m.cfg.TotalResultBytes)
}

func (m *Machine) markAnswered(e *entity, c *command) {
	m.hold(e, c, -c.resultBytes)
	c.answered = true
	delete(e.byID, c.env.ID)
	size := c.env.Size()
	e.bytes -= size
	m.stats.Commands--
	m.stats.Bytes -= size
	if c.timer != nil {
		c.timer.queued = false
	}
}
