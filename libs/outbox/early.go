package outbox

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/sharding"
)

// A pair that fails is retried after pauses that grow up to Config.RetryMax. What it fails on may end much
// earlier. So some events retry it at once: its target's shard is served anew, which also happens when a
// rollout moves the shard to a version that can read the input; its target is released from quarantine; or
// an operator asks for it. Such an early retry does not reset the pause: if it fails, the pause grows as after
// any other failure.

// early bounds early retries. A pair has at most one of them in this time. For this time after an event,
// attempts that begin and fail are retried early, too: other processes may learn of the event later than
// this one does.
const early = time.Second

// mark names the shard, or the entity, that an event has made ready for commands.
type mark struct {
	shard uint32
	id    sharding.EntityID // empty: the whole shard
}

// served retries the pairs whose targets are in shards that are served anew.
func (d *Dispatcher) served(in *Served) {
	q := d.typeOf(in.Type.Type)
	d.learnShape(q, in.Type)
	if in.All {
		q.servedAt = d.now
		var list []*pair
		for _, set := range q.retrying { // order-free: sorted below
			for p := range set { // order-free: sorted below
				list = append(list, p)
			}
		}
		d.hastenAll(list)
		return
	}
	for _, index := range in.Shards {
		d.event(q, mark{shard: index})
	}
}

// released retries the pairs whose targets are no longer quarantined.
func (d *Dispatcher) released(in *Released) {
	q := d.typeOf(in.Type.Type)
	d.learnShape(q, in.Type)
	for _, id := range in.IDs {
		d.event(q, mark{q.shape.shardOf(id), id})
	}
}

// Retry retries the failing sends of an entity at once. If the entity has no id, it retries the sends of the
// entity's type; if the entity is zero, the sends of all types. If to has a type, or an id as well, only
// sends to such targets are retried. Retry returns the number of pairs that it retries. It also reads the
// sends from the journal that have left the memory because they failed.
func (d *Dispatcher) Retry(now time.Time, of, to sharding.Entity, out *Outputs) (n int) {
	d.now, d.out = now, out
	var list []*pair
	for p := range d.failing.All {
		if p.state == retrying && due.Matches(of, p.source.entity) && due.Matches(to, p.to) {
			list = append(list, p)
		}
	}
	d.hastenAll(list)
	for _, s := range d.sweep.Shards() {
		if !s.complete && !s.sweepAt.Before(now) {
			d.sweepAt(s, now)
		}
	}
	d.advance()
	d.out = nil
	return len(list)
}

// learnShape notes how the entities of a type are assigned to shards. That never changes, but it is not known
// before the first event of the type.
func (d *Dispatcher) learnShape(q *typeQueue, s Type) {
	if q.shape == s {
		return
	}
	q.shape = s
	var list []*pair
	for _, set := range q.retrying { // order-free: they are put into sets again
		for p := range set { // order-free: likewise
			list = append(list, p)
		}
	}
	clear(q.retrying)
	for _, p := range list {
		q.index(p)
	}
}

// event retries the pairs that wait for an event, and remembers the event for attempts that are in flight.
func (d *Dispatcher) event(q *typeQueue, m mark) {
	q.events[m] = d.now
	if q.dropAt.IsZero() {
		q.dropAt = d.now.Add(d.remembered())
	}
	var list []*pair
	for p := range q.retrying[m.shard] { // order-free: sorted below
		if m.id == "" || m.id == p.addressee().ID {
			list = append(list, p)
		}
	}
	d.hastenAll(list)
}

// remembered returns how long events are remembered: twice as long as an attempt may take.
func (d *Dispatcher) remembered() time.Duration {
	longest := max(d.longestTimeout, d.cfg.AttemptTimeout)
	//mutant:do early-slow longest = d.cfg.AttemptTimeout
	return 2 * longest
}

// dropEvents drops the events that no attempt in flight can have missed: each that began before them, or in the
// time early after them, has ended. It looks at all events of a type once per such time, not with each event: when a
// region is lost, all its shards are served anew one after the other.
func (d *Dispatcher) dropEvents() {
	for _, q := range d.types {
		if q.dropAt.IsZero() || d.now.Before(q.dropAt) {
			continue
		}
		kept := map[mark]time.Time{}  // a new one: a map does not shrink
		for m, at := range q.events { // order-free: copied
			if d.now.Sub(at) <= d.remembered() {
				kept[m] = at
			}
		}
		q.events, q.dropAt = kept, time.Time{}
		if len(kept) > 0 {
			q.dropAt = d.now.Add(d.remembered())
		}
	}
}

// hastenAll retries pairs early, in the order in which they have failed.
func (d *Dispatcher) hastenAll(list []*pair) {
	slices.SortFunc(list, due.Order[*pair])
	for _, p := range list {
		d.hasten(p)
	}
}

// hasten retries a pair early: now, or when its last early retry is long enough ago.
func (d *Dispatcher) hasten(p *pair) {
	at, between := d.now, early
	//mutant:do early-limit between = 10 * time.Millisecond
	if next := p.earlyAt.Add(between); next.After(at) {
		at = next
	}
	if !at.Before(p.RetryAt) { //mutant:true early-retry
		return
	}
	p.earlyAt = at
	d.failing.Hasten(p, at)
}

// retry queues a pair to be tried again at a time. If an event has made its target ready for commands
// since the failed attempt began, or shortly before, the pair is retried early.
func (d *Dispatcher) retry(p *pair, at time.Time) {
	d.failing.Retry(p, at)
	q := d.typeOf(p.addressee().Type)
	q.index(p)
	for _, event := range []time.Time{q.servedAt, q.events[mark{shard: p.shard}], q.events[mark{p.shard, p.addressee().ID}]} {
		if p.began.Before(event.Add(early)) { //mutant:false early-in-flight
			d.hasten(p)
		}
	}
}

// unindex takes a pair that is not to be tried again later any more out of the index by shards.
func (d *Dispatcher) unindex(p *pair) {
	q := d.typeOf(p.addressee().Type)
	delete(q.retrying[p.shard], p)
	if len(q.retrying[p.shard]) == 0 {
		delete(q.retrying, p.shard)
	}
}

// index puts a pair that is tried again later into the index by the shard of its addressee.
func (q *typeQueue) index(p *pair) {
	p.shard = q.shape.shardOf(p.addressee().ID)
	set := q.retrying[p.shard]
	if set == nil {
		set = map[*pair]struct{}{}
		q.retrying[p.shard] = set
	}
	set[p] = struct{}{}
}

// shardOf returns the index of the shard of an entity; 0 while the shape is not known.
func (t Type) shardOf(id sharding.EntityID) uint32 {
	if t.Shards == 0 {
		return 0
	}
	desc := sharding.TypeDesc{Type: t.Type, Shards: t.Shards, Rule: t.Rule}
	return desc.ShardOf(id).Index
}
