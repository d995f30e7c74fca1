package region

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Check verifies the invariants of the core. An error is a bug.
func (c *ControlCore) Check() error {
	errs := []error{c.table.Check(), c.watcher.Check()}
	for id, h := range c.directHandoffs { // order-free: a broken one is a bug
		if row, known := c.table.Row(id); !c.hosts(id) || h.order.Shard != id || known && row.Epoch > h.order.Epoch {
			errs = append(errs, fmt.Errorf("region: %s goes to %s, and its row is %v", id, h.order.Successor, row))
		}
	}
	for r := range resources {
		if err := c.budgets[r].check(); err != nil {
			errs = append(errs, fmt.Errorf("region: %s: %w", r, err))
		}
	}
	return errors.Join(errs...)
}

// Check verifies the invariants of the core. An error is a bug.
func (m *ShardCore) Check() error {
	var errs []error
	var held, buffered, bytes int
	for h := range m.heldShards() {
		id := h.id
		held++
		buffered += len(h.buffer)
		bytes += h.bytes
		switch {
		case h.epoch < m.minEpoch(id) && h.phase != stopping:
			errs = append(errs, fmt.Errorf("region: %s is held at %s, below its minimum epoch %s", id, h.epoch, m.minEpoch(id)))
		case h.phase != claiming && h.phase != fetching && len(h.buffer) > 0:
			errs = append(errs, fmt.Errorf("region: %s buffers %d commands though it waits for nothing", id, len(h.buffer)))
		case h.damaged && (h.phase != claiming || len(h.buffer) > 0):
			errs = append(errs, fmt.Errorf("region: %s refuses commands in phase %d, and %d wait", id, h.phase, len(h.buffer)))
		case h.phase == serving && m.turn.Epoch(id) != h.epoch:
			errs = append(errs, fmt.Errorf("region: %s is served at %s but open at %s", id, h.epoch, m.turn.Epoch(id)))
		case m.turn.Takes(id, h.epoch) != (h.phase == serving):
			errs = append(errs, fmt.Errorf("region: %s takes commands in phase %d: %t", id, h.phase, h.phase != serving))
		case (h.phase == claiming || h.phase == fetching) && m.turn.Epoch(id) != 0:
			errs = append(errs, fmt.Errorf("region: %s is open before its claim", id))
		case len(h.buffer) > m.cfg.BufferCommands || h.bytes > m.cfg.BufferBytes:
			errs = append(errs, fmt.Errorf("region: %s buffers %d commands, %d bytes, above its limits", id, len(h.buffer), h.bytes))
		}
	}
	for _, t := range m.types {
		for i, h := range t.shards {
			if id := (sharding.ShardID{Type: t.name, Index: uint32(i)}); m.cfg.CoreOf(id) != m.index && (h != nil || t.rows[i].Epoch != 0) {
				errs = append(errs, fmt.Errorf("region: shard core %d has %s, which is another's", m.index, id))
			}
		}
	}
	u := m.used()
	for r := range resources {
		if err := m.allowances[r].check(u[r]); err != nil {
			errs = append(errs, fmt.Errorf("region: %s of shard core %d: %w", r, m.index, err))
		}
	}
	if held != m.heldCount {
		errs = append(errs, fmt.Errorf("region: counted %d shards; there are %d", m.heldCount, held))
	}
	if buffered != m.buffered || bytes != m.bufferedBytes {
		errs = append(errs, fmt.Errorf("region: counted %d buffered commands, %d bytes; there are %d, %d", m.buffered, m.bufferedBytes, buffered, bytes))
	}
	return errors.Join(append(errs, m.checkKept(), m.turn.Check(), m.wakeups.Check(), m.starter.Check(), m.purger.Check(), m.sends.Check())...)
}

// Clone copies the core; both go on independently.
func (c *ControlCore) Clone() *ControlCore {
	n := *c
	n.table, n.watcher, n.cores, n.out = c.table.Clone(), c.watcher.Clone(), slices.Clone(c.cores), nil
	n.loads.cores = slices.Clone(c.loads.cores) // their lists are never written to
	n.directHandoffs, n.releasers, n.quarantined = maps.Clone(c.directHandoffs), maps.Clone(c.releasers), maps.Clone(c.quarantined)
	for r := range resources {
		b := &n.budgets[r]
		b.granted, b.wanting = slices.Clone(b.granted), slices.Clone(b.wanting)
	}
	return &n
}

// Clone copies the core; both go on independently.
func (m *ShardCore) Clone() *ShardCore {
	c := *m
	c.turn, c.wakeups, c.starter, c.sends, c.types, c.lastType, c.out = m.turn.Clone(), m.wakeups.Clone(), m.starter.Clone(), m.sends.Clone(), slices.Clone(m.types), nil, nil
	c.purger, c.purgeOutputs, c.fencedShards = m.purger.Clone(), purge.Outputs{}, slices.Clone(m.fencedShards)
	for i, t := range m.types {
		c.types[i] = &hostedType{name: t.name, desc: t.desc, volatile: t.volatile, remember: t.remember, keeps: t.keeps, kept: slices.Clone(t.kept),
			shards: slices.Clone(t.shards), minEpochs: slices.Clone(t.minEpochs), rows: slices.Clone(t.rows), wrote: slices.Clone(t.wrote)}
	}
	for _, t := range c.types {
		for i, k := range t.kept {
			if k != nil {
				kc := *k
				t.kept[i] = &kc
			}
		}
	}
	for h := range m.heldShards() {
		hc := *h
		hc.buffer = slices.Clone(h.buffer)
		c.typ(h.id.Type).shards[h.id.Index] = &hc
	}
	return &c
}

