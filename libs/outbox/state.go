package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Check verifies the invariants of the dispatcher. An error means a bug.
func (d *Dispatcher) Check() error {
	c := checking{d: d, pairs: map[*pair]bool{}, ended: map[*source][]*send{}, unstored: map[*source]int{}}
	for _, a := range d.acks { // order-free: collected
		c.ends(a.sends)
	}
	for _, s := range d.sweep.Shards() {
		c.ends(s.ends)
		for _, a := range s.unstored {
			c.ends(a.sends)
			c.unstored[a.source] += len(a.sends)
			c.allUnstored += len(a.sends)
		}
		for e, src := range s.sources { // order-free: any error is a bug
			if src.entity != e || src.shard != s {
				return fmt.Errorf("outbox: %s is in the wrong place", e)
			}
			if err := c.source(src); err != nil {
				return err
			}
		}
		for _, src := range s.toRead {
			if !src.readQueued || s.sources[src.entity] != src {
				return fmt.Errorf("outbox: %s is to be read, and is not known", src.entity)
			}
		}
	}
	under := 0
	ready := map[sharding.Entity]int{} // pairs
	for _, q := range d.types {
		under += q.underWay
		if q.underWay < d.cfg.Deliveries && len(q.ready) > 0 {
			return fmt.Errorf("outbox: %d pairs of %s are ready, and only %d commands are in progress", len(q.ready), q.name, q.underWay)
		}
		for _, p := range q.ready {
			ready[p.addressee()]++
		}
	}
	entered := 0
	for e, t := range d.addressees { // order-free: any error is a bug
		entered += t.underWay
		if t.underWay > d.cfg.TargetDeliveries || len(t.waiting) > 0 && t.underWay+ready[e] < d.cfg.TargetDeliveries || t.underWay+ready[e] == 0 {
			return fmt.Errorf("outbox: %d commands to %s are in progress, %d are ready, and %d wait", t.underWay, e, ready[e], len(t.waiting))
		}
	}
	if n := len(d.deliveries) + len(d.taking); n != under || n != entered {
		return fmt.Errorf("outbox: %d commands are in progress, counted %d by type and %d by target", n, under, entered)
	}
	if n := d.indexed(); n != d.failing.Waiting() || n != c.retrying {
		return fmt.Errorf("outbox: %d pairs are to be tried again, %d are queued, and the index by shards has %d", c.retrying, d.failing.Waiting(), n)
	}
	if c.sends != d.sends || c.bytes != d.bytes || len(d.died) != len(d.diedOrder) || len(d.died) > d.cfg.DeadLetters || c.sources != d.sourceCount || c.allUnstored != d.unstored {
		return fmt.Errorf("outbox: counted %d sends, %d bytes, %d sources, %d unstored ends; there are %d, %d, %d, %d",
			d.sends, d.bytes, d.sourceCount, d.unstored, c.sends, c.bytes, c.sources, c.allUnstored)
	}
	return errors.Join(d.sweep.Check(), d.failing.Check(c.pairs))
}

// indexed counts the pairs in the indexes by the shards of their addressees.
func (d *Dispatcher) indexed() (n int) {
	for _, q := range d.types {
		for _, set := range q.retrying { // order-free: counted
			n += len(set)
		}
	}
	return n
}

// checking counts what there is.
type checking struct {
	d                               *Dispatcher
	pairs                           map[*pair]bool
	ended                           map[*source][]*send // whose ends are not stored yet
	unstored                        map[*source]int     // of these, the sends in shard.unstored
	sends, bytes, sources, retrying int
	allUnstored                     int
}

func (c *checking) source(src *source) error {
	c.sources++
	held := 0
	count := func(x *send) {
		held++
		c.bytes += x.size
	}
	for to, p := range src.pairs { // order-free: any error is a bug
		c.pairs[p] = true
		if p.to != to || p.source != src || len(p.queue) == 0 {
			return fmt.Errorf("outbox: the pair of %s and %s is in the wrong place", src.entity, to)
		}
		for _, x := range p.pending() {
			count(x)
		}
		for i, x := range p.queue {
			if i > 0 && !(p.queue[i-1].seq < x.seq || p.queue[i-1].seq == x.seq && p.queue[i-1].Place < x.Place) {
				return fmt.Errorf("outbox: sends of %s to %s are not in order", src.entity, to)
			}
			if x.seq > src.upTo {
				return fmt.Errorf("outbox: a send of %s is in memory, and its record was not read", src.entity)
			}
		}
		if err := c.pair(p); err != nil {
			return err
		}
	}
	for _, x := range c.ended[src] {
		count(x)
	}
	if n := c.unstored[src]; n != src.unstored {
		return fmt.Errorf("outbox: counted %d sends of %s whose ends were not stored, there are %d", src.unstored, src.entity, n)
	}
	c.sends += held
	if held != src.held {
		return fmt.Errorf("outbox: counted %d sends of %s, there are %d", src.held, src.entity, held)
	}
	return nil
}

