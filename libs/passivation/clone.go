package passivation

import (
	"fmt"
	"slices"
	"time"
)

// Clone returns a copy that shares no memory with n.
func (n *Nodes) Clone() *Nodes {
	return &Nodes{
		order: slices.Clone(n.order), rests: slices.Clone(n.rests), tracked: slices.Clone(n.tracked),
	}
}

// Clone returns a copy that continues independently. nodes is a clone of the Nodes of p.
func (p *Policy) Clone(nodes *Nodes) *Policy {
	c := *p
	c.nodes, c.shards, c.open = nodes, slices.Clone(p.shards), slices.Clone(p.open)
	for i, r := range p.shards {
		if r != nil {
			c.shards[i] = r.clone(nodes)
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
	t := p.nodes.tracked[e]
	b = fmt.Appendf(b, " tracked %d %d %d %d", t.group, t.accesses, t.area, p.nodes.order[e])
	if since, rests := p.RestsSince(e); rests {
		b = fmt.Appendf(b, " rests %d %d", now.Sub(since), p.nodes.rests[e].link)
	}
	return b
}

func (r *recency) clone(nodes *Nodes) replacer {
	c := *r
	c.nodes, c.segments = nodes, slices.Clone(r.segments)
	return &c
}

func (r *mostRecent) clone(nodes *Nodes) replacer {
	c := *r
	c.nodes = nodes
	return &c
}

func (f *frequency) clone(nodes *Nodes) replacer {
	c := *f
	c.nodes, c.buckets, c.links, c.free = nodes, slices.Clone(f.buckets), slices.Clone(f.links), slices.Clone(f.free)
	return &c
}

func (c *composite) clone(nodes *Nodes) replacer {
	n := *c
	n.nodes, n.main, n.candidates = nodes, c.main.clone(nodes), nil
	if c.window != nil {
		n.window = c.window.clone(nodes)
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
