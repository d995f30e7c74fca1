package turn

import (
	"slices"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// fence is the reading of a shard's fence row: one question at a time, each for
// all commands whose turn was over before it was asked.
type fence struct {
	asked, done uint64
	waiting     []*entity // for the question that is asked
	next        []*entity // for the one after it
}

// wantFence gives the number of the first question asked from now on.
func (m *Machine) wantFence(e *entity) uint64 {
	s := e.shard
	f := &s.fence
	if f.asked > f.done {
		if n := len(f.next); n == 0 || f.next[n-1] != e {
			f.next = append(f.next, e)
		}
		return f.asked + 1
	}
	f.asked++
	f.waiting = append(f.waiting, e)
	m.emit(ReadFence{Shard: s.id, Epoch: s.epoch, Number: f.asked})
	return f.asked
}

func (m *Machine) fenceRead(in FenceRead) {
	s := m.shard(in.Shard)
	if s == nil || s.epoch != in.Epoch || s.fence.asked != in.Number || s.fence.done >= in.Number {
		return
	}
	f := &s.fence
	switch in.Verdict {
	case sharding.Durable:
		m.fenceAnswered(s, nil)
	case sharding.RefusedDamaged:
		reply := sharding.Reject(sharding.DataLoss, "who owns the shard cannot be read: "+in.Reason)
		m.fenceAnswered(s, &reply)
	case sharding.RefusedEpoch:
		m.fenced(s, in.Fence.Epoch)
	default: // a read that brought no answer is repeated, after a pause
		m.plan(wake{at: m.now.Add(m.cfg.Retry), kind: wakeFence, shard: s, fence: f.asked})
	}
}

// fenceAnswered ends the question that is asked, and asks the next one if there
// is one. Without a refusal the gates of whoever has waited for it open.
func (m *Machine) fenceAnswered(s *shard, refusal *sharding.Reply) {
	f := &s.fence
	ready := f.waiting
	for _, e := range ready {
		for _, c := range e.cmds[:e.next] {
			if refusal != nil && c.done && !c.answered && c.fence == f.asked {
				m.answer(e, c, refusal)
			}
		}
	}
	f.done = f.asked
	f.waiting, f.next = f.next, nil
	if len(f.waiting) > 0 {
		f.asked++
		m.emit(ReadFence{Shard: s.id, Epoch: s.epoch, Number: f.asked})
	}
	for _, e := range ready {
		if e.inc == 0 {
			continue
		}
		m.flush(e)
		m.advance(e)
	}
}

func (m *Machine) open(in Open) {
	ts := m.typ(in.Shard.Type)
	if ts == nil || in.Shard.Index >= ts.Desc.Shards || ts.shards[in.Shard.Index] != nil {
		return
	}
	ts.shards[in.Shard.Index] = &shard{
		id: in.Shard, epoch: in.Epoch, phase: open, typ: ts,
	}
}

// enter puts an entity into the shard, and exit takes it out.
func (s *shard) enter(e *entity) {
	s.typ.entities[e.id.ID] = e
	e.in = uint32(len(s.entities))
	s.entities = append(s.entities, e)
}

func (s *shard) exit(e *entity) {
	delete(s.typ.entities, e.id.ID)
	last := len(s.entities) - 1
	s.entities[e.in] = s.entities[last]
	s.entities[e.in].in = e.in
	s.entities[last] = nil
	s.entities = s.entities[:last]
}

// drain lets the shard finish what it accepted.
func (m *Machine) drain(id sharding.ShardID) {
	s := m.shard(id)
	if s == nil || s.phase != open {
		return
	}
	s.phase = draining
	m.plan(wake{at: m.now.Add(m.cfg.DrainTimeout), kind: wakeDrain, shard: s})
	for _, e := range s.sorted() {
		if e.state == live && !e.busy() && e.running == nil {
			m.stop(e, HandedOff)
		}
	}
	m.checkDrained(s)
}

// giveUp ends a drain that took too long: running turns are cancelled and
// abandoned.
func (m *Machine) giveUp(s *shard) {
	for _, e := range s.sorted() {
		if e.running != nil {
			m.stats.Abandoned++
		}
	}
	m.abort(s.id)
}

// fenced ends a shard that the journal gives to another epoch.
func (m *Machine) fenced(s *shard, stored sharding.Epoch) {
	if s.phase != aborting {
		m.emit(Fenced{Shard: s.id, Epoch: s.epoch, Stored: stored})
	}
	m.abortShard(s, stored)
}

func (m *Machine) abort(id sharding.ShardID) {
	if s := m.shard(id); s != nil {
		m.abortShard(s, 0)
	}
}

// abortShard ends all incarnations of the shard. Commands in an append that is
// under way wait for its outcome; all others are turned away.
func (m *Machine) abortShard(s *shard, stored sharding.Epoch) {
	s.phase = aborting
	for _, e := range s.sorted() {
		m.abortEntity(e, stored)
	}
	m.checkDrained(s)
}

func (m *Machine) abortEntity(e *entity, stored sharding.Epoch) {
	if c := e.running; c != nil {
		m.emit(Cancel{Entity: e.id, Incarnation: e.inc, Request: c.ran})
	}
	if e.state != settling && e.state != lookup {
		m.end(e)
	}
	e.pending = nil
	var last uint64
	if len(e.inflight) > 0 {
		last = e.inflight[len(e.inflight)-1].Seq
	}
	doubt := false
	for _, c := range e.cmds {
		switch {
		case c.answered:
		case c.doubt:
			doubt = true
		case c.record > 0 && c.record <= last:
		default:
			m.turnAway(e, c)
		}
	}
	m.leave(e)
	switch {
	case e.state == lookup || len(e.inflight) > 0:
	case doubt:
		m.lookup(e)
	default:
		m.gone(e)
	}
}

// checkDrained reports a closed shard of which nothing is left.
func (m *Machine) checkDrained(s *shard) {
	if s.phase == open || len(s.entities) > 0 && !mutant.On("drain-settles") || !s.held() {
		return
	}
	s.typ.shards[s.id.Index] = nil
	m.emit(Drained{Shard: s.id, Epoch: s.epoch})
}

// held tells whether the shard is not drained yet.
func (s *shard) held() bool { return s.typ.shards[s.id.Index] == s }

// sorted are the entities of the shard in a fixed order.
func (s *shard) sorted() []*entity {
	es := slices.Clone(s.entities)
	slices.SortFunc(es, func(a, b *entity) int { return a.id.Compare(b.id) })
	return es
}
