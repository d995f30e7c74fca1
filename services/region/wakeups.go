package region

import (
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// A shard core is the driver of two cores for wake-ups beside the entity core: the keeper of wake-ups, which
// fires timers, and the starter, which starts remembered entities.

// Wakeups returns the counts of the keeper of wake-ups.
func (m *ShardCore) Wakeups() wakeup.Stats { return m.wakeups.Stats() }

// Starts returns the counts of the starter.
func (m *ShardCore) Starts() wakeup.StartStats { return m.starter.Stats() }

// openWakeups lets the wake-ups of a shard fire that is claimed, and starts its remembered
// entities.
func (m *ShardCore) openWakeups(h *heldShard) {
	t, in := m.typ(h.id.Type), wakeup.Open{Shard: h.id, Epoch: h.epoch}
	if !t.volatile {
		m.wakeups.Step(m.now, in, &m.wanted)
	}
	if t.remember {
		m.starter.Step(m.now, in, &m.wanted)
	}
}

func (m *ShardCore) stepWakeups(in wakeup.Input) {
	m.wakeups.Step(m.now, in, &m.wanted)
	m.starter.Step(m.now, in, &m.wanted)
}

func (m *ShardCore) wakesRead(p wakeup.Page) {
	if p.Remembered {
		m.starter.Step(m.now, p, &m.wanted)
	} else {
		m.wakeups.Step(m.now, p, &m.wanted)
	}
}

func (m *ShardCore) tellWakeups(e turn.ShardEvent) {
	m.wakeups.Told(m.now, e, &m.wanted)
	m.starter.Told(m.now, e, &m.wanted)
}

// performWanted does what the cores beside the entity core want. A firing, a start or a send that
// is refused at once may make room for the next one.
func (m *ShardCore) performWanted() {
	for !m.wanted.Empty() || !m.sent.Empty() {
		m.performWakeups()
		m.deliverSends()
	}
}

func (m *ShardCore) performWakeups() {
	for len(m.wanted.Fires)+len(m.wanted.Activates) > 0 {
		fires, activates := m.wanted.Fires, m.wanted.Activates
		m.wanted.Fires, m.wanted.Activates = nil, nil
		for _, f := range fires {
			m.step(f)
		}
		for _, a := range activates {
			m.step(a)
		}
	}
	for _, r := range m.wanted.Reads {
		m.emit(ReadWakes{Read: r})
	}
	m.wanted.Reads = nil
}
