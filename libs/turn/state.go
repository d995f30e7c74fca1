package turn

import (
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"
)

// shards yields the open shards by type and index.
func (m *Machine) shards() iter.Seq[*shard] {
	return func(yield func(*shard) bool) {
		for _, ts := range m.types {
			for _, s := range ts.shards {
				if s != nil && !yield(s) {
					return
				}
			}
		}
	}
}

// Check verifies the invariants of the machine. An error means a bug.
func (m *Machine) Check() error {
	if n := m.noWork; len(n.cmds)+len(n.inflight)+len(n.pending)+len(n.timers)+n.next+n.bytes+n.resultBytes > 0 || n.running != nil {
		return fmt.Errorf("turn: the work of idle entities is not empty: %+v", *n)
	}
	if *m.notJournaled != (journaled{}) {
		return fmt.Errorf("turn: entities of volatile types have records: %+v", *m.notJournaled)
	}
	if err := m.checkPassivation(); err != nil {
		return err
	}
	var commands, bytes, entities, held, waiting int
	for s := range m.shards() {
		if err := s.kept.check(&m.cfg); err != nil {
			return fmt.Errorf("turn: shard %s: %w", s.id, err)
		}
		size := s.bytes
		for i, n := range s.entities {
			e := m.slots[n].entity
			entities++
			size -= m.size(e)
			if m.lookUp(s.typ, e.id) != e || e.shard != s || e.shardIndex != uint32(i) {
				return fmt.Errorf("turn: entity %s in %s is not found", e.address(), s.id)
			}
			if m.slots.at(e.inc) != e {
				return fmt.Errorf("turn: entity %s in %s is not in its slot", e.address(), s.id)
			}
			if err := e.check(&m.cfg); err != nil {
				return fmt.Errorf("turn: entity %s in %s: %w", e.address(), s.id, err)
			}
			held += e.resultBytes
			if e.ask != nil {
				waiting++
			}
			for _, c := range e.cmds {
				if !c.answered {
					commands++
					bytes += c.env.Size()
				}
			}
		}
		if size != 0 {
			return fmt.Errorf("turn: shard %s counts %d bytes of entities, which is %d too many", s.id, s.bytes, size)
		}
	}
	if commands != m.stats.Commands || bytes != m.stats.Bytes || entities != m.stats.Entities {
		return fmt.Errorf("turn: counted %d commands, %d bytes, %d entities; there are %d, %d, %d",
			m.stats.Commands, m.stats.Bytes, m.stats.Entities, commands, bytes, entities)
	}
	if waiting != m.stats.Waiting || waiting > m.cfg.WaitingTurns {
		return fmt.Errorf("turn: counted %d turns that wait for answers; there are %d, at most %d may be", m.stats.Waiting, waiting, m.cfg.WaitingTurns)
	}
	if held != m.resultBytes {
		return fmt.Errorf("turn: counted %d bytes of finished turns; there are %d", m.resultBytes, held)
	}
	if n := len(m.loads.inFlight); n > m.cfg.TotalLoads {
		return fmt.Errorf("turn: %d loads are in progress, at most %d may be", n, m.cfg.TotalLoads)
	}
	for id, n := range m.loads.perEntity { // order-free: any error is a bug
		if n > m.cfg.EntityLoads {
			return fmt.Errorf("turn: %d loads of entity %s are in progress, at most %d may be", n, id, m.cfg.EntityLoads)
		}
	}
	if commands > m.cfg.TotalCommands || bytes > int(m.cfg.TotalBytes) {
		return fmt.Errorf("turn: %d commands with %d bytes are above the limits", commands, bytes)
	}
	return nil
}

func (e *entity) check(cfg *Config) error {
	switch {
	case e.inc == 0:
		return fmt.Errorf("is listed but was removed")
	case e.next < 0 || e.next > len(e.cmds):
		return fmt.Errorf("next turn %d of %d", e.next, len(e.cmds))
	case e.running != nil && e.state != live:
		return fmt.Errorf("runs a turn in state %d", e.state)
	case e.ask != nil && e.running == nil:
		return fmt.Errorf("waits for an answer without a turn")
	case e.running != nil && e.running.answered:
		return fmt.Errorf("runs a command that was answered")
	case !e.appending() && len(e.pending)+len(e.nextReporters) > 0:
		return fmt.Errorf("has %d pending records, %d pending firings and no append in flight", len(e.pending), len(e.nextReporters))
	case e.reporter != nil && (e.reporter.answered || e.reporter.wakeup == nil && e.reporter.endedSend == nil):
		return fmt.Errorf("appends the firing of %s, which has ended", e.reporter.env.ID)
	case e.reporter != nil && len(e.inflight) > 0 && (len(e.inflight) > 1 || e.inflight[0].Seq != e.reporter.ownRecord):
		return fmt.Errorf("appends the firing of %s with records of other turns", e.reporter.env.ID)
	case (e.state == settling || e.state == settleRefused) && len(e.inflight) != 1:
		return fmt.Errorf("settles %d records", len(e.inflight))
	case len(e.cmds) > cfg.MailboxCommands || e.bytes > cfg.MailboxBytes:
		return fmt.Errorf("mailbox of %d commands, %d bytes is above its limit", len(e.cmds), e.bytes)
	}
	held := 0
	for _, c := range e.cmds {
		held += c.resultBytes
		if c.resultBytes > 0 && (!c.done || c.answered) {
			return fmt.Errorf("%s holds %d bytes for nothing", c.env.ID, c.resultBytes)
		}
	}
	if held != e.resultBytes {
		return fmt.Errorf("counted %d bytes of finished turns; there are %d", e.resultBytes, held)
	}
	var seq uint64
	for _, c := range e.cmds[:e.next] {
		if c.waitsForRecord < seq && !c.answered && c.done {
			return fmt.Errorf("gate of %s goes back from %d to %d", c.env.ID, seq, c.waitsForRecord)
		}
		if c.done && !c.answered {
			seq = c.waitsForRecord
		}
	}
	return nil
}

