package region

import (
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/turn"
)

// What entities send is delivered by an [outbox.Dispatcher] beside the entity core, and leaves
// the shard core as a [Route], wherever the target is.

// Inputs and outputs of a shard core about sends.
type (
	// ReadSends reads records with pending sends. Answered by SendsRead.
	ReadSends struct{ Read outbox.Read }
	// SendsRead answers ReadSends.
	SendsRead struct{ Page outbox.Page }
	// Route brings a send to its target. Answered by Routed.
	Route struct{ Deliver outbox.Deliver }
	// Routed answers Route.
	Routed struct{ Answer outbox.Answered }
	// StoreEnds stores how sends have ended. Answered by EndsStored.
	StoreEnds struct{ Ack outbox.Ack }
	// EndsStored answers StoreEnds.
	EndsStored struct{ Acked outbox.Acked }
	// SendDied reports that a send has become a dead letter.
	SendDied struct{ Letter outbox.DeadLetter }
)

func (ReadSends) shardOutput() {}
func (SendsRead) shardInput()  {}
func (Route) shardOutput()     {}
func (Routed) shardInput()     {}
func (StoreEnds) shardOutput() {}
func (EndsStored) shardInput() {}
func (SendDied) shardOutput()  {}

// stepSends steps the dispatcher of sends, if the input is for it.
func (m *ShardCore) stepSends(in ShardInput) {
	switch in := in.(type) {
	case SendsRead:
		m.sends.Step(m.now, in.Page, &m.sendOutputs)
	case Routed:
		m.sends.Step(m.now, in.Answer, &m.sendOutputs)
	case EndsStored:
		m.noteJournalVerdict(Commits, in.Acked.Verdict)
		m.sends.Step(m.now, in.Acked, &m.sendOutputs)
	}
}

// observe passes an event of the entity core on to the cores beside it: those for wake-ups and
// sends.
func (m *ShardCore) observe(e turn.ShardEvent) {
	m.tellWakeups(e)
	m.sends.Observe(m.now, e, &m.sendOutputs)
}

// deliverSends performs the outputs of the dispatcher of sends. The outputs for the entity core are
// performed again and again until there are none: if the entity core refuses a command at once, the
// dispatcher may have another command for it.
func (m *ShardCore) deliverSends() {
	for len(m.sendOutputs.Turn) > 0 {
		inputs := m.sendOutputs.Turn
		m.sendOutputs.Turn = nil
		for _, in := range inputs {
			m.stepTurn(in)
		}
	}
	for _, r := range m.sendOutputs.Reads {
		m.emit(ReadSends{Read: r})
	}
	for _, d := range m.sendOutputs.Delivers {
		m.emit(Route{Deliver: d})
	}
	for _, a := range m.sendOutputs.Acks {
		m.emit(StoreEnds{Ack: a})
	}
	for _, l := range m.sendOutputs.Dead {
		m.emit(SendDied{Letter: l})
	}
	m.sendOutputs = outbox.Outputs{}
}

// Sends returns the counts of the dispatcher of sends.
func (m *ShardCore) Sends() outbox.Stats { return m.sends.Stats() }

// sendsOfCore is the part of Sends that a shard core has.
func (c *Config) sendsOfCore(index int) outbox.Config {
	s := c.Sends
	s.Sends = max(outbox.LeastSends, s.Sends/c.ShardCores)
	s.Bytes = max(outbox.LeastBytes, s.Bytes/c.ShardCores)
	s.Deliveries = max(1, s.Deliveries/c.ShardCores)
	s.DeadLetters = max(1, s.DeadLetters/c.ShardCores)
	s.Seed += uint64(index)
	return s
}
