package passivation

import (
	"strconv"
	"testing"
)

// process has one policy with a Bound. A part of its heap is not entities.
type process struct {
	*region
	bound  *Bound
	cycle  uint64
	other  uint64 // bytes of the heap that are not entities
	size   uint64 // bytes of an entity
	next   int
	limits []int // the limit after each garbage collection
}

func newProcess(s Strategy, bytes, other, size uint64) *process {
	return &process{region: newRegion(s, 4), bound: NewBound(bytes, s.Limit), other: other, size: size}
}

func (p *process) live() uint64 { return p.other + p.size*uint64(len(p.active)) }

// run touches the entities of a working set one after the other, and collects garbage from time
// to time.
func (p *process) run(collections, workingSet int) {
	for range collections {
		for range workingSet / 2 {
			p.next = (p.next + 1) % workingSet
			p.touch(p.next%4, strconv.Itoa(p.next))
		}
		p.cycle++
		n := p.bound.Observe(p.cycle, p.live(), len(p.active))
		p.gone(p.policy.SetLimit(n, nil))
		p.limits = append(p.limits, n)
	}
}

// TestBound: if the working set is ten times as large as the memory, the heap stays below the
// bound, and the limit settles. When there is enough memory again, the limit is raised to what
// is configured.
func TestBound(t *testing.T) {
	for _, s := range strategies(5000)[1:] {
		p := newProcess(s, 1<<17, 1<<15, 1<<10) // room for 96 entities
		p.run(40, 1024)
		settled := p.limits[20:]
		for i, n := range settled {
			if n != settled[0] {
				t.Fatalf("%s: the limit swings: %v", s, settled)
			}
			if i == 0 && (n < 40 || n > 96) {
				t.Fatalf("%s: the limit settles at %d", s, n)
			}
		}
		if p.live() > 1<<17 {
			t.Fatalf("%s: %d bytes are live, beyond the bound", s, p.live())
		}
		p.size = 1
		p.run(60, 1024)
		if n := p.limits[len(p.limits)-1]; n != 5000 {
			t.Fatalf("%s: the limit has come back to %d only", s, n)
		}
	}
}

// TestBoundWaits: two garbage collections end between two changes of the limit.
func TestBoundWaits(t *testing.T) {
	b := NewBound(1000, 100)
	if n := b.Observe(1, 2000, 80); n != 100 {
		t.Fatalf("the limit is lowered to %d after the first collection", n)
	}
	if n := b.Observe(2, 1200, 80); n != 60 { // 0.9 / 1.2 of 80
		t.Fatalf("the limit is lowered to %d", n)
	}
	if n := b.Observe(3, 1200, 60); n != 60 {
		t.Fatalf("the limit is lowered to %d before its effect can be seen", n)
	}
	if n := b.Observe(4, 1_000_000, 60); n != 30 {
		t.Fatalf("the limit is lowered to %d, by more than half", n)
	}
	if n := b.Observe(6, 900, 30); n != 30 {
		t.Fatalf("the limit is %d, without need", n)
	}
	if n := b.Observe(7, 699, 30); n != 38 {
		t.Fatalf("the limit is raised to %d", n)
	}
	for cycle := uint64(9); cycle < 100; cycle++ {
		b.Observe(cycle, 1<<40, 1)
	}
	if n := b.effective; n != 1 {
		t.Fatalf("the limit is lowered to %d", n)
	}
	if n := NewBound(0, 7).Observe(9, 1<<40, 7); n != 7 {
		t.Fatalf("without bytes the limit is lowered to %d", n)
	}
}

func TestBoundSetLimit(t *testing.T) {
	b := NewBound(1000, 100)
	if n := b.SetLimit(200); n != 200 {
		t.Errorf("the limit is %d", n)
	}
	b.Observe(2, 1200, 80) // 60
	if n := b.SetLimit(300); n != 60 {
		t.Errorf("a lowered limit is %d when the configured one is raised", n)
	}
	if n := b.SetLimit(50); n != 50 {
		t.Errorf("a lowered limit is %d when the configured one is below", n)
	}
}