// Clone returns a copy of the machine that shares no mutable state with it.
func (m *Machine) Clone() *Machine {
	n := New(m.cfg)
	n.lastIncarnation, n.lastTimer, n.lastOrder, n.stats = m.lastIncarnation, m.lastTimer, m.lastOrder, m.stats
	n.keptStats = m.keptStats
	n.heap, n.hot = m.heap, m.hot.Clone()
	n.resultBytes, n.limit, n.reserve, n.recent = m.resultBytes, m.limit, m.reserve, m.recent.clone()
	n.loads = loads{inFlight: maps.Clone(m.loads.inFlight), perEntity: maps.Clone(m.loads.perEntity)}
	n.slots = slices.Clone(m.slots)
	for i := range n.slots {
		n.slots[i].entity = nil // until it is cloned
	}
	n.nodes = m.nodes.Clone()
	ents := map[*entity]*entity{}
	shards := map[*shard]*shard{}
	timers := map[*timer]*timer{}
	for i, ts := range n.types {
		ts.Type, ts.policy = m.types[i].Type, m.types[i].policy.Clone(n.nodes)
		ts.quarantine = m.types[i].quarantine // never changed in place
		ts.bound, ts.bytes, ts.passivations = new(*m.types[i].bound), m.types[i].bytes, m.types[i].passivations
		for index, s := range m.types[i].shards {
			if s == nil {
				continue
			}
			c := &shard{id: s.id, epoch: s.epoch, phase: s.phase, typ: ts, wrote: s.wrote, work: s.work, bytes: s.bytes}
			c.kept = keptStates{byID: maps.Clone(s.kept.byID), bytes: s.kept.bytes}
			shards[s], ts.shards[index] = c, c
			for e := range m.entitiesOf(s) {
				ents[e] = m.cloneEntity(e, n, c, timers)
				n.add(c, ents[e])
				n.slots[e.inc.Slot()].entity = ents[e]
			}
			c.fence = fenceReads{issued: s.fence.issued, completed: s.fence.completed}
			c.fence.waiting, c.fence.next = cloneWaiting(s.fence.waiting, ents), cloneWaiting(s.fence.next, ents)
		}
	}
	for _, a := range m.alarms {
		if !m.relevant(a) {
			continue
		}
		a.entity, a.shard, a.timer = ents[a.entity], shards[a.shard], timers[a.timer]
		n.alarms.push(a)
	}
	return n
}

func cloneWaiting(es []*entity, ents map[*entity]*entity) []*entity {
	var out []*entity
	for _, e := range es {
		if c := ents[e]; c != nil {
			out = append(out, c)
		}
	}
	return out
}

// cloneEntity returns a copy of an entity for the shard s of the machine n.
func (m *Machine) cloneEntity(e *entity, n *Machine, s *shard, timers map[*timer]*timer) *entity {
	c := n.allocEntity(s.typ)
	own, records := c.work, c.journaled
	*c = *e
	c.shard, c.work, c.journaled = s, own, records
	if !c.volatile() {
		*c.journaled = *e.journaled
	}
	if e.work == m.noWork {
		return c
	}
	w := *e.work
	c.work = &w
	c.inflight, c.pending = slices.Clone(e.inflight), slices.Clone(e.pending)
	c.timers = nil
	if e.ask != nil {
		a := *e.ask
		c.ask = &a
	}
	for _, t := range e.timers {
		tc := *t
		timers[t] = &tc
		c.timers = append(c.timers, &tc)
	}
	c.cmds, c.byID, c.running = nil, nil, nil
	c.reporter, c.nextReporters = nil, slices.Clone(e.nextReporters)
	for _, cmd := range e.cmds {
		cc := *cmd
		cc.requests, cc.asksMade = slices.Clone(cmd.requests), slices.Clone(cmd.asksMade)
		if cmd.timer != nil {
			if timers[cmd.timer] == nil {
				tc := *cmd.timer
				timers[cmd.timer] = &tc
			}
			cc.timer = timers[cmd.timer]
		}
		c.cmds = append(c.cmds, &cc)
		if cmd == e.running {
			c.running = &cc
		}
		if cmd == e.reporter {
			c.reporter = &cc
		}
		if i := slices.Index(e.nextReporters, cmd); i >= 0 {
			c.nextReporters[i] = &cc
		}
	}
	if e.byID != nil {
		c.index()
	}
	return c
}

