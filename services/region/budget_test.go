package region

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// division is a budget with the allowances of its cores, between which messages are
// under way, in order for each core and direction.
type division struct {
	b       budget
	cores   []allowance
	used    []int
	orders  [][]func() // to each core
	events  [][]func() // from each core
	refused []int      // of each core, since the last look
}

func newDivision(total, cores int) *division {
	d := &division{
		b: newBudget(total, cores, 1), used: make([]int, cores), refused: make([]int, cores),
		orders: make([][]func(), cores), events: make([][]func(), cores),
	}
	for range cores {
		d.cores = append(d.cores, d.b.allowance())
	}
	return d
}

// admit is what a shard core does with something of a size.
func (d *division) admit(core, size int) {
	a := &d.cores[core]
	if a.low(d.used[core] + size) {
		d.want(core)
	}
	if d.used[core]+size > a.ceiling {
		d.refused[core]++
		return
	}
	d.used[core] += size
}

func (d *division) want(core int) {
	d.cores[core].asked = true
	d.events[core] = append(d.events[core], func() {
		d.b.wanting[core] = true
		d.divide()
		d.reclaim()
	})
}

func (d *division) end(core, size int) {
	d.used[core] -= min(size, d.used[core])
	d.giveBack(core)
}

func (d *division) giveBack(core int) {
	if n := d.cores[core].excess(d.used[core]); n > 0 {
		d.events[core] = append(d.events[core], func() { d.b.returned(core, n); d.divide() })
	}
}

func (d *division) divide() {
	for {
		core, n, ok := d.b.grant()
		if !ok {
			return
		}
		d.orders[core] = append(d.orders[core], func() { d.cores[core].grant(n) })
	}
}

func (d *division) reclaim() {
	keep, wanted := d.b.keep()
	for core := range d.cores {
		if wanted && d.b.mayReturn(core) {
			d.orders[core] = append(d.orders[core], func() { d.cores[core].reclaim(d.used[core], keep); d.giveBack(core) })
		}
	}
}

// tick is a tick of all cores.
func (d *division) tick() {
	for core := range d.cores {
		if u := d.used[core]; u > 0 && d.cores[core].low(u+1) {
			d.want(core)
		}
	}
	d.reclaim()
}

// deliver delivers one message, if any is under way.
func (d *division) deliver(r *rand.Rand) bool {
	n := len(d.cores)
	first := r.IntN(2 * n)
	for i := range 2 * n {
		lists, core := d.orders, (first+i)%(2*n)
		if core >= n {
			lists, core = d.events, core-n
		}
		if list := lists[core]; len(list) > 0 {
			lists[core] = list[1:]
			list[0]()
			return true
		}
	}
	return false
}

func (d *division) check() error {
	used := 0
	for core := range d.cores {
		if err := d.cores[core].check(d.used[core]); err != nil {
			return fmt.Errorf("core %d: %w", core, err)
		}
		if d.cores[core].granted > d.b.granted[core] {
			return fmt.Errorf("core %d has %d, granted are %d", core, d.cores[core].granted, d.b.granted[core])
		}
		used += d.used[core]
	}
	if used > d.b.total {
		return fmt.Errorf("%d are used of %d", used, d.b.total)
	}
	return d.b.check()
}

// settle lets messages arrive and time pass until the cores in need have what they can get.
func (d *division) settle(r *rand.Rand, rounds int, meanwhile func()) error {
	for range rounds {
		meanwhile()
		d.tick()
		for d.deliver(r) {
			if err := d.check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// budgetRun lets cores use a budget as chance has it, and looks at three promises: the
// bound holds at any time; a core whose neighbours are idle reaches all but their
// blocks; a core that wants its share gets it, though others have more and never pause.
func budgetRun(seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0))
	cores := 1 + r.IntN(6)
	d := newDivision(cores*(1+r.IntN(200))+r.IntN(cores), cores)
	for range 2000 {
		core := r.IntN(cores)
		switch r.IntN(8) {
		case 0:
			d.tick()
		case 1, 2:
			d.deliver(r)
		case 3, 4:
			d.end(core, 1+r.IntN(20))
		default:
			d.admit(core, 1+r.IntN(4))
		}
		if err := d.check(); err != nil {
			return err
		}
	}
	for core := range cores { // all are idle, and one is not
		d.end(core, d.b.total)
	}
	busy, least := r.IntN(cores), d.b.total-(cores-1)*d.b.block
	if err := d.settle(r, 3*d.b.total/d.b.block+20, func() {
		for range d.b.total {
			d.admit(busy, 1)
		}
	}); err != nil {
		return err
	}
	if d.used[busy] < least || d.used[busy] > d.b.total {
		return fmt.Errorf("a core whose neighbours are idle reaches %d of %d, %d are blocks", d.used[busy], d.b.total, d.b.total-least)
	}
	// Now all want more than there is, and keep using what they have.
	if err := d.settle(r, 3*d.b.total/d.b.block+20, func() {
		for core := range cores {
			d.end(core, 1+d.b.total/20)
			for range d.b.total {
				d.admit(core, 1)
			}
		}
	}); err != nil {
		return err
	}
	for core := range cores {
		if d.used[core] < d.b.share-d.b.block {
			return fmt.Errorf("core %d has %d, its share is %d", core, d.used[core], d.b.share)
		}
	}
	return nil
}

func TestBudget(t *testing.T) {
	for seed := range uint64(200) {
		if err := budgetRun(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestBudgetOfOne: a core alone has everything and never asks.
func TestBudgetOfOne(t *testing.T) {
	d := newDivision(100, 1)
	for range 150 {
		d.admit(0, 1)
	}
	d.tick()
	if d.used[0] != 100 || d.refused[0] != 50 {
		t.Errorf("%d are used, %d refused", d.used[0], d.refused[0])
	}
}