// ends notes sends that have ended.
func (c *checking) ends(list []*send) {
	for _, x := range list {
		c.ended[x.source] = append(c.ended[x.source], x)
	}
}

// pair checks that the place of a pair matches its state.
func (c *checking) pair(p *pair) error {
	ok := false
	switch d := c.d; p.state {
	case ready:
		ok = slices.Contains(d.typeOf(p.addressee().Type).ready, p)
	case waitingForSlot:
		ok = d.addressees[p.addressee()] != nil && slices.Contains(d.addressees[p.addressee()].waiting, p)
	case underWay:
		ok = d.deliveries[p.number] != nil && d.deliveries[p.number].pair == p
	case taking:
		ok = d.taking[p.firstName()] == p
	case retrying:
		_, ok = d.typeOf(p.addressee().Type).retrying[p.shard][p]
		ok = ok && d.failing.Queued(p)
		c.retrying++
	case storingEnd:
		ok = slices.Contains(c.ended[p.source], p.queue[0])
	}
	if !ok {
		return fmt.Errorf("outbox: the pair of %s and %s is in state %d, but not where that says", p.source.entity, p.to, p.state)
	}
	return nil
}

// Clone copies the dispatcher; both go on independently.
func (d *Dispatcher) Clone() *Dispatcher {
	n := *d
	n.out = nil
	c := cloning{shards: map[*shard]*shard{}, sources: map[*source]*source{}, pairs: map[*pair]*pair{}, sends: map[*send]*send{}}
	n.sweep, n.failing = d.sweep.Clone(c.shard), d.failing.Clone(c.pair)
	n.addressees = maps.Clone(d.addressees)
	for e, t := range d.addressees { // order-free: copies
		n.addressees[e] = &addressee{underWay: t.underWay, waiting: due.Map(t.waiting, c.pair)}
	}
	n.types = nil
	for _, q := range d.types {
		qc := &typeQueue{name: q.name, ready: due.Map(q.ready, c.pair), underWay: q.underWay, shape: q.shape, retrying: map[uint32]map[*pair]struct{}{}, events: maps.Clone(q.events), servedAt: q.servedAt, dropAt: q.dropAt}
		for shard, set := range q.retrying { // order-free: copies
			qc.retrying[shard] = make(map[*pair]struct{}, len(set))
			for p := range set { // order-free: copies
				qc.retrying[shard][c.pair(p)] = struct{}{}
			}
		}
		n.types = append(n.types, qc)
	}
	n.died, n.diedOrder = maps.Clone(d.died), slices.Clone(d.diedOrder)
	n.deliveries, n.taking = maps.Clone(d.deliveries), maps.Clone(d.taking)
	for k, v := range d.deliveries { // order-free: copies
		n.deliveries[k] = &delivery{pair: c.pair(v.pair), to: v.to}
	}
	for k, p := range d.taking { // order-free: copies
		n.taking[k] = c.pair(p)
	}
	n.acks = maps.Clone(d.acks)
	for k, a := range d.acks { // order-free: copies
		n.acks[k] = c.ack(a)
	}
	return &n
}

// cloning knows what was copied already.
type cloning struct {
	shards  map[*shard]*shard
	sources map[*source]*source
	pairs   map[*pair]*pair
	sends   map[*send]*send
}

func (c *cloning) shard(s *shard) *shard {
	if n := c.shards[s]; n != nil {
		return n
	}
	n := *s
	c.shards[s] = &n
	n.sources = maps.Clone(s.sources)
	for e, src := range s.sources { // order-free: copies
		n.sources[e] = c.source(src)
	}
	n.toRead, n.idle, n.readSource = due.Map(s.toRead, c.source), due.Map(s.idle, c.source), c.source(s.readSource)
	n.ends, n.unstored, n.dropped = due.Map(s.ends, c.send), due.Map(s.unstored, c.ack), slices.Clone(s.dropped)
	return &n
}

