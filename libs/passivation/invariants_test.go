package passivation

import "testing"

// check checks that a policy agrees with itself: every tracked entity is in the one list
// that says so, and no shard has more than its part of the limit.
func (p *Policy) check(t *testing.T) {
	t.Helper()
	total := 0
	for i, r := range p.shards {
		if r == nil {
			continue
		}
		total += r.len()
		if r.len() > p.perShard {
			t.Fatalf("shard %d has %d entities, its part of the limit is %d", i, r.len(), p.perShard)
		}
		if c, ok := r.(*composite); ok {
			if c.main.len() > c.mainLimit {
				t.Fatalf("the main area of shard %d has %d entities, its limit is %d", i, c.main.len(), c.mainLimit)
			}
		}
	}
	known, idle, listed := 0, 0, 0
	for e := range p.entities.tracked {
		n := p.entities.tracked[e]
		if n.shard == 0 {
			if n != (tracked{}) {
				t.Fatalf("entity %d is not tracked, but %+v is left", e, n)
			}
			continue
		}
		known++
		if n.idle {
			idle++
		}
		if p.shards[n.shard-1] != nil && n.group == 0 {
			t.Fatalf("entity %d is in no list", e)
		}
	}
	if p.tracked != known {
		t.Fatalf("%d entities are tracked, %d are counted", known, p.tracked)
	}
	if p.limit > 0 && known != total {
		t.Fatalf("%d entities are tracked, the shards have %d", known, total)
	}
	for i := p.idle.front; i != 0; i = p.entities.idle[i].next {
		listed++
	}
	if listed != idle || p.idle.size != listed {
		t.Fatalf("%d entities are idle, %d are in the list of idle ones, which counts %d", idle, listed, p.idle.size)
	}
}
