package region

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// An [outbox.Dispatcher], which runs in addition to the entity core, delivers the sends of entities. Each of
// them leaves the shard core as a [Route], wherever the target is.

// Inputs and outputs of a shard core about sends.
type (
	// ReadSends reads records with pending sends. Answered by outbox.Page.
	ReadSends struct{ Read outbox.Read }
	// Route brings a send to its target. Answered by outbox.Answered.
	Route struct{ Deliver outbox.Deliver }
	// StoreEnds stores how sends have ended. Answered by outbox.Acked.
	StoreEnds struct{ Ack outbox.Ack }
	// Ready names shards that are served anew, and entities that are no longer quarantined, of all types. The
	// sends to them that fail are retried at once. It is an order: only the control core has the rows of types that
	// the region does not host.
	Ready struct {
		Served   []outbox.Served
		Released []outbox.Released
	}
	// SendDied reports that a send has become a dead letter.
	SendDied struct{ Letter outbox.DeadLetter }
)

func (ReadSends) shardOutput() {}
func (Route) shardOutput()     {}
func (StoreEnds) shardOutput() {}
func (SendDied) shardOutput()  {}
func (Ready) order()           {}

// newlyHosted returns the types of a delta that the table lacks, or has as unhosted, although they are hosted.
// Their shards may have no rows yet, because a shard gets its row with its first command.
func (c *ControlCore) newlyHosted(types []sharding.TypeDesc) (list []*sharding.TypeDesc) {
	for i := range types {
		if before, known := c.table.Type(types[i].Type); (!known || before.Unhosted) && !types[i].Unhosted {
			list = append(list, &types[i])
		}
	}
	return list
}

// hastenSends retries failing sends after a change of the table: those to types that are newly hosted, to
// shards with rows that are served now, and to entities that were released from quarantine.
func (c *ControlCore) hastenSends(hosted []*sharding.TypeDesc, rows []sharding.Row, released []outbox.Released) {
	var served []outbox.Served
	for _, t := range hosted {
		served = append(served, outbox.Served{Type: typeOfSends(t), All: true})
	}
	for _, row := range rows {
		if row.Phase != sharding.Serving {
			continue
		}
		i := slices.IndexFunc(served, func(s outbox.Served) bool { return s.Type.Type == row.Shard.Type })
		if i < 0 {
			t, known := c.table.Type(row.Shard.Type)
			if !known {
				continue
			}
			i, served = len(served), append(served, outbox.Served{Type: typeOfSends(t)})
		}
		if !served[i].All {
			served[i].Shards = append(served[i].Shards, row.Shard.Index)
		}
	}
	// Invariant: a send that failed is retried at once when the shard of its target is served anew, and when its target
	// is released from quarantine. A pair has at most one such early retry per second, and its pause is not reset.
	// Guarded by: `region.hastenSends`, `outbox.event`, `outbox.hasten`. `outbox.retry`: an attempt that began before
	// the event, or shortly after it, counts too.
	// Mutants: served-anew, released-sends, early-retry, early-limit, early-in-flight, early-slow
	//mutant:do served-anew served = nil
	//mutant:do released-sends released = nil
	if len(served)+len(released) > 0 {
		c.orderAll(Ready{Served: served, Released: released})
	}
}

func typeOfSends(t *sharding.TypeDesc) outbox.Type {
	return outbox.Type{Type: t.Type, Shards: t.Shards, Rule: t.Rule}
}

// stepSends steps the dispatcher of sends.
func (m *ShardCore) stepSends(in outbox.Input) { m.sends.Step(m.now, in, &m.sendOutputs) }

// ready retries the sends that fail to what is served anew, or is no longer quarantined.
func (m *ShardCore) ready(in Ready) {
	for _, s := range in.Served {
		m.stepSends(s)
	}
	for _, r := range in.Released {
		m.stepSends(r)
	}
}

// observe passes an event of the entity core on to the cores for wake-ups and for sends.
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

// RetrySends retries failing sends at once, as an operator wants it, see [outbox.Dispatcher.Retry]. It returns the
// number of pairs of a sender and a target. It is called like Step.
func (m *ShardCore) RetrySends(now time.Time, of, to sharding.Entity, out *Outputs) (pairs int) {
	m.begin(now, out)
	pairs = m.sends.Retry(now, of, to, &m.sendOutputs)
	m.end()
	return pairs
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
