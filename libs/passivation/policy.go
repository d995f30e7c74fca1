package passivation

import "time"

// Policy decides which entities of one type are passivated in one region. Each active
// shard chooses among its own entities, and has an equal part of the limit. Policy is not
// safe for concurrent use.
type Policy struct {
	nodes    *Nodes
	strategy Strategy
	limit    int // of all shards together
	perShard int // the part of the limit that each active shard has
	// shards has the replacer of each active shard, by index. It has nil for a shard that is
	// not active, and for all shards if there is no limit.
	shards []replacer
	open   []bool // by index
	active int    // number of open shards
	held   int    // number of entities that are tracked
	most   int    // how many may be tracked, see Shrink; 0: only the limit counts
	rest   list   // the entities that rest, longest first
	// base is the time when an entity began to rest for the first time. Other times are stored as
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
	clone(*Nodes) replacer
}

// New returns the policy of an entity type with a number of shards. The strategy must be
// valid. No shard is active at first.
func New(s Strategy, shards int, nodes *Nodes) *Policy {
	return &Policy{nodes: nodes, strategy: s, limit: s.Limit, shards: make([]replacer, shards), open: make([]bool, shards)}
}

// newReplacer returns the replacer of a replacement; nil if that has no order.
func newReplacer(nodes *Nodes, r Replacement) replacer {
	switch r.Order {
	case LeastRecentlyUsed:
		return newRecency(nodes, r.Proportions)
	case MostRecentlyUsed:
		return &mostRecent{nodes: nodes}
	case LeastFrequentlyUsed:
		return newFrequency(nodes, r.DynamicAging)
	}
	return nil
}

// Open makes a shard active. Every other shard's part of the limit shrinks; the entities that no
// longer find room are appended to passivate.
func (p *Policy) Open(shard int, passivate []Entity) []Entity {
	if p.open[shard] {
		return passivate
	}
	p.open[shard] = true
	p.active++
	passivate = p.divide(passivate)
	if p.limit == 0 {
		return passivate
	}
	if p.strategy.Admission != nil {
		p.shards[shard] = newComposite(p.nodes, p.strategy)
	} else {
		p.shards[shard] = newReplacer(p.nodes, p.strategy.Main)
	}
	p.shards[shard].setLimit(p.perShard, nil)
	return passivate
}

