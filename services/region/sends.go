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
	// SendDied tells of a send that has become a dead letter.
	SendDied struct{ Letter outbox.DeadLetter }
)

func (ReadSends) shardOutput() {}
func (SendsRead) shardInput()  {}
func (Route) shardOutput()     {}
func (Routed) shardInput()     {}
func (StoreEnds) shardOutput() {}
func (EndsStored) shardInput() {}
func (SendDied) shardOutput()  {}

// sendInput hands an input to the dispatcher of sends, if it is one about sends.
func (m *ShardCore) sendInput(in ShardInput) {
	switch in := in.(type) {
	case SendsRead:
		m.sends.Step(m.now, in.Page, &m.sent)
	case Routed:
		m.sends.Step(m.now, in.Answer, &m.sent)
	case EndsStored:
		m.noteJournalVerdict(Commits, in.Acked.Verdict)
		m.sends.Step(m.now, in.Acked, &m.sent)
	}
}

// told tells what stands beside the entity core of an event of it.
func (m *ShardCore) told(e turn.ShardEvent) {
	m.tellWakeups(e)
	m.sends.Told(m.now, e, &m.sent)
}

// deliverSends does what the dispatcher of sends wants. What the entity core refuses at once
// may make room for more.
func (m *ShardCore) deliverSends() {
	for len(m.sent.Turn) > 0 {
		inputs := m.sent.Turn
		m.sent.Turn = nil
		for _, in := range inputs {
			m.step(in)
		}
	}
	for _, r := range m.sent.Reads {
		m.emit(ReadSends{Read: r})
	}
	for _, d := range m.sent.Delivers {
		m.emit(Route{Deliver: d})
	}
	for _, a := range m.sent.Acks {
		m.emit(StoreEnds{Ack: a})
	}
	for _, l := range m.sent.Dead {
		m.emit(SendDied{Letter: l})
	}
	m.sent = outbox.Outputs{}
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
