package region

import (
	"time"

	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// In addition to the entity core, a shard core drives two cores for wake-ups: the keeper of wake-ups, which
// fires reminders, and the starter, which starts remembered entities.

// Wakeups returns the counts of the keeper of wake-ups.
func (m *ShardCore) Wakeups() wakeup.Stats { return m.wakeups.Stats() }

// Starts returns the counts of the starter.
func (m *ShardCore) Starts() wakeup.StartStats { return m.starter.Stats() }

// openWakeups lets the wake-ups of a claimed shard fire, and starts its remembered entities.
func (m *ShardCore) openWakeups(h *heldShard) {
	t, in := m.typ(h.id.Type), wakeup.Open{Shard: h.id, Epoch: h.epoch}
	if !t.volatile {
		m.wakeups.Step(m.now, in, &m.wakeOutputs)
	}
	if t.remember {
		m.starter.Step(m.now, in, &m.wakeOutputs)
	}
}

func (m *ShardCore) stepWakeups(in wakeup.Input) {
	m.wakeups.Step(m.now, in, &m.wakeOutputs)
	m.starter.Step(m.now, in, &m.wakeOutputs)
}

// StoreClock returns the latest time that the clock of the journal's store may show at a time of this process, see
// [wakeup.Keeper.Clock]; false if the clock is not known.
func (m *ShardCore) StoreClock() (store, at time.Time, known bool) { return m.wakeups.Clock() }

func (m *ShardCore) wakesRead(p wakeup.Page) {
	if p.Remembered {
		m.starter.Step(m.now, p, &m.wakeOutputs)
	} else {
		m.wakeups.Step(m.now, p, &m.wakeOutputs)
	}
}

func (m *ShardCore) tellWakeups(e turn.ShardEvent) {
	m.wakeups.Observe(m.now, e)
	m.starter.Observe(m.now, e, &m.wakeOutputs)
}

// performOutputs performs the outputs of the cores for wake-ups and sends. It repeats that until they have
// nothing more: a firing, a start or a send that the entity core refuses at once may make room
// for the next one.
func (m *ShardCore) performOutputs() {
	for !m.wakeOutputs.Empty() || !m.sendOutputs.Empty() {
		m.performWakeups()
		m.deliverSends()
	}
}

func (m *ShardCore) performWakeups() {
	for len(m.wakeOutputs.Fires)+len(m.wakeOutputs.Starts) > 0 {
		fires, starts := m.wakeOutputs.Fires, m.wakeOutputs.Starts
		m.wakeOutputs.Fires, m.wakeOutputs.Starts = nil, nil
		for _, f := range fires {
			m.stepTurn(f)
		}
		for _, a := range starts {
			m.stepTurn(a)
		}
	}
	for _, r := range m.wakeOutputs.Reads {
		m.emit(ReadWakes{Read: r})
	}
	m.wakeOutputs.Reads = nil
}