// Close ends a shard, after all of its entities were removed. The parts of the others grow.
func (p *Policy) Close(shard int) {
	if !p.open[shard] {
		return
	}
	p.open[shard], p.shards[shard] = false, nil
	p.active--
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

// Shrink lets at most n entities be active until it is called again; 0: only the limit of the
// strategy counts. It lowers the parts of the shards. That may leave more than n entities,
// because each shard may have one, or because the strategy has no limit. Then the entities that
// have rested for longest are passivated. Shrink has no effect on [None].
func (p *Policy) Shrink(n int, passivate []Entity) []Entity {
	p.most = n
	return p.shed(p.apply(passivate))
}

// Shrunk returns what Shrink allows; 0: the limit of the strategy.
func (p *Policy) Shrunk() int { return p.most }

// apply divides the limit or the number of Shrink, whichever is lower.
func (p *Policy) apply(passivate []Entity) []Entity {
	n := p.strategy.Limit
	if n > 0 && p.most > 0 {
		n = min(n, p.most)
	}
	if n == p.limit {
		return passivate
	}
	p.limit = n
	return p.divide(passivate)
}

// shed passivates resting entities that are beyond the number of Shrink. Others are passivated
// later, when they rest.
func (p *Policy) shed(passivate []Entity) []Entity {
	for p.most > 0 && p.held > p.most && p.rest.front != 0 {
		e := Entity(p.rest.front)
		p.Removed(e)
		passivate = append(passivate, e)
	}
	return passivate
}

// Len returns how many entities are tracked.
func (p *Policy) Len() int { return p.held }

// Strategy returns the strategy with its present limit, which Shrink does not change.
func (p *Policy) Strategy() Strategy { return p.strategy }

// divide divides the limit equally among the active shards. If there are more shards than the
// limit, each may have one entity.
func (p *Policy) divide(passivate []Entity) []Entity {
	if p.limit == 0 {
		return passivate
	}
	p.perShard = max(1, p.limit/max(1, p.active))
	first := len(passivate)
	for _, r := range p.shards {
		if r != nil {
			passivate = r.setLimit(p.perShard, passivate)
		}
	}
	p.evicted(passivate[first:])
	return passivate
}

// Touched notes that an active shard has a command for an entity. The entity is active, or is about
// to be. It is not idle until [Policy.Rests]. hash is a hash of the entity's id; it counts touches
// also while the entity is passivated.
//
// The entities to passivate are appended to passivate. The touched entity can be one of them:
// then it is to be passivated after the command. An entity that was appended is not tracked any
// more, until it is touched again.
func (p *Policy) Touched(shard int, e Entity, hash uint32, passivate []Entity) []Entity {
	if p.tracksNothing() {
		return passivate
	}
	p.nodes.grow(e)
	t := &p.nodes.tracked[e]
	if t.resting {
		p.endRest(e)
	}
	if t.shard == 0 {
		p.held++
		t.shard, t.hash = uint32(shard)+1, hash
	}
	if p.limit > 0 {
		first := len(passivate)
		passivate = p.shards[shard].touch(e, passivate)
		p.evicted(passivate[first:])
	}
	if p.most > 0 {
		passivate = p.shed(passivate)
	}
	return passivate
}

// Rests notes that a tracked entity has nothing to do any more: its idle time begins. The
// entities to passivate are appended to passivate. This entity can be one of them.
func (p *Policy) Rests(e Entity, now time.Time, passivate []Entity) []Entity {
	if !p.Tracks(e) {
		return passivate
	}
	if p.base.IsZero() {
		p.base = now
	}
	p.endRest(e)
	p.nodes.tracked[e].resting = true
	p.nodes.pushRest(&p.rest, uint32(e), int64(now.Sub(p.base)))
	if p.most > 0 {
		passivate = p.shed(passivate)
	}
	return passivate
}

// RestsSince returns since when an entity has rested, and false if it does not rest.
func (p *Policy) RestsSince(e Entity) (time.Time, bool) {
	if !p.Tracks(e) || !p.nodes.tracked[e].resting {
		return time.Time{}, false
	}
	return p.base.Add(time.Duration(p.nodes.rests[e].since)), true
}

func (p *Policy) endRest(e Entity) {
	if t := &p.nodes.tracked[e]; t.resting {
		t.resting = false
		p.nodes.removeRest(&p.rest, uint32(e))
	}
}

// Tracks reports whether the policy may passivate the entity.
func (p *Policy) Tracks(e Entity) bool {
	return int(e) < len(p.nodes.tracked) && p.nodes.tracked[e].shard != 0
}

// evicted forgets entities that a replacer has evicted.
func (p *Policy) evicted(entities []Entity) {
	for _, e := range entities {
		p.endRest(e)
		p.nodes.tracked[e] = tracked{}
	}
	p.held -= len(entities)
}

// Removed forgets an entity: it has ended, or must not be passivated. Removed does nothing if
// the entity is not tracked.
func (p *Policy) Removed(e Entity) {
	if !p.Tracks(e) {
		return
	}
	if r := p.shards[p.nodes.tracked[e].shard-1]; r != nil {
		r.remove(e)
	}
	p.evicted([]Entity{e})
}

// Idle appends the entities that have rested for the idle time.
func (p *Policy) Idle(now time.Time, passivate []Entity) []Entity {
	for p.strategy.Idle > 0 && p.rest.front != 0 {
		e := Entity(p.rest.front)
		if now.Before(p.idleAt(e)) {
			break
		}
		p.Removed(e)
		passivate = append(passivate, e)
	}
	return passivate
}

// NextIdle returns when Idle will have something to return, if no entity is touched before. The
// zero time means never.
func (p *Policy) NextIdle() time.Time {
	if p.strategy.Idle == 0 || p.rest.front == 0 {
		return time.Time{}
	}
	return p.idleAt(Entity(p.rest.front))
}

func (p *Policy) idleAt(e Entity) time.Time {
	return p.base.Add(time.Duration(p.nodes.rests[e].since) + p.strategy.Idle)
}
