package journal

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// A backend says of a batch that something which it needs is damaged, not of
// which operation. The journal finds out by halves: the operations that fail
// alone are refused, all others are committed. What was found damaged once is
// committed alone from then on, so that its neighbours do not wait again while
// the guilty one is looked for.

const (
	// maxSuspects bounds what is known as damaged; beyond it all is forgotten
	// and found again.
	maxSuspects = 4096
	// reportEvery is how long the same damage is not reported again.
	reportEvery = time.Minute
)

// Damaged is something that cannot be read or written because what is stored of
// it is damaged: an entity, or the fence of a shard. It is refused until it can
// be read again.
type Damaged struct {
	Shard  sharding.ShardID // the zero value if only the entity is known
	Entity sharding.Entity  // the zero value if it is the fence
	Err    error
}

// subject is what an operation is refused for.
type subject struct {
	shard  sharding.ShardID // of claims and reads of the fence
	entity sharding.Entity  // of appends and snapshots
}

func subjectOf(op *Op) subject {
	switch {
	case op.Claim != nil:
		return subject{shard: op.Claim.Shard}
	case op.Fence != nil:
		return subject{shard: op.Fence.Shard}
	case op.Append != nil:
		return subject{entity: op.Append.Entity}
	case op.Snapshot != nil:
		return subject{entity: op.Snapshot.Entity}
	}
	return subject{}
}

// damage is what is known as damaged.
type damage struct {
	mu       sync.Mutex
	reported map[subject]time.Time
	suspects map[subject]struct{}
}

// suspect reports whether the subject was found damaged by a commit.
func (d *damage) suspect(s subject) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.suspects[s]
	return ok
}

func (d *damage) none() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.suspects) == 0
}

func (d *damage) blame(s subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.suspects == nil || len(d.suspects) == maxSuspects {
		d.suspects = map[subject]struct{}{}
	}
	d.suspects[s] = struct{}{}
}

// acquit is called when something of the subject was committed.
func (d *damage) acquit(s subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.suspects, s)
}

// due reports whether the damage is to be reported at a time.
func (d *damage) due(s subject, now time.Time) bool {
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

// reportDamage tells the observer of damage, not too often.
func (j *Journal) reportDamage(s subject, shard sharding.ShardID, err error) {
	if j.obs.Damage != nil && j.damage.due(s, time.Now()) {
		j.obs.Damage(Damaged{Shard: shard, Entity: s.entity, Err: err})
	}
}

// commit brings ops to an end: those that are known as damaged alone, all others
// together.
func (j *Journal) commit(ops []Op) []Result {
	until := time.Now().Add(j.cfg.RetryFor)
	if j.damage.none() {
		return j.commitUntil(until, ops)
	}
	var sound, alone []int
	for i := range ops {
		if j.damage.suspect(subjectOf(&ops[i])) {
			alone = append(alone, i)
		} else {
			sound = append(sound, i)
		}
	}
	results := make([]Result, len(ops))
	together := make([]Op, len(sound))
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
			j.damage.acquit(subjectOf(&ops[i]))
		}
	}
	return results
}

// blame ends a batch that met damage: the operations that do so alone are
// refused. That takes at most two commits for each of them and each halving of
// the batch. When the time is over, parts of the batch that meet damage are not
// halved any more: they are refused as full, and may be tried again.
func (j *Journal) blame(until time.Time, ops []Op, err error) []Result {
	if len(ops) == 1 {
		s := subjectOf(&ops[0])
		j.damage.blame(s)
		j.reportDamage(s, ops[0].shard(), err)
		return all(ops, sharding.RefusedDamaged, err)
	}
	if time.Now().After(until) {
		return all(ops, sharding.RefusedFull, fmt.Errorf("the search for what is damaged takes too long: %w", err))
	}
	half := len(ops) / 2
	return append(j.commitUntil(until, ops[:half]), j.commitUntil(until, ops[half:])...)
}

// damagedLoad takes notice of a load that met damage.
func (j *Journal) damagedLoad(entity sharding.Entity, err error) {
	if errors.Is(err, ErrCorrupt) {
		j.reportDamage(subject{entity: entity}, sharding.ShardID{}, err)
	}
}