// AppendState appends a canonical description of the state, with times
// relative to now: equal states give equal bytes.
func (m *Machine) AppendState(now time.Time, b []byte) []byte {
	b = fmt.Appendf(b, "last %d %d limit %d free", m.lastIncarnation, m.lastTimer, m.limit)
	for n := m.slots[0].next; n != 0; n = m.slots[n].next {
		b = fmt.Appendf(b, " %d", n)
	}
	for i, key := range m.recent.table {
		if key != 0 {
			b = fmt.Appendf(b, " recent %d %x", i, key)
		}
	}
	for _, inc := range slices.Sorted(maps.Keys(m.loads.inFlight)) {
		b = fmt.Appendf(b, " load %s", inc)
	}
	b = append(b, '\n')
	for s := range m.shards() {
		b = fmt.Appendf(b, "shard %s %s %d fence %d %d %d %d wrote %x\n", s.id, s.epoch, s.phase,
			s.fence.issued, s.fence.completed, len(s.fence.waiting), len(s.fence.next), string(s.wrote))
		for _, e := range m.sorted(s) {
			b = e.appendState(now, b)
		}
		for _, k := range s.kept.list(now) {
			b = fmt.Appendf(b, " kept %s %x %v\n", k.ID, k.Payload, k.Timers)
		}
	}
	for _, a := range m.alarms.sorted() {
		if !m.relevant(a) {
			continue
		}
		b = fmt.Appendf(b, "alarm %d in %d\n", a.kind, a.at.Sub(now))
	}
	return b
}

func (e *entity) appendState(now time.Time, b []byte) []byte {
	b = fmt.Appendf(b, " entity %s incarnation %s %d next %d running %t staged %d durable %d snap %d %d passivate %t evicted %t fresh %t trimmed %t life %d sends %d %t %d average %d remembered %d %d reminders %d starting %t bare %t next %t",
		e.address(), e.inc, e.state, e.next, e.running != nil, e.staged, e.durable, e.sinceSnapshot, e.bytesSinceSnapshot, e.passivate, e.evicted, e.fresh, e.trimmed, e.life, e.sends, e.sendsUncertain, e.loadedSeq, e.avgTurnMicros,
		e.rememberedActivity, e.unrememberedBy, e.reminders, e.starting, e.bare, e.bareNext)
	b = append(e.shard.typ.policy.AppendState(now, e.node(), b), '\n')
	for _, r := range e.inflight {
		b = binary.AppendUvarint(append(b, 'f'), r.Seq)
	}
	for _, r := range e.pending {
		b = binary.AppendUvarint(append(b, 'p'), r.Seq)
	}
	if e.reporter != nil {
		b = fmt.Appendf(b, " firing %s", e.reporter.env.ID)
	}
	if a := e.ask; a != nil {
		b = fmt.Appendf(b, " ask %d %s %s sent %t seq %d fence %d", a.number, a.env.Entity, a.env.ID, a.sent, a.seq, a.fence)
	}
	for _, c := range e.cmds {
		if c.endedSend != nil {
			b = fmt.Appendf(b, "  ends %v\n", *c.endedSend)
		}
		if c.wakeup != nil {
			b = fmt.Appendf(b, "  wakeup %+v fired %t overtaken %d\n", *c.wakeup, c.fired, c.overtakenEnd)
		}
		if c.asked {
			b = fmt.Appendf(b, "  asked, barrier open %t conflict %t made %v\n", c.barrierOpen, c.askConflict, c.asksMade)
		}
		b = fmt.Appendf(b, "  %s %x req %v ran %d looked %t asked %t doubt %t done %t held %d rec %d seq %d fence %d answered %t reply %d %s %x\n",
			c.env.ID, c.hash(), c.requests, c.runID, c.lookedUpFirst, c.lookupPending, c.inDoubt, c.done, c.resultBytes, c.ownRecord, c.waitsForRecord, c.waitsForFenceRead, c.answered,
			c.reply.Outcome, c.reply.Code, c.reply.Payload)
	}
	return b
}

func (h alarmHeap) sorted() alarmHeap {
	c := slices.Clone(h)
	slices.SortFunc(c, func(a, b alarm) int {
		if n := a.at.Compare(b.at); n != 0 {
			return n
		}
		return int(a.kind) - int(b.kind)
	})
	return c
}
