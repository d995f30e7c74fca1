package passivation

import "time"

// Policy decides which entities of one type are passivated in one region. Each open
// shard chooses among its own entities, and has an equal part of the limit. Policy is not
// safe for concurrent use.
type Policy struct {
	entities *EntityTable // also used by the policies of other types
	strategy Strategy
	limit    int // for all shards together
	perShard int // the part of the limit that each open shard has
	// shards holds the replacer of each open shard, by index. It has nil for a closed shard, and
	// for all shards if there is no limit.
	shards     []replacer
	open       []bool // by index of the shard
	openShards int
	tracked    int  // number of tracked entities
	maxTracked int  // maximum set by Shrink; 0: only the limit counts
	idle       list // idle entities, those that became idle first at the front
	// base is the time when the first entity became idle. Other times are stored as
	// durations since base: they take less memory, and come from the monotonic clock.
	base time.Time
}

// replacer chooses the victims of one shard, or of one area of a composite. Evicted
// entities are appended to the slice that is passed in; the replacer no longer holds them.
type replacer interface {
	// touch notes that an entity was used, and adds it if it is new. It may evict this very
	// entity.
	touch(e Entity, evicted []Entity) []Entity
	// remove removes an entity that it holds.
	remove(e Entity)
	setLimit(n int, evicted []Entity) []Entity
	// victim returns the entity that would be evicted next; 0 if there is none.
	victim() Entity
	len() int
	clone(*EntityTable) replacer
}

// New returns the policy of an entity type with a number of shards. The strategy must be
// valid. No shard is open at first.
func New(s Strategy, shards int, entities *EntityTable) *Policy {
	return &Policy{entities: entities, strategy: s, limit: s.Limit, shards: make([]replacer, shards), open: make([]bool, shards)}
}

// newReplacer returns the replacer of a replacement; nil if that has no order.
func newReplacer(entities *EntityTable, r Replacement) replacer {
	switch r.Order {
	case LeastRecentlyUsed:
		return newRecency(entities, r.Proportions)
	case MostRecentlyUsed:
		return &mostRecent{entities: entities}
	case LeastFrequentlyUsed:
		return newFrequency(entities, r.DynamicAging)
	}
	return nil
}

// Open adds a shard. The part of the limit that each other open shard has shrinks; entities beyond
// it are appended to passivate.
func (p *Policy) Open(shard int, passivate []Entity) []Entity {
	if p.open[shard] {
		return passivate
	}
	p.open[shard] = true
	p.openShards++
	passivate = p.divide(passivate)
	if p.limit == 0 {
		return passivate
	}
	if p.strategy.Admission != nil {
		p.shards[shard] = newComposite(p.entities, p.strategy)
	} else {
		p.shards[shard] = newReplacer(p.entities, p.strategy.Main)
	}
	p.shards[shard].setLimit(p.perShard, nil)
	return passivate
}

// Close closes a shard, after all of its entities were removed. The parts of the others grow.
func (p *Policy) Close(shard int) {
	if !p.open[shard] {
		return
	}
	p.open[shard], p.shards[shard] = false, nil
	p.openShards--
	p.divide(nil) // a part that grows passivates nothing
}

// SetLimit changes the limit for all shards together. It must be valid for the strategy,
// and above 0. It has no effect on a strategy without a limit.
func (p *Policy) SetLimit(n int, passivate []Entity) []Entity {
	if p.strategy.Limit == 0 || p.strategy.Limit == n {
		return passivate
	}
	p.strategy.Limit = n
	return p.apply(passivate)
}

// Change takes the idle time and the limit from another strategy, which must be valid. It reports
// false, and changes nothing, if the strategies differ in more than these numbers: then the
// entities must be added to a new policy.
func (p *Policy) Change(s Strategy, passivate []Entity) (_ []Entity, ok bool) {
	like := s
	like.Idle, like.Limit = p.strategy.Idle, p.strategy.Limit
	if like.String() != p.strategy.String() || (s.Limit == 0) != (p.strategy.Limit == 0) || p.tracksNothing() || s.Idle == 0 && s.Limit == 0 {
		return passivate, false
	}
	p.strategy.Idle = s.Idle
	return p.SetLimit(s.Limit, passivate), true
}

// tracksNothing reports whether no entity is ever passivated.
func (p *Policy) tracksNothing() bool { return p.strategy.Idle == 0 && p.strategy.Limit == 0 }

// Shrink limits the number of active entities to n, in addition to the limit of the strategy,
// until it is called again. 0 ends this limit. Shrink first lowers the part of each shard. If more
// than n entities are left, because each shard may have one or because the strategy has no limit,
// it also passivates those that have been idle for the longest time. Shrink has no effect on [None].
func (p *Policy) Shrink(n int, passivate []Entity) []Entity {
	p.maxTracked = n
	return p.shed(p.apply(passivate))
}

// Shrunk returns the limit set by Shrink; 0: there is none.
func (p *Policy) Shrunk() int { return p.maxTracked }

// apply divides the lower of the two limits, the strategy's and Shrink's, among the shards.
func (p *Policy) apply(passivate []Entity) []Entity {
	n := p.strategy.Limit
	if n > 0 && p.maxTracked > 0 {
		n = min(n, p.maxTracked)
	}
	if n == p.limit {
		return passivate
	}
	p.limit = n
	return p.divide(passivate)
}

