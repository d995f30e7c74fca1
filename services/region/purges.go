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

// Purges returns the counts of what removes deleted entities.
func (m *ShardCore) Purges() purge.Stats { return m.purger.Stats() }

// stepPurger steps what removes deleted entities.
func (m *ShardCore) stepPurger(in purge.Input) {
	m.purger.Step(m.now, in, &m.purges)
	for _, r := range m.purges.Reads {
		m.emit(ReadDeleted{Read: r})
	}
	for _, p := range m.purges.Purges {
		m.emit(Purge{Purge: p})
	}
	m.purges.Reads, m.purges.Purges = m.purges.Reads[:0], m.purges.Purges[:0]
}
