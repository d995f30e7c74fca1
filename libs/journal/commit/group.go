package commit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// run commits one batch of a pipeline after the other until the journal is closed and the queue
// is empty.
func (j *Journal) run(pl *pipeline) {
	locker, locks := j.backend.(journal.WriteLocker)
	for j.await(pl) {
		began := time.Now()
		j.beginCommit(pl, began)
		pl.writeToken <- struct{}{}
		var waited error
		if locks {
			waited = j.lockWrites(locker)
		}
		batch := j.next(pl)
		ops := make([]journal.Op, len(batch))
		for i := range batch {
			ops[i] = batch[i].op
		}
		started := time.Now()
		var results []journal.Result
		if waited == nil {
			results = j.commit(ops)
		} else {
			results = sameResult(ops, sharding.RefusedFull, waited)
			j.observeBatch(ops, began, waited)
		}
		if locks {
			locker.UnlockWrites()
		}
		<-pl.writeToken
		j.endCommit(pl, began, time.Now())
		for i := range batch {
			j.finish(&batch[i], started, results[i])
		}
	}
}

// lockWrites waits for the other handles, for as long as one attempt to commit may take.
func (j *Journal) lockWrites(locker journal.WriteLocker) error {
	ctx, cancel := context.WithTimeout(context.Background(), j.cfg.CommitTimeout)
	defer cancel()
	if err := locker.LockWrites(ctx); err != nil {
		return fmt.Errorf("%w: waiting for other writers: %w", journal.ErrNotCommitted, err)
	}
	return nil
}

// await waits for operations. It reports false when the journal is closed and none is left.
func (j *Journal) await(pl *pipeline) bool {
	for {
		j.mu.Lock()
		some, closed := len(pl.queue) > 0, j.closed
		j.mu.Unlock()
		if some || closed {
			return some
		}
		<-pl.wake
	}
}

// next takes as many operations as one batch may hold.
func (j *Journal) next(pl *pipeline) []pending {
	j.mu.Lock()
	defer j.mu.Unlock()
	return pl.take(&j.cfg)
}

func (pl *pipeline) take(cfg *journal.Config) []pending {
	n, bytes := 0, 0
	for n < len(pl.queue) && n < cfg.BatchOps {
		if n > 0 && bytes+pl.queue[n].size > cfg.BatchBytes {
			break
		}
		bytes += pl.queue[n].size
		n++
	}
	batch := pl.queue[:n:n]
	pl.queue, pl.bytes = pl.queue[n:], pl.bytes-bytes
	if len(pl.queue) == 0 {
		pl.queue = nil
	}
	return batch
}

// commitUntil commits ops as one batch. It retries until the given time if nothing
// was committed, and turns every other error into results.
func (j *Journal) commitUntil(until time.Time, ops []journal.Op) []journal.Result {
	if err := j.Err(); err != nil {
		return sameResult(ops, sharding.RefusedFull, err)
	}
	for delay := j.cfg.RetryDelay; ; delay = j.nextDelay(delay) {
		results, err := j.attempt(ops)
		j.noteRoom(ops, results, err)
		switch {
		case err == nil:
			return results
		case errors.Is(err, journal.ErrBroken):
			j.markBroken(err)
			return sameResult(ops, sharding.UnknownOutcome, err)
		case errors.Is(err, journal.ErrFull):
			return j.refuseWrites(until, ops, err)
		case errors.Is(err, journal.ErrCorrupt):
			return j.isolateDamage(until, ops, err)
		case !errors.Is(err, journal.ErrNotCommitted):
			return sameResult(ops, sharding.UnknownOutcome, err)
		case time.Now().After(until):
			if errors.Is(err, journal.ErrContended) { // for so long, it is more than that
				j.note(j.pipeline(ops[0].Type()), Commits, fmt.Errorf("%w: %s", journal.ErrNotCommitted, err.Error()))
			}
			return sameResult(ops, sharding.RefusedFull, err)
		}
		time.Sleep(delay)
	}
}

func (j *Journal) attempt(ops []journal.Op) ([]journal.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), j.cfg.CommitTimeout)
	defer cancel()
	start := time.Now()
	results, err := j.backend.Commit(ctx, ops)
	if err == nil && len(results) != len(ops) {
		err = fmt.Errorf("the backend gave %d results for %d operations", len(results), len(ops))
	}
	j.observeBatch(ops, start, err)
	j.note(j.pipeline(ops[0].Type()), Commits, err)
	return results, err
}

func (j *Journal) observeBatch(ops []journal.Op, start time.Time, err error) {
	if j.obs.Batch == nil {
		return
	}
	s := BatchStats{Ops: len(ops), Took: time.Since(start), Err: err}
	for i := range ops {
		s.Bytes += ops[i].Size()
	}
	j.obs.Batch(s)
}

// refuseWrites refuses the operations that write, and commits the fence reads: a
// full disk must not stop reads.
func (j *Journal) refuseWrites(until time.Time, ops []journal.Op, full error) []journal.Result {
	results := sameResult(ops, sharding.RefusedFull, full)
	var reads []journal.Op
	for i := range ops {
		if ops[i].Fence != nil {
			reads = append(reads, ops[i])
		}
	}
	if len(reads) == 0 || len(reads) == len(ops) {
		return results
	}
	answers := j.commitUntil(until, reads)
	for i := range ops {
		if ops[i].Fence != nil {
			results[i], answers = answers[0], answers[1:]
		}
	}
	return results
}

func (j *Journal) nextDelay(delay time.Duration) time.Duration {
	return min(2*delay, 64*j.cfg.RetryDelay)
}

func sameResult(ops []journal.Op, v sharding.Verdict, err error) []journal.Result {
	results := make([]journal.Result, len(ops))
	for i := range results {
		results[i] = journal.Result{Verdict: v, Err: err}
	}
	return results
}
