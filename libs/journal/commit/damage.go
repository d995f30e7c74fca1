package commit

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A backend reports that a batch depends on damaged data, but not which operation
// does. The journal finds out by bisection: operations that fail alone are refused,
// all others are committed. From then on, operations on the same subject are
// committed alone, so that the other operations of their batch are not delayed by
// another bisection.

const (
	// maxSuspects bounds the remembered subjects. When it is exceeded, all are
	// forgotten and found again.
	maxSuspects = 4096
	// reportEvery is the least time between two reports of the same damage.
	reportEvery = time.Minute
)

// subject is the target of an operation: the fence of a shard, or an entity.
type subject struct {
	shard  sharding.ShardID // of claims and reads of the fence
	entity sharding.Entity  // of appends and snapshots
}

func subjectOf(op *journal.Op) subject {
	switch {
	case op.Claim != nil:
		return subject{shard: op.Claim.Shard}
	case op.Fence != nil:
		return subject{shard: op.Fence.Shard}
	case op.Append != nil:
		return subject{entity: op.Append.Entity}
	case op.Snapshot != nil:
		return subject{entity: op.Snapshot.Entity}
	case op.Drop != nil:
		return subject{entity: op.Drop.Entity}
	case op.Purge != nil:
		return subject{entity: op.Purge.Entity}
	}
	return subject{}
}

// damage remembers which subjects are damaged.
type damage struct {
	mu       sync.Mutex
	reported map[subject]time.Time
	suspects map[subject]struct{}
}

// isSuspect reports whether a commit found the subject damaged.
func (d *damage) isSuspect(s subject) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.suspects[s]
	return ok
}

func (d *damage) noSuspects() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.suspects) == 0
}

func (d *damage) addSuspect(s subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.suspects == nil || len(d.suspects) == maxSuspects {
		d.suspects = map[subject]struct{}{}
	}
	d.suspects[s] = struct{}{}
}

// clearSuspect is called when an operation on the subject was committed.
func (d *damage) clearSuspect(s subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.suspects, s)
}

// shouldReport reports whether the damage is due to be reported at time now.
func (d *damage) shouldReport(s subject, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, ok := d.reported[s]; ok && now.Sub(last) < reportEvery {
		return false
	}
	if d.reported == nil || len(d.reported) == maxSuspects {
		d.reported = map[subject]time.Time{}
	}
	d.reported[s] = now
	return true
}

// reportDamage calls the observer, at most once per reportEvery and subject.
func (j *Journal) reportDamage(s subject, shard sharding.ShardID, err error) {
	if j.obs.Damage != nil && j.damage.shouldReport(s, time.Now()) {
		j.obs.Damage(journal.Damaged{Shard: shard, Entity: s.entity, Err: err})
	}
}

// commit commits ops: those on suspect subjects one by one, all others together.
func (j *Journal) commit(ops []journal.Op) []journal.Result {
	until := time.Now().Add(j.cfg.RetryFor)
	if j.damage.noSuspects() {
		return j.commitUntil(until, ops)
	}
	var sound, alone []int
	for i := range ops {
		if j.damage.isSuspect(subjectOf(&ops[i])) {
			alone = append(alone, i)
		} else {
			sound = append(sound, i)
		}
	}
	results := make([]journal.Result, len(ops))
	together := make([]journal.Op, len(sound))
	for n, i := range sound {
		together[n] = ops[i]
	}
	if len(together) > 0 {
		for n, r := range j.commitUntil(until, together) {
			results[sound[n]] = r
		}
	}
	for _, i := range alone {
		results[i] = j.commitUntil(until, ops[i:i+1])[0]
		if results[i].Verdict == sharding.Durable {
			j.damage.clearSuspect(subjectOf(&ops[i]))
		}
	}
	return results
}

// isolateDamage bisects a batch that met damage; the operations that meet it alone
// are refused. That takes at most two commits for each of them and each halving of
// the batch. Past the given time, parts of the batch that meet damage are no longer
// halved: they are refused as full, and may be tried again.
func (j *Journal) isolateDamage(until time.Time, ops []journal.Op, err error) []journal.Result {
	if len(ops) == 1 {
		s := subjectOf(&ops[0])
		j.damage.addSuspect(s)
		j.reportDamage(s, ops[0].Shard(), err)
		return sameResult(ops, sharding.RefusedDamaged, err)
	}
	if time.Now().After(until) {
		return sameResult(ops, sharding.RefusedFull, fmt.Errorf("the search for what is damaged takes too long: %w", err))
	}
	half := len(ops) / 2
	return append(j.commitUntil(until, ops[:half]), j.commitUntil(until, ops[half:])...)
}

// noteLoad reports the damage that a load met.
func (j *Journal) noteLoad(entity sharding.Entity, err error) {
	if errors.Is(err, journal.ErrCorrupt) {
		j.reportDamage(subject{entity: entity}, sharding.ShardID{}, err)
	}
}
