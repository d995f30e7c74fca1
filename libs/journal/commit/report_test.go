package commit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
)

// TestReport: a report has the number and age of waiting operations, and the slowness of commits; it does not wait for a
// store that does not answer, and does not let questions gather there.
func TestReport(t *testing.T) {
	inBubble(t, func(c *journal.Config) { c.BatchOps = 1 }, func(b *bench) {
		report := func() commit.Report {
			ctx, cancel := context.WithTimeout(b.Context(), 100*time.Millisecond)
			defer cancel()
			return b.j.Report(ctx, shard)
		}
		if r := b.j.Report(b.Context(), shard); !r.FenceRead || r.Fence.Epoch != 1 || r.Fence.Owner != 1 || r.Queued != 0 || !r.CommittingSince.IsZero() || r.EndedAt.IsZero() {
			b.Errorf("an idle journal: %+v", r)
		}
		b.add("a", 1, 1)
		b.add("b", 1, 1)
		synctest.Wait()
		began := time.Now()
		time.Sleep(300 * time.Millisecond)
		r := report()
		if r.FenceRead || r.Queued != 2 || !r.CommittingSince.Equal(began) || !r.OldestSince.Equal(began) || r.Slowest != time.Second {
			b.Errorf("a commit is in progress: %+v", r)
		}
		if r := report(); r.Queued != 2 {
			b.Errorf("questions gather: %+v", r)
		}
		b.want("a durable, b durable")
		if r := report(); r.Slowest != 0 || !r.FenceRead && r.Queued != 0 {
			b.Errorf("a minute later: %+v", r)
		}
		time.Sleep(4 * time.Second)
		if r := report(); r.Slowest < time.Second {
			b.Errorf("some seconds after the last commit: %+v", r)
		}
	})
}
