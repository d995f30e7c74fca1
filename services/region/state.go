package region

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Check verifies the invariants of the machine. An error is a bug.
func (m *Machine) Check() error {
	var errs []error
	var buffered, bytes int
	for id, h := range m.shards { // order-free: any violation will do
		buffered += len(h.buffer)
		bytes += h.bytes
		switch {
		case h.epoch < m.floors[id] && h.phase != stopping:
			errs = append(errs, fmt.Errorf("region: %s is held at %s, below its floor %s", id, h.epoch, m.floors[id]))
		case h.phase != claiming && len(h.buffer) > 0:
			errs = append(errs, fmt.Errorf("region: %s buffers %d commands though it does not wait for a claim", id, len(h.buffer)))
		case h.phase == serving && m.turn.Epoch(id) != h.epoch:
			errs = append(errs, fmt.Errorf("region: %s is served at %s but open at %s", id, h.epoch, m.turn.Epoch(id)))
		case h.phase == claiming && m.turn.Epoch(id) != 0:
			errs = append(errs, fmt.Errorf("region: %s is open before its claim", id))
		case len(h.buffer) > m.cfg.BufferCommands || h.bytes > m.cfg.BufferBytes:
			errs = append(errs, fmt.Errorf("region: %s buffers %d commands, %d bytes, above its limits", id, len(h.buffer), h.bytes))
		}
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
	c.floors = maps.Clone(m.floors)
	c.shards = make(map[sharding.ShardID]*held, len(m.shards))
	for id, h := range m.shards { // order-free: fills a map
		hc := *h
		hc.buffer = slices.Clone(h.buffer)
		c.shards[id] = &hc
	}
	c.out, c.spare = nil, nil
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
	b = fmt.Appendf(b, "term %d registered %d asked %d leaving %t %d %d left %t released %t failed %t\n",
		m.term, m.registered, rel(m.askedAt), m.leaving, rel(m.leaveAt), rel(m.leftBy), m.left, m.released, m.failed)
	for _, id := range slices.SortedFunc(maps.Keys(m.shards), sharding.ShardID.Compare) {
		h := m.shards[id]
		b = fmt.Appendf(b, "held %s %s %d claim %d from %s handoff %s next %s", id, h.epoch, h.phase,
			rel(h.claimAt), h.from, h.handOff, h.next)
		for _, c := range h.buffer {
			b = fmt.Appendf(b, " %d", c.Request)
		}
		b = append(b, '\n')
	}
	for _, id := range slices.SortedFunc(maps.Keys(m.floors), sharding.ShardID.Compare) {
		b = fmt.Appendf(b, "floor %s %s\n", id, m.floors[id])
	}
	b = m.table.AppendState(b)
	b = m.watcher.AppendState(b, now)
	return m.turn.AppendState(now, b)
}
