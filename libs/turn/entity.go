package turn

import (
	"bytes"
	"math"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// entity is one entity that is alive, on the way, or still has something to
// settle. Most have nothing to do, so what only others need is in its work.
type entity struct {
	id      sharding.Entity
	shard   *shard
	inc     Incarnation // of its life, or of what is still to settle; 0: gone
	touched time.Time
	*work   // Machine.nothing if there is none

	// staged is the newest sequence number given to a record, durable the
	// newest one known to be durable. Between them are the unit in flight and
	// what is pending behind it.
	staged, durable uint64

	// sinceSnapshot counts events after the newest snapshot, bytesSince what a
	// replay of them reads.
	sinceSnapshot int
	bytesSince    int
	state         entityState
	passivate     bool // by its own wish, as soon as it has nothing to do
	listed        bool // among the idle ones of its type
	// pace is how long its turns take, in microseconds: a mean in which the last
	// ones count most. It begins at 0, so that one slow turn is no rule.
	pace uint32
	// in is its index in the shard's entities.
	in uint32
}

// work is what an entity has to do.
type work struct {
	// cmds are the commands that are not answered, in order of arrival; the
	// first next of them have had their turn (the last of those may be running).
	cmds    []*command
	first   [2]*command // memory for the first of them
	next    int
	running *command
	byID    map[sharding.CommandID]*command // of cmds, if they are many
	bytes   int                             // of cmds
	// inflight is the unit that the journal has, pending what is staged behind it.
	inflight []sharding.Record
	pending  []sharding.Record
	timers   []*timer
}

// employ gives an entity work of its own before anything is put into it.
func (m *Machine) employ(e *entity) {
	if e.work != m.nothing {
		return
	}
	if last := len(m.spareWork) - 1; last >= 0 {
		e.work, m.spareWork = m.spareWork[last], m.spareWork[:last]
		return
	}
	e.work = &work{}
}

// maxSpareWork is how much work is kept to be used again.
const maxSpareWork = 1024

// dismiss takes the work of an entity that has nothing to do any more.
func (m *Machine) dismiss(e *entity) {
	if e.work == m.nothing || e.busy() || e.running != nil || len(e.timers) > 0 {
		return
	}
	if len(m.spareWork) < maxSpareWork {
		*e.work = work{}
		m.spareWork = append(m.spareWork, e.work)
	}
	e.work = m.nothing
}

type entityState uint8

const (
	loading  entityState = iota + 1 // Load is under way
	live                            // has an instance
	stopping                        // Stop is under way
	ending                          // no instance; what was staged must become durable or refused
	settling                        // no instance; an append's outcome is unknown
	lookup                          // no instance, fenced; commands in doubt are looked up
)

// command is one delivered command until its answer.
type command struct {
	env     sharding.Envelope
	desc    sharding.CommandDesc
	arrived time.Time
	// requests wait for the answer: several when duplicates joined, none for
	// an accepted tell or a timer.
	requests []RequestID
	first    [1]RequestID // memory for the first of them
	timer    *timer
	// ran is the name under which the turn was started: a duplicate that joins
	// meanwhile must not change it.
	ran RequestID
	// looked: the journal was asked for it in this incarnation. asked: its answer
	// has not come, and the command's turn waits for it.
	looked, asked bool

	// doubt: an append that held it had an unknown outcome.
	doubt bool
	// done: the turn is over, reply is known and gated.
	done  bool
	reply sharding.Reply
	// record is the sequence number of the record that the turn staged, or 0.
	record uint64
	// seq must be durable and fence must be read before the reply leaves.
	seq      uint64
	fence    uint64
	finished time.Time // when the turn was over
	answered bool      // out of order; only its place is left
	// lent: a turn of an ended incarnation may still read env and run.
	lent bool
	run  Run // of its turn
}

// newCommand gives memory for a command.
func (m *Machine) newCommand() *command {
	if last := len(m.spareCommands) - 1; last >= 0 {
		c := m.spareCommands[last]
		m.spareCommands = m.spareCommands[:last]
		return c
	}
	return &command{}
}

// maxSpareCommands is how many commands are kept to be used again.
const maxSpareCommands = 1024

// dispose keeps the memory of a command that has left its mailbox, unless a turn
// that nobody waits for may still read its envelope.
func (m *Machine) dispose(c *command) {
	if c.lent || len(m.spareCommands) == maxSpareCommands {
		return
	}
	*c = command{}
	m.spareCommands = append(m.spareCommands, c)
}

// hash tells the command from another of the same id.
func (c *command) hash() uint64 { return sharding.PayloadHash(c.env.Command, c.env.Payload) }

// recordable tells whether a turn of the command that staged nothing leaves a
// record all the same: its reply is kept for duplicates.
func (c *command) recordable() bool { return c.env.Keyed && !c.desc.ReadOnly }

func (e *entity) volatile() bool { return e.shard.typ.Desc.Volatile }

// busy tells whether the entity has anything to do.
func (e *entity) busy() bool {
	return len(e.cmds) > 0 || len(e.inflight) > 0 || len(e.pending) > 0
}

// deliver admits a command or refuses it.
func (m *Machine) deliver(in *Deliver) {
	s := m.shard(in.Shard)
	if s == nil || s.phase != open {
		refused := NotMine{Request: in.Request, Shard: in.Shard}
		if s != nil {
			refused.Epoch = s.epoch
		}
		m.emit(refused)
		return
	}
	desc, ok := s.typ.Desc.Command(in.Env.Command)
	if !ok {
		m.refuse(in.Request, sharding.Unimplemented, "type "+string(s.id.Type)+" has no command "+in.Env.Command)
		return
	}
	if !in.Env.Deadline.IsZero() && !m.now.Before(in.Env.Deadline) {
		m.refuse(in.Request, sharding.DeadlineExceeded, "the deadline passed before the command was delivered")
		return
	}
	e := s.typ.entities[in.Env.Entity.ID]
	if e != nil {
		if c := e.find(in.Env.ID); c != nil {
			m.join(c, in)
			return
		}
	}
	size := in.Env.Size()
	full := e != nil && (len(e.cmds) >= m.cfg.MailboxCommands || e.bytes+size > m.cfg.MailboxBytes)
	if full && !mutant.On("mailbox-limit") {
		m.refuse(in.Request, sharding.ResourceExhausted, "the mailbox of the entity is full")
		return
	}
	if e != nil && m.tooLate(e, in.Env.Deadline) {
		m.refuse(in.Request, sharding.ResourceExhausted, "what waits for the entity takes too much of the command's time")
		return
	}
	if m.stats.Commands >= m.cfg.TotalCommands || m.stats.Bytes+size > m.cfg.TotalBytes {
		m.refuse(in.Request, sharding.ResourceExhausted, "the mailboxes of the region are full")
		return
	}
	if e == nil && !m.mayLoad(in.Env.Entity) && !mutant.On("load-limit") {
		m.refuse(in.Request, sharding.Unavailable, "the command has not run: too many loads have begun and not ended, of its entity or in all")
		return
	}
	c := m.newCommand()
	c.env, c.desc, c.arrived = *in.Env, desc, m.now
	if in.Env.Tell && !in.Env.Keyed {
		m.emitAnswer(in.Request, &sharding.Reply{Outcome: sharding.OK})
	} else {
		c.requests = append(c.first[:0], in.Request)
	}
	if e == nil {
		e = &entity{id: in.Env.Entity, shard: s, work: m.nothing}
		// The name may share its memory with its first command's, and outlives it.
		e.id.ID = sharding.EntityID(strings.Clone(string(e.id.ID)))
		s.enter(e)
		e.inc = incarnation(m.places.take(e), 0)
		m.stats.Entities++
		m.enqueue(e, c)
		m.load(e)
		return
	}
	m.enqueue(e, c)
	if e.state == live && c.recordable() && m.recent.has(e.inc, c.env.ID) {
		c.asked = true
		m.emit(Lookup{Entity: e.id, Incarnation: e.inc, ID: c.env.ID})
		m.plan(wake{at: m.now.Add(m.cfg.LookupTimeout), kind: wakeLookup, ent: e, inc: e.inc, id: c.env.ID})
	}
	m.advance(e)
}

// tooLate tells whether the turns before a command that comes now would take too
// much of its time.
func (m *Machine) tooLate(e *entity, deadline time.Time) bool {
	if deadline.IsZero() {
		return false
	}
	before := len(e.cmds) - e.next
	if e.running != nil {
		before++
	}
	wait := time.Duration(before) * time.Duration(e.pace) * time.Microsecond
	return float64(wait) > m.cfg.MailboxShare*float64(deadline.Sub(m.now))
}

// took takes the length of a turn into the entity's pace.
func (e *entity) took(turn time.Duration) {
	pace := int64(e.pace)
	e.pace = uint32(min(pace+(max(0, turn.Microseconds())-pace)/8, math.MaxUint32))
}

func (m *Machine) refuse(r RequestID, code sharding.Code, msg string) {
	reply := sharding.Reject(code, msg)
	m.emitAnswer(r, &reply)
}

// join lets a duplicate of a waiting command share its answer.
func (m *Machine) join(c *command, in *Deliver) {
	same := c.env.Command == in.Env.Command && bytes.Equal(c.env.Payload, in.Env.Payload)
	if !same && !mutant.On("key-conflict") {
		m.refuse(in.Request, sharding.AlreadyExists, conflictMessage)
		return
	}
	if len(c.requests) > m.cfg.MailboxCommands {
		m.refuse(in.Request, sharding.ResourceExhausted, "too many repeats of the command wait already")
		return
	}
	m.stats.Duplicates++
	c.requests = append(c.requests, in.Request)
}

const conflictMessage = "the idempotency key was used for another command or payload"

// fewCommands is how many commands are looked through without an index.
const fewCommands = 8

// find is the waiting command of that id, nil if there is none.
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

// index makes byID when commands have become many.
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
	m.employ(e)
	if len(e.cmds) == 0 {
		e.cmds = e.work.first[:0]
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
	m.unlist(e)
}

// leave takes the answered commands at the head out of the mailbox.
func (m *Machine) leave(e *entity) {
	n := 0
	for n < len(e.cmds) && e.cmds[n].answered {
		m.dispose(e.cmds[n])
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

// answer ends a command; its place in the mailbox is freed by leave.
func (m *Machine) answer(e *entity, c *command, reply *sharding.Reply) {
	for _, r := range c.requests {
		m.emitAnswer(r, reply)
	}
	if len(c.requests) == 0 {
		m.told(e, c, reply)
	}
	m.forget(e, c)
}

// told reports the end of a command that nobody waits for.
func (m *Machine) told(e *entity, c *command, reply *sharding.Reply) {
	if reply.Outcome != sharding.OK || reply.Code != "" {
		m.stats.LostTells++
	}
	m.emit(Told{
		Entity: e.id, Command: c.env.Command, Timer: c.timer != nil, Trace: c.env.Trace, Arrived: c.arrived, Reply: *reply,
	})
}

// turnAway ends a command that was definitely not applied here.
func (m *Machine) turnAway(e *entity, c *command) {
	if len(c.requests) == 0 {
		reply := sharding.Reject(sharding.Unavailable, "the shard moved before the command had its turn")
		m.told(e, c, &reply)
	}
	for _, r := range c.requests {
		m.emit(NotMine{Request: r, Shard: e.shard.id, Epoch: e.shard.epoch})
	}
	m.forget(e, c)
}

func (m *Machine) forget(e *entity, c *command) {
	c.answered = true
	delete(e.byID, c.env.ID)
	size := c.env.Size()
	e.bytes -= size
	m.stats.Commands--
	m.stats.Bytes -= size
	if c.timer != nil {
		c.timer.busy = false
	}
}
