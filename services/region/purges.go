package region

import (
	"github.com/roost-cluster/roost/libs/purge"
)

// purgesOfCore is the part of Purge that a shard core has.
func (c *Config) purgesOfCore(index int) purge.Config {
	p := c.Purge
	p.Rate = max(1, p.Rate/c.ShardCores)
	p.UnderWay = max(1, p.UnderWay/c.ShardCores)
	p.Seed += uint64(index)
	return p
}

// Purges returns the counts of the purger.
func (m *ShardCore) Purges() purge.Stats { return m.purger.Stats() }

// stepPurger steps the purger, which removes what is left of deleted entities.
func (m *ShardCore) stepPurger(in purge.Input) {
	m.purger.Step(m.now, in, &m.purgesWanted)
	for _, r := range m.purgesWanted.Reads {
		m.emit(ReadDeleted{Read: r})
	}
	for _, p := range m.purgesWanted.Purges {
		m.emit(Purge{Purge: p})
	}
	m.purgesWanted.Reads, m.purgesWanted.Purges = m.purgesWanted.Reads[:0], m.purgesWanted.Purges[:0]
}
