package passivation

import (
	"fmt"
	"slices"
	"time"
)

// Clone returns a copy that shares no memory with n.
func (n *EntityTable) Clone() *EntityTable {
	return &EntityTable{
		order: slices.Clone(n.order), idle: slices.Clone(n.idle), tracked: slices.Clone(n.tracked),
	}
}

// Clone returns a copy that continues independently. entities is a clone of the EntityTable of p.
func (p *Policy) Clone(entities *EntityTable) *Policy {
	c := *p
	c.entities, c.shards, c.open = entities, slices.Clone(p.shards), slices.Clone(p.open)
	for i, r := range p.shards {
		if r != nil {
			c.shards[i] = r.clone(entities)
		}
	}
	return &c
}

// AppendState appends what is kept for an entity, with times relative to now. It does not
// describe what is kept of entities that are not tracked: the sketch of a composite, and
// what the optimizer of its window has measured.
func (p *Policy) AppendState(now time.Time, e Entity, b []byte) []byte {
	if !p.Tracks(e) {
		return append(b, " not tracked"...)
	}
	t := p.entities.tracked[e]
	b = fmt.Appendf(b, " tracked %d %d %d %d", t.group, t.accesses, t.area, p.entities.order[e])
	if since, idle := p.IdleSince(e); idle {
		b = fmt.Appendf(b, " idle %d %d", now.Sub(since), p.entities.idle[e].link)
	}
	return b
}

func (r *recency) clone(entities *EntityTable) replacer {
	c := *r
	c.entities, c.segments = entities, slices.Clone(r.segments)
	return &c
}

func (r *mostRecent) clone(entities *EntityTable) replacer {
	c := *r
	c.entities = entities
	return &c
}

func (f *frequency) clone(entities *EntityTable) replacer {
	c := *f
	c.entities, c.buckets, c.links, c.free = entities, slices.Clone(f.buckets), slices.Clone(f.links), slices.Clone(f.free)
	return &c
}

func (c *composite) clone(entities *EntityTable) replacer {
	n := *c
	n.entities, n.main, n.candidates = entities, c.main.clone(entities), nil
	if c.window != nil {
		n.window = c.window.clone(entities)
	}
	if c.sketch != nil {
		s := *c.sketch
		s.table, s.rowCounts = slices.Clone(s.table), slices.Clone(s.rowCounts)
		n.sketch = &s
	}
	if c.climber != nil {
		climber := *c.climber
		n.climber = &climber
	}
	return &n
}
