package commit

import (
	"context"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Report describes the present state of a journal for operators, as one process sees it.
type Report struct {
	Queued int // operations that wait for a commit
	// OldestSince is the time at which the first of them was submitted, and CommittingSince the
	// time at which the commit in progress began; zero: there is none.
	OldestSince, CommittingSince time.Time
	// Slowest is the longest that a commit of the last seconds has taken, and EndedAt when the last one
	// has ended, whatever its outcome; zero: none has.
	Slowest time.Duration
	EndedAt time.Time
	Warning error // see [Journal.Warning]
	Failure error // see [Journal.Failure], for the database of the shard
	// Fence is the fence of the shard, if FenceRead. FenceErr is set if the fence is damaged.
	FenceRead bool
	Fence     sharding.Fence
	FenceErr  error
}

// paceWindow is the time that a slow commit is remembered at least. It is remembered for at most
// twice as long.
const paceWindow = 5 * time.Second

// pace measures the commits of a pipeline. It belongs to Journal.mu.
type pace struct {
	since   time.Time        // when the present window began
	slowest [2]time.Duration // of the present window, and of the one before
	began   time.Time        // of the commit in progress; zero: there is none
	ended   time.Time        // of the last commit
	reading bool             // a report reads a fence
}

func (p *pace) roll(now time.Time) {
	switch age := now.Sub(p.since); {
	case age >= 2*paceWindow:
		p.since, p.slowest = now, [2]time.Duration{}
	case age >= paceWindow:
		p.since, p.slowest = now, [2]time.Duration{0, p.slowest[0]}
	}
}

func (j *Journal) beginCommit(pl *pipeline, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	pl.pace.began = now
}

func (j *Journal) endCommit(pl *pipeline, began, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	pl.pace.roll(now)
	pl.pace.began, pl.pace.ended = time.Time{}, now
	pl.pace.slowest[0] = max(pl.pace.slowest[0], now.Sub(began))
}

// Report returns what waits for the database of a shard, and the fence of the shard if it can be read before the context
// ends. It reads one fence at a time: while the store does not answer, no questions gather.
func (j *Journal) Report(ctx context.Context, shard sharding.ShardID) Report {
	r := Report{Warning: j.Warning()}
	if fence, ok := j.fenceOf(ctx, shard); ok {
		r.Fence, r.FenceRead = fence.Fence, fence.Verdict == sharding.Durable || fence.Verdict == sharding.RefusedEpoch
		if fence.Verdict == sharding.RefusedDamaged {
			r.FenceErr = fence.Err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	pl := j.pipeline(shard.Type)
	r.Failure = j.failure(time.Now().Add(-failureLapses), pl)
	pl.pace.roll(time.Now())
	r.Queued, r.CommittingSince, r.EndedAt = len(pl.queue), pl.pace.began, pl.pace.ended
	r.Slowest = max(pl.pace.slowest[0], pl.pace.slowest[1])
	if len(pl.queue) > 0 {
		r.OldestSince = pl.queue[0].submitted
	}
	return r
}

// fenceOf reads the fence of a shard.
func (j *Journal) fenceOf(ctx context.Context, shard sharding.ShardID) (r journal.Result, ok bool) {
	pl := j.pipeline(shard.Type)
	j.mu.Lock()
	busy := pl.pace.reading
	pl.pace.reading = true
	j.mu.Unlock()
	if busy {
		return r, false
	}
	got := make(chan journal.Result, 1)
	j.Submit(journal.Op{Fence: &sharding.ReadFence{Shard: shard}}, func(r journal.Result) {
		j.mu.Lock()
		pl.pace.reading = false
		j.mu.Unlock()
		got <- r
	})
	select {
	case r = <-got:
		return r, true
	case <-ctx.Done():
		return r, false
	}
}