// shed passivates idle entities beyond the limit set by Shrink. Busy ones are passivated later,
// when they become idle.
func (p *Policy) shed(passivate []Entity) []Entity {
	for p.maxTracked > 0 && p.tracked > p.maxTracked && p.idle.front != 0 {
		e := Entity(p.idle.front)
		p.Removed(e)
		passivate = append(passivate, e)
	}
	return passivate
}

// Len returns the number of tracked entities.
func (p *Policy) Len() int { return p.tracked }

// Strategy returns the strategy with its current limit, which Shrink does not change.
func (p *Policy) Strategy() Strategy { return p.strategy }

// divide divides the limit equally among the open shards. If there are more shards than the
// limit, each may have one entity.
func (p *Policy) divide(passivate []Entity) []Entity {
	if p.limit == 0 {
		return passivate
	}
	p.perShard = max(1, p.limit/max(1, p.openShards))
	first := len(passivate)
	for _, r := range p.shards {
		if r != nil {
			passivate = r.setLimit(p.perShard, passivate)
		}
	}
	p.evicted(passivate[first:])
	return passivate
}

// Touched records that an open shard has a command for an entity, which is active or becomes
// active. The entity is not idle until [Policy.MarkIdle]. hash is a hash of the entity's id. An
// admission filter counts touches by this hash, also while the entity is passivated.
//
// The entities to passivate are appended to passivate. If the touched entity is one of them,
// the caller passivates it after the command. An appended entity is no longer tracked until it
// is touched again.
func (p *Policy) Touched(shard int, e Entity, hash uint32, passivate []Entity) []Entity {
	if p.tracksNothing() {
		return passivate
	}
	p.entities.grow(e)
	t := &p.entities.tracked[e]
	if t.idle {
		p.endIdle(e)
	}
	if t.shard == 0 {
		p.tracked++
		t.shard, t.hash = uint32(shard)+1, hash
	}
	if p.limit > 0 {
		first := len(passivate)
		passivate = p.shards[shard].touch(e, passivate)
		p.evicted(passivate[first:])
	}
	if p.maxTracked > 0 {
		passivate = p.shed(passivate)
	}
	return passivate
}

// MarkIdle records that a tracked entity has become idle: its idle time begins. The entities to
// passivate are appended to passivate. This entity can be one of them.
func (p *Policy) MarkIdle(e Entity, now time.Time, passivate []Entity) []Entity {
	if !p.Tracks(e) {
		return passivate
	}
	if p.base.IsZero() {
		p.base = now
	}
	p.endIdle(e)
	p.entities.tracked[e].idle = true
	p.entities.pushIdle(&p.idle, uint32(e), int64(now.Sub(p.base)))
	if p.maxTracked > 0 {
		passivate = p.shed(passivate)
	}
	return passivate
}

// IdleSince returns the time when an entity became idle, and false if it is not idle.
func (p *Policy) IdleSince(e Entity) (time.Time, bool) {
	if !p.Tracks(e) || !p.entities.tracked[e].idle {
		return time.Time{}, false
	}
	return p.base.Add(time.Duration(p.entities.idle[e].since)), true
}

func (p *Policy) endIdle(e Entity) {
	if t := &p.entities.tracked[e]; t.idle {
		t.idle = false
		p.entities.removeIdle(&p.idle, uint32(e))
	}
}

// Tracks reports whether the policy may passivate the entity.
func (p *Policy) Tracks(e Entity) bool {
	return int(e) < len(p.entities.tracked) && p.entities.tracked[e].shard != 0
}

// evicted stops tracking entities that are no longer in a replacer.
func (p *Policy) evicted(entities []Entity) {
	for _, e := range entities {
		p.endIdle(e)
		p.entities.tracked[e] = tracked{}
	}
	p.tracked -= len(entities)
}

// Removed stops tracking an entity, because it has ended or must not be passivated. Removed does
// nothing if the entity is not tracked.
func (p *Policy) Removed(e Entity) {
	if !p.Tracks(e) {
		return
	}
	if r := p.shards[p.entities.tracked[e].shard-1]; r != nil {
		r.remove(e)
	}
	p.evicted([]Entity{e})
}

// TakeExpired stops tracking the entities whose idle time is over, and appends them to passivate.
func (p *Policy) TakeExpired(now time.Time, passivate []Entity) []Entity {
	for p.strategy.Idle > 0 && p.idle.front != 0 {
		e := Entity(p.idle.front)
		if now.Before(p.expiresAt(e)) {
			break
		}
		p.Removed(e)
		passivate = append(passivate, e)
	}
	return passivate
}

// NextExpiry returns the time when the next idle time is over, if no entity is touched before.
// The zero time means never.
func (p *Policy) NextExpiry() time.Time {
	if p.strategy.Idle == 0 || p.idle.front == 0 {
		return time.Time{}
	}
	return p.expiresAt(Entity(p.idle.front))
}

// expiresAt returns the end of an idle entity's idle time.
func (p *Policy) expiresAt(e Entity) time.Time {
	return p.base.Add(time.Duration(p.entities.idle[e].since) + p.strategy.Idle)
}
