//go:build linux

package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestTrimKeepsTheYoung: only entries that are old enough are dropped, when old
// and young entries are many more than must be kept.
func TestTrimKeepsTheYoung(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	_, url := newDatabase(t, server)
	cfg := journal.DefaultConfig()
	cfg.DedupeAge, cfg.DedupeCount = time.Hour, 2
	b := openAt(t, url, cfg)
	now := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	start := now
	b.SetClock(func() (time.Time, time.Duration) { return now, now.Sub(start) })
	mustCommit(t, b, claim(1))
	for seq := uint64(1); seq <= 20; seq++ {
		if seq == 11 {
			now = now.Add(time.Hour)
		}
		mustCommit(t, b, add(1, alice, seq))
	}
	now = now.Add(time.Minute)
	mustCommit(t, b, journal.Op{Snapshot: &journal.WriteSnapshot{Shard: shard, Epoch: 1, Entity: alice, Snapshot: journal.Snapshot{Seq: 20}}})
	req := journal.LoadRequest{Entity: alice}
	for seq := range 20 {
		req.Lookup = append(req.Lookup, sharding.CommandID(fmt.Sprint("c", seq+1)))
	}
	l, err := b.Load(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range req.Lookup {
		if _, stored := l.Stored[c]; stored != (i >= 10) {
			t.Errorf("%s: stored %v", c, stored)
		}
	}
}
