package turn

import (
	"cmp"
	"iter"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// fenceReads tracks the reads of a shard's fence, numbered from 1. One read is in progress at a time. It counts
// for all commands whose turns were over before the read began.
type fenceReads struct {
	issued, completed uint64
	waiting           []*entity // for the read in progress
	next              []*entity // for the read after it
}

// requestFenceRead returns the number of the first fence read that begins from
// now on.
func (m *Machine) requestFenceRead(e *entity) uint64 {
	s := e.shard
	f := &s.fence
	if f.issued > f.completed {
		if n := len(f.next); n == 0 || f.next[n-1] != e {
			f.next = append(f.next, e)
		}
		return f.issued + 1
	}
	f.issued++
	f.waiting = append(f.waiting, e)
	m.emit(ReadFence{Shard: s.id, Epoch: s.epoch, Number: f.issued})
	return f.issued
}

func (m *Machine) fenceRead(in FenceRead) {
	s := m.shard(in.Shard)
	if s == nil || s.epoch != in.Epoch || s.fence.issued != in.Number || s.fence.completed >= in.Number {
		return
	}
	f := &s.fence
	switch in.Verdict {
	case sharding.Durable:
		m.fenceReadDone(s, nil)
	case sharding.RefusedDamaged:
		reply := sharding.Reject(sharding.DataLoss, "who owns the shard cannot be read: "+in.Reason)
		m.fenceReadDone(s, &reply)
	case sharding.RefusedEpoch:
		m.fenced(s, in.Fence.Epoch)
	default: // the read failed: repeat it after a pause
		m.schedule(alarm{at: m.now.Add(m.cfg.Retry), kind: alarmFence, shard: s, fence: f.issued})
	}
}

// fenceReadDone ends the read in progress, and begins the next one if commands wait
// for it. Without a refusal, the commands that waited for it are released.
func (m *Machine) fenceReadDone(s *shard, refusal *sharding.Reply) {
	f := &s.fence
	ready := f.waiting
	for _, e := range ready {
		for _, c := range e.cmds[:e.next] {
			if refusal != nil && c.done && !c.answered && c.waitsForFenceRead == f.issued {
				reply := *refusal
				if c.inDoubt {
					reply = sharding.Doubt(reply.Code, reply.Message)
				}
				m.answer(e, c, &reply)
			}
		}
		if refusal != nil && e.ask != nil && e.ask.fence == f.issued {
			m.endAsk(e, refusal)
		}
	}
	f.completed = f.issued
	f.waiting, f.next = f.next, nil
	if len(f.waiting) > 0 {
		f.issued++
		m.emit(ReadFence{Shard: s.id, Epoch: s.epoch, Number: f.issued})
	}
	for _, e := range ready {
		if e.inc == 0 {
			continue
		}
		m.releaseReplies(e)
		m.passBarrier(e)
		m.advance(e)
	}
}

func (m *Machine) open(in Open) {
	ts := m.typ(in.Shard.Type)
	if ts == nil || in.Shard.Index >= ts.Desc.Shards || ts.shards[in.Shard.Index] != nil {
		return
	}
	s := &shard{
		id: in.Shard, epoch: in.Epoch, phase: open, typ: ts,
	}
	ts.shards[in.Shard.Index] = s
	m.victims = ts.policy.Open(int(in.Shard.Index), m.victims[:0])
	m.evict(m.victims)
	m.takeIn(s, in.Kept)
}

// add puts an entity that has a slot into a shard, and remove takes it out.
func (m *Machine) add(s *shard, e *entity) {
	s.typ.entities.add(e.id, e.inc.Slot())
	e.shardIndex = uint32(len(s.entities))
	s.entities = append(s.entities, e.inc.Slot())
}

func (m *Machine) remove(e *entity) {
	s := e.shard
	s.typ.entities.remove(e.id, e.inc.Slot())
	last := len(s.entities) - 1
	s.entities[e.shardIndex] = s.entities[last]
	m.slots[s.entities[last]].entity.shardIndex = e.shardIndex
	s.entities = s.entities[:last]
}

// lookUp returns the entity of a type with an id; nil if it is not in memory.
func (m *Machine) lookUp(ts *typeState, id sharding.EntityID) *entity {
	return ts.entities.find(id, m.slots)
}

// entitiesOf yields the entities of a shard, in no order.
func (m *Machine) entitiesOf(s *shard) iter.Seq[*entity] {
	return func(yield func(*entity) bool) {
		for _, n := range s.entities {
			if !yield(m.slots[n].entity) {
				return
			}
		}
	}
}

// entitiesOfType yields the entities of a type, in no order.
func (m *Machine) entitiesOfType(ts *typeState) iter.Seq[*entity] {
	return func(yield func(*entity) bool) {
		for _, s := range ts.shards {
			if s == nil {
				continue
			}
			for e := range m.entitiesOf(s) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// drain lets the shard finish the commands it accepted.
func (m *Machine) drain(id sharding.ShardID) {
	s := m.shard(id)
	if s == nil || s.phase != open {
		return
	}
	s.phase = draining
	m.schedule(alarm{at: m.now.Add(m.cfg.DrainTimeout), kind: alarmDrain, shard: s})
	for _, e := range m.sorted(s) {
		switch {
		case e.state == live && !e.busy() && e.running == nil:
			m.stop(e, HandedOff)
		case e.state == settleRefused, e.state == loading && e.starting && len(e.cmds) == 0: // no command waits for the entity
			m.removeEntity(e)
		}
	}
	m.checkDrained(s)
}

// drainTimedOut aborts a shard whose drain took too long: running turns are
// cancelled and abandoned.
func (m *Machine) drainTimedOut(s *shard) {
	for _, e := range m.sorted(s) {
		if c := e.running; c != nil {
			m.stats.Abandoned++
			m.emit(Abandoned{Entity: e.address(), Command: c.env.Command, Began: c.began()})
		}
	}
	m.abortShard(s, 0)
}

// fenced aborts a shard whose fence holds another epoch.
func (m *Machine) fenced(s *shard, stored sharding.Epoch) {
	s.kept = keptStates{}
	if s.phase != aborting {
		m.emitShardEvent(Fenced{Shard: s.id, Epoch: s.epoch, Stored: stored})
	}
	m.abortShard(s, stored)
}

func (m *Machine) abort(id sharding.ShardID) {
	if s := m.shard(id); s != nil {
		s.kept = keptStates{} // the next owner does not ask for it
		m.abortShard(s, 0)
	}
}

// abortShard ends all incarnations of the shard. Commands in an append in progress
// wait for its outcome; all others are answered NotMine.
func (m *Machine) abortShard(s *shard, stored sharding.Epoch) {
	s.phase = aborting
	for _, e := range m.sorted(s) {
		m.abortEntity(e, stored)
	}
	m.checkDrained(s)
}

func (m *Machine) abortEntity(e *entity, stored sharding.Epoch) {
	if e.state == settleRefused {
		m.removeEntity(e)
		return
	}
	if c := e.running; c != nil {
		m.emit(Cancel{Entity: e.address(), Incarnation: e.inc, Request: c.runID})
	}
	if e.state != settling && e.state != lookup {
		m.endIncarnation(e)
	}
	e.pending, e.nextReporters = nil, nil
	var last uint64
	if len(e.inflight) > 0 {
		last = e.inflight[len(e.inflight)-1].Seq
	}
	doubt := false
	for _, c := range e.cmds {
		switch {
		case c.answered:
		case c.inDoubt:
			doubt = true
		case c.ownRecord > 0 && c.ownRecord <= last || c == e.reporter:
		default:
			m.answerNotMine(e, c)
		}
	}
	m.removeAnswered(e)
	switch {
	case e.state == lookup || e.appending():
	case doubt:
		m.lookup(e)
	default:
		m.removeEntity(e)
	}
}

// checkDrained reports a draining or aborted shard as drained once it has no
// entities.
func (m *Machine) checkDrained(s *shard) {
	// Invariant: a shard is handed off only when all its appends are settled.
	// Mutants: drain-settles
	if s.phase == open || len(s.entities) > 0 || !s.registered() { //mutant:false drain-settles len(s.entities) > 0
		return
	}
	s.typ.shards[s.id.Index] = nil
	s.typ.policy.Close(int(s.id.Index))
	m.emitShardEvent(Drained{Shard: s.id, Epoch: s.epoch, Wrote: s.wrote, Kept: m.handedOn(s)})
}

// noteForms notes the forms of the data in records that are handed to the journal, whatever the outcome: of
// events, of the inputs of reminders, and of the inputs of commands that take answers to sends. (The input of
// a send has a form of the target.)
func (s *shard) noteForms(records []sharding.Record) {
	for i := range records {
		r := &records[i]
		for j := range r.Events {
			s.noteForm(sharding.FormOfEvent, r.Events[j].Name)
		}
		//mutant:do input-wrote continue
		for j := range r.Wakes {
			if w := &r.Wakes[j]; w.Kind == sharding.ReminderWake && w.Due != 0 {
				s.noteForm(sharding.FormOfInput, w.Input.Command)
			}
		}
		for j := range r.Sends {
			if to := r.Sends[j].ReplyTo; to != "" {
				s.noteForm(sharding.FormOfInput, to)
			}
		}
	}
}

// noteForm notes a form that the type stores, by its kind and name. If the type does not list it, any form of
// the type may be stored.
func (s *shard) noteForm(kind sharding.FormKind, name string) {
	writes := s.typ.Desc.Writes
	n, found := slices.BinarySearchFunc(writes, name, func(f sharding.Form, name string) int {
		return cmp.Or(cmp.Compare(f.Kind, kind), cmp.Compare(f.Name, name))
	})
	switch {
	case found:
		s.wrote = s.wrote.With(n)
	case s.wrote.Len() < len(writes):
		for n := range writes {
			s.wrote = s.wrote.With(n)
		}
	}
}

// noteSnapshotForm notes the form of a snapshot that is about to be stored, if the type declares this form. A
// type with KeepEvents does: when events are trimmed, only the snapshot has the state.
func (s *shard) noteSnapshotForm() {
	for n, f := range s.typ.Desc.Writes {
		if f.Kind == sharding.FormOfSnapshot { //mutant:false snapshot-wrote
			s.wrote = s.wrote.With(n)
		}
	}
}

// registered reports whether the shard is still in the machine: it has not been
// drained.
func (s *shard) registered() bool { return s.typ.shards[s.id.Index] == s }

// sorted returns the entities of the shard in a fixed order.
func (m *Machine) sorted(s *shard) []*entity {
	return slices.SortedFunc(m.entitiesOf(s), func(a, b *entity) int { return cmp.Compare(a.id, b.id) })
}
