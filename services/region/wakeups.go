package region

import (
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// Beside the entity core, a shard core drives two cores for wake-ups: the keeper of wake-ups,
// which fires reminders, and the starter, which starts remembered entities.

// Wakeups returns the counts of the keeper of wake-ups.
func (m *ShardCore) Wakeups() wakeup.Stats { return m.wakeups.Stats() }

// Starts returns the counts of the starter.
func (m *ShardCore) Starts() wakeup.StartStats { return m.starter.Stats() }

// openWakeups lets the wake-ups of a claimed shard fire, and starts its remembered entities.
func (m *ShardCore) openWakeups(h *heldShard) {
	t, in := m.typ(h.id.Type), wakeup.Open{Shard: h.id, Epoch: h.epoch}
	if !t.volatile {
		m.wakeups.Step(m.now, in, &m.wakesWanted)
	}
	if t.remember {
		m.starter.Step(m.now, in, &m.wakesWanted)
	}
}

func (m *ShardCore) stepWakeups(in wakeup.Input) {
	m.wakeups.Step(m.now, in, &m.wakesWanted)
	m.starter.Step(m.now, in, &m.wakesWanted)
}

func (m *ShardCore) wakesRead(p wakeup.Page) {
	if p.Remembered {
		m.starter.Step(m.now, p, &m.wakesWanted)
	} else {
		m.wakeups.Step(m.now, p, &m.wakesWanted)
	}
}

func (m *ShardCore) tellWakeups(e turn.ShardEvent) {
	m.wakeups.Observe(m.now, e)
	m.starter.Observe(m.now, e, &m.wakesWanted)
}

// performWanted does what the cores for wake-ups and sends want. It repeats that until they want
// nothing more: a firing, a start or a send that the entity core refuses at once may make room
// for the next one.
func (m *ShardCore) performWanted() {
	for !m.wakesWanted.Empty() || !m.sendsWanted.Empty() {
		m.performWakeups()
		m.deliverSends()
	}
}

func (m *ShardCore) performWakeups() {
	for len(m.wakesWanted.Fires)+len(m.wakesWanted.Activates) > 0 {
		fires, activates := m.wakesWanted.Fires, m.wakesWanted.Activates
		m.wakesWanted.Fires, m.wakesWanted.Activates = nil, nil
		for _, f := range fires {
			m.stepTurn(f)
		}
		for _, a := range activates {
			m.stepTurn(a)
		}
	}
	for _, r := range m.wakesWanted.Reads {
		m.emit(ReadWakes{Read: r})
	}
	m.wakesWanted.Reads = nil
}