// relative returns the time from now to t, -1 if t is zero.
func relative(now, t time.Time) time.Duration {
	if t.IsZero() {
		return -1
	}
	return t.Sub(now)
}

// AppendState appends a canonical description of the state, with times
// relative to now: equal states give equal bytes.
func (c *ControlCore) AppendState(now time.Time, b []byte) []byte {
	rel := func(t time.Time) time.Duration { return relative(now, t) }
	a := &c.announcing
	b = fmt.Appendf(b, "term %d registered %d announced %d %q number %d open %t refused %q %v leaving %t %d %q %d left %t released %t draining %t failed %t\n",
		c.term, c.registered, rel(a.call.at), a.call.askedOf, a.number, a.open, a.refusal, a.refused, c.leaving, rel(c.leaveCall.at), c.leaveCall.askedOf, rel(c.leftBy), c.left, c.released, c.draining, c.failed)
	if r := &c.readiness; !r.latched {
		b = fmt.Appendf(b, "due %d %t asked %d %q\n", r.due, r.known, rel(r.call.at), r.call.askedOf)
	}
	if c.cfg.JournalPatience > 0 {
		h := &c.health
		b = fmt.Appendf(b, "journal %s %d report %d told %d ticked %d\n", h.state, rel(h.since), h.report, rel(h.told), rel(h.ticked))
		for p, e := range h.paths {
			b = fmt.Appendf(b, "%s heard %d asking %d asked %d number %d open %t\n", JournalPath(p), rel(e.heard), rel(e.asking), rel(e.asked), e.number, e.open)
		}
	}
	if r := &c.loads; c.cfg.LoadInterval > 0 {
		b = fmt.Appendf(b, "loads %d %q number %d taken %t told %v node %v", rel(r.call.at), r.call.askedOf, r.number, r.taken, r.told, r.node)
		for _, core := range r.cores {
			b = fmt.Appendf(b, " %v", core)
		}
		b = append(b, '\n')
	}
	b = fmt.Appendf(b, "cores %v feeding %v\n", c.cores, c.feeding)
	for r := range resources {
		b = fmt.Appendf(b, "%s %d %v %v\n", r, c.budgets[r].free, c.budgets[r].granted, c.budgets[r].wanting)
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.directHandoffs), sharding.ShardID.Compare) {
		h := c.directHandoffs[id]
		b = fmt.Appendf(b, "direct handoff %+v released %t told %d until %d\n", h.order, h.released, relative(now, h.toldAt), relative(now, h.until))
	}
	for _, addr := range slices.Sorted(maps.Keys(c.releasers)) {
		b = fmt.Appendf(b, "releaser %s %x\n", addr, c.releasers[addr])
	}
	b = c.table.AppendState(b)
	return c.watcher.AppendState(b, now)
}

// AppendState appends a canonical description of the state, with times
// relative to now: equal states give equal bytes.
func (m *ShardCore) AppendState(now time.Time, b []byte) []byte {
	b = fmt.Appendf(b, "leaving %t told %v %v", m.leaving, m.lastHeld, m.allowances)
	for p := range journalPaths {
		if m.cfg.JournalPatience > 0 && m.answered[p] {
			b = fmt.Appendf(b, " %s %d", p, relative(now, m.answeredAt[p]))
		}
	}
	if m.cfg.LoadInterval > 0 {
		b = fmt.Appendf(b, " measured %d", relative(now, m.measuredAt))
	}
	b = append(b, '\n')
	for h := range m.heldShards() {
		b = fmt.Appendf(b, "held %s %s %d claim %d damaged %t fenced %t from %s handoff %s next %s from %s fetch by %d", h.id, h.epoch, h.phase,
			relative(now, h.claimAt), h.damaged, h.fenced, h.from, h.handOff, h.nextEpoch, h.nextFrom, relative(now, h.fetchBy))
		for _, c := range h.buffer {
			b = fmt.Appendf(b, " %d", c.Request)
		}
		if m.cfg.LoadInterval > 0 {
			l := &h.meter
			b = fmt.Appendf(b, " meter %d %v %v %v %v %v %v", relative(now, l.at), l.last, l.weight, l.handlers, l.turns, l.mailbox, l.journal)
		}
		b = append(b, '\n')
	}
	for _, t := range m.types {
		for i, minEpoch := range t.minEpochs {
			if minEpoch > 0 {
				b = fmt.Appendf(b, "minEpoch %s/%d %s\n", t.name, i, minEpoch)
			}
			if t.wrote[i] != "" {
				b = fmt.Appendf(b, "wrote %s/%d %x\n", t.name, i, string(t.wrote[i]))
			}
			if row := t.rows[i]; row.Epoch > 0 {
				b = fmt.Appendf(b, "row %v\n", row)
			}
		}
	}
	for _, f := range m.fencedShards {
		b = fmt.Appendf(b, "fenced %s %s %d\n", f.id, f.epoch, relative(now, f.toldAt))
	}
	b = m.appendKept(now, b)
	return m.turn.AppendState(now, m.starter.AppendState(now, m.wakeups.AppendState(now, m.purger.AppendState(now, m.sends.AppendState(now, b)))))
}
