package region

import (
	"github.com/roost-cluster/roost/libs/purge"
)

// purgesOfCore returns the part of the limits Config.Purge that a shard core has.
func (c *Config) purgesOfCore(index int) purge.Config {
	p := c.Purge
	p.Rate = max(1, p.Rate/c.ShardCores)
	p.UnderWay = max(1, p.UnderWay/c.ShardCores)
	p.Seed += uint64(index)
	return p
}

// Purges returns the counts of the purger.
func (m *ShardCore) Purges() purge.Stats { return m.purger.Stats() }

// stepPurger steps the purger, which removes the remaining data of deleted entities.
func (m *ShardCore) stepPurger(in purge.Input) {
	m.purger.Step(m.now, in, &m.purgeOutputs)
	for _, r := range m.purgeOutputs.Reads {
		m.emit(ReadPurges{Read: r})
	}
	for _, p := range m.purgeOutputs.Purges {
		m.emit(Purge{Purge: p})
	}
	m.purgeOutputs.Reads, m.purgeOutputs.Purges = m.purgeOutputs.Reads[:0], m.purgeOutputs.Purges[:0]
}
