package region

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Check verifies the invariants of the machine. An error is a bug.
func (m *Machine) Check() error {
	var errs []error
	var held, buffered, bytes int
	for h := range m.shards() {
		id := h.id
		held++
		buffered += len(h.buffer)
		bytes += h.bytes
		switch {
		case h.epoch < m.floor(id) && h.phase != stopping:
			errs = append(errs, fmt.Errorf("region: %s is held at %s, below its floor %s", id, h.epoch, m.floor(id)))
		case h.phase != claiming && len(h.buffer) > 0:
			errs = append(errs, fmt.Errorf("region: %s buffers %d commands though it does not wait for a claim", id, len(h.buffer)))
		case h.damaged && (h.phase != claiming || len(h.buffer) > 0):
			errs = append(errs, fmt.Errorf("region: %s refuses commands in phase %d, and %d wait", id, h.phase, len(h.buffer)))
		case h.phase == serving && m.turn.Epoch(id) != h.epoch:
			errs = append(errs, fmt.Errorf("region: %s is served at %s but open at %s", id, h.epoch, m.turn.Epoch(id)))
		case h.phase == claiming && m.turn.Epoch(id) != 0:
			errs = append(errs, fmt.Errorf("region: %s is open before its claim", id))
		case len(h.buffer) > m.cfg.BufferCommands || h.bytes > m.cfg.BufferBytes:
			errs = append(errs, fmt.Errorf("region: %s buffers %d commands, %d bytes, above its limits", id, len(h.buffer), h.bytes))
		}
	}
	if held != m.held {
		errs = append(errs, fmt.Errorf("region: counted %d shards; there are %d", m.held, held))
	}
	if buffered != m.buffered || bytes != m.bufferedBytes {
		errs = append(errs, fmt.Errorf("region: counted %d buffered commands, %d bytes; there are %d, %d", m.buffered, m.bufferedBytes, buffered, bytes))
	}
	return errors.Join(append(errs, m.turn.Check(), m.table.Check(), m.watcher.Check())...)
}

// Clone copies the machine; both go on independently.
func (m *Machine) Clone() *Machine {
	c := *m
	c.turn, c.table, c.watcher = m.turn.Clone(), m.table.Clone(), m.watcher.Clone()
	c.types, c.asked, c.out = slices.Clone(m.types), nil, nil
	for i, t := range m.types {
		c.types[i] = &hosted{name: t.name, volatile: t.volatile, shards: slices.Clone(t.shards), floors: slices.Clone(t.floors)}
	}
	for h := range m.shards() {
		hc := *h
		hc.buffer = slices.Clone(h.buffer)
		c.typ(h.id.Type).shards[h.id.Index] = &hc
	}
	return &c
}

// AppendState appends a canonical description of the state, with times
// relative to now: equal states give equal bytes.
func (m *Machine) AppendState(now time.Time, b []byte) []byte {
	rel := func(t time.Time) time.Duration {
		if t.IsZero() {
			return -1
		}
		return t.Sub(now)
	}
	a := &m.announcing
	b = fmt.Appendf(b, "term %d registered %d announced %d number %d open %t refused %q %v leaving %t %d %d left %t released %t failed %t\n",
		m.term, m.registered, rel(a.at), a.number, a.open, a.refusal, a.refused, m.leaving, rel(m.leaveAt), rel(m.leftBy), m.left, m.released, m.failed)
	if m.cfg.JournalPatience > 0 {
		h := &m.health
		b = fmt.Appendf(b, "journal %s %d report %d told %d ticked %d\n", h.state, rel(h.since), h.report, rel(h.told), rel(h.ticked))
		for p, e := range h.paths {
			b = fmt.Appendf(b, "%s heard %d asking %d asked %d number %d open %t\n", JournalPath(p), rel(e.heard), rel(e.asking), rel(e.asked), e.number, e.open)
		}
	}
	for h := range m.shards() {
		b = fmt.Appendf(b, "held %s %s %d claim %d damaged %t from %s handoff %s next %s", h.id, h.epoch, h.phase,
			rel(h.claimAt), h.damaged, h.from, h.handOff, h.next)
		for _, c := range h.buffer {
			b = fmt.Appendf(b, " %d", c.Request)
		}
		b = append(b, '\n')
	}
	for _, t := range m.types {
		for i, floor := range t.floors {
			if floor > 0 {
				b = fmt.Appendf(b, "floor %s/%d %s\n", t.name, i, floor)
			}
		}
	}
	b = m.table.AppendState(b)
	b = m.watcher.AppendState(b, now)
	return m.turn.AppendState(now, b)
}