func (c *cloning) source(src *source) *source {
	if src == nil || c.sources[src] != nil {
		return c.sources[src]
	}
	n := *src
	c.sources[src] = &n
	n.shard, n.pairs = c.shard(src.shard), maps.Clone(src.pairs)
	for to, p := range src.pairs { // order-free: copies
		n.pairs[to] = c.pair(p)
	}
	return &n
}

func (c *cloning) pair(p *pair) *pair {
	if p == nil || c.pairs[p] != nil {
		return c.pairs[p]
	}
	n := *p
	c.pairs[p] = &n
	n.source, n.queue = c.source(p.source), due.Map(p.queue, c.send)
	return &n
}

func (c *cloning) ack(a *ack) *ack {
	n := *a
	n.source, n.sends = c.source(a.source), due.Map(a.sends, c.send)
	return &n
}

func (c *cloning) send(x *send) *send {
	if c.sends[x] == nil {
		n := *x
		c.sends[x] = &n
		n.source = c.source(x.source)
	}
	return c.sends[x]
}

// AppendState appends a canonical description of the state, with times relative to now: equal
// states give equal bytes.
func (d *Dispatcher) AppendState(now time.Time, b []byte) []byte {
	rel := func(t time.Time) time.Duration { return due.Left(now, t) }
	b = d.sweep.AppendState(now, append(b, "sends "...), d.appendShard(now))
	b = fmt.Appendf(b, " acks %d last %d longest %d\n", rel(d.storeAt), d.lastNumber, d.longestTimeout)
	for _, n := range slices.Sorted(maps.Keys(d.acks)) {
		b = fmt.Appendf(b, " ack %d %s %v\n", n, d.acks[n].source.entity, d.acks[n].delivered())
	}
	for _, n := range slices.Sorted(maps.Keys(d.deliveries)) {
		b = fmt.Appendf(b, " delivery %d to %s forgotten %t\n", n, d.deliveries[n].to, d.deliveries[n].pair == nil)
	}
	for _, q := range d.types {
		b = fmt.Appendf(b, " type %s %d shards %d served %d drop %d\n", q.name, q.underWay, q.shape.Shards, rel(q.servedAt.Add(early)), rel(q.dropAt))
		for _, m := range slices.SortedFunc(maps.Keys(q.events), func(a, b mark) int { return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.id, b.id)) }) {
			b = fmt.Appendf(b, "  event %d %s age %d\n", m.shard, m.id, now.Sub(q.events[m]))
		}
		for _, p := range q.ready {
			b = fmt.Appendf(b, "  ready %s %s\n", p.source.entity, p.to)
		}
	}
	return b
}

// appendShard returns a function that describes what the dispatcher has of a shard.
func (d *Dispatcher) appendShard(now time.Time) func(b []byte, s *shard) []byte {
	rel := func(t time.Time) time.Duration { return due.Left(now, t) }
	return func(b []byte, s *shard) []byte {
		b = fmt.Appendf(b, " complete %t after %s %d at %d %t from %s %d source %t missed %t next %t wanted %d idle %d ended %d dropped %v", s.complete, s.after.Entity, s.after.Seq,
			rel(s.sweepAt), s.Reading, s.readFrom.Entity, s.readFrom.Seq, s.readSource != nil, s.missed, s.sweepNext, len(s.toRead), len(s.idle), len(s.ends), s.dropped)
		for _, a := range s.unstored {
			b = fmt.Appendf(b, "\n  ack of %s %v was not stored %d times, again in %d", a.source.entity, a.delivered(), a.pause.Times, rel(a.pause.Until))
		}
		for _, src := range s.sorted() {
			b = fmt.Appendf(b, "\n  %s up to %d more %t wanted %t", src.entity, src.upTo, src.more, src.readQueued)
			for _, p := range src.sorted() {
				b = fmt.Appendf(b, "\n   to %s state %d times %d %d early %d", p.to, p.state, p.Times, rel(p.RetryAt), rel(p.earlyAt.Add(early)))
				for _, x := range p.queue {
					b = fmt.Appendf(b, " %d/%d age %d answered %t unsure %t mayStillRun %t dropped %t", x.seq, x.Place, now.Sub(x.at), x.answer != nil, x.unsure, x.mayStillRun, x.dropped)
				}
			}
		}
		return b
	}
}
