package spread_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/journaltest"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/journal/spread/spreadtest"
	"github.com/roost-cluster/roost/libs/sharding"
)

func TestConformance(t *testing.T) {
	journaltest.Run(t, func(t *testing.T, cfg journal.Config, clock journal.Clock) journaltest.Harness {
		return spreadtest.Join(t, store(cfg, clock), store(cfg, clock))
	})
}

func store(cfg journal.Config, clock journal.Clock) journaltest.Harness {
	b := memory.New(cfg)
	b.SetClock(clock)
	return journaltest.Harness{
		Open:       func() (journal.Backend, error) { return b.NewHandle(), nil },
		OpenReader: func() (journal.Reader, error) { return b.NewHandle(), nil },
		Replace: func(to sharding.Generation) error {
			b.Inspect(func(l *memory.Ledger) { l.Replace(to) })
			return nil
		},
		SetLowest: func(reader, writer int) error {
			b.Inspect(func(l *memory.Ledger) { l.SetLowest(reader, writer) })
			return nil
		},
		Damage: func(entity sharding.Entity, seq uint64) error {
			b.Inspect(func(l *memory.Ledger) { l.Damage(entity, seq) })
			return nil
		},
	}
}
