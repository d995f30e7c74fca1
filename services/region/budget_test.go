package region

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// division is a budget with the allowances of its cores, between which messages are
// in progress, in order for each core and direction.
type division struct {
	b       budget
	cores   []allowance
	used    []int
	orders  [][]func() // to each core
	events  [][]func() // from each core
	refused []int      // of each core, since the last look
	moves   int        // grants and returns
	odd     bool       // one of them was no number of blocks
}

func newDivision(total, cores, largest int) *division {
	d := &division{
		b: newBudget(total, cores, largest), used: make([]int, cores), refused: make([]int, cores),
		orders: make([][]func(), cores), events: make([][]func(), cores),
	}
	for range cores {
		d.cores = append(d.cores, d.b.allowance())
	}
	return d
}

// admit does what a shard core does to admit n bytes.
func (d *division) admit(core, size int) {
	a := &d.cores[core]
	if a.low(d.used[core] + size) {
		d.want(core)
	}
	if d.used[core]+size > a.usable {
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
		d.moved(n)
		d.events[core] = append(d.events[core], func() { d.b.returned(core, n); d.divide() })
	}
}

func (d *division) divide() {
	for {
		core, n, ok := d.b.grant()
		if !ok {
			return
		}
		d.moved(n)
		d.orders[core] = append(d.orders[core], func() { d.cores[core].grant(n) })
	}
}

func (d *division) moved(n int) {
	d.moves++
	d.odd = d.odd || n%d.b.block != 0
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

// deliver delivers one message, if any is in progress.
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
	if d.odd {
		return fmt.Errorf("less than a block of %d was granted or returned", d.b.block)
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

// budgetRun lets cores use a budget as chance has it, and looks at these promises: the
// bound holds at any time; what moves between cores are blocks; a core whose neighbours
// are idle reaches all but their blocks; a core that wants its share gets it, though others
// have more and never pause; a core that uses nothing admits the largest thing.
func budgetRun(seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0))
	total, largest := 1+r.IntN(1200), 1+r.IntN(4)*r.IntN(20)
	cores := min(1+r.IntN(6), mostCores(total, largest))
	d := newDivision(total, cores, largest)
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
			d.admit(core, 1+r.IntN(largest))
		}
		if err := d.check(); err != nil {
			return err
		}
	}
	for core := range cores { // all are idle, and one is not
		d.end(core, d.b.total)
	}
	busy, least := r.IntN(cores), d.b.total-d.b.total%d.b.block-(cores-1)*d.b.block
	if err := d.settle(r, 3*d.b.total/d.b.block+20, func() {
		for range d.b.total {
			d.admit(busy, 1)
		}
	}); err != nil {
		return err
	}
	if d.used[busy] < least || d.used[busy] > d.b.total {
		return fmt.Errorf("a core whose neighbours are idle reaches %d of %d, a block is %d", d.used[busy], d.b.total, d.b.block)
	}
	if other := (busy + 1) % cores; other != busy {
		d.refused[other] = 0
		if d.admit(other, largest); d.refused[other] > 0 && largest <= d.b.total {
			return fmt.Errorf("a core that uses nothing refuses what has %d of %d", largest, d.b.total)
		}
	}
	// Now all want more than there is, and keep using their share.
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
	d := newDivision(101, 1, 30)
	for range 150 {
		d.admit(0, 1)
	}
	d.tick()
	if d.used[0] != 101 || d.refused[0] != 49 || d.moves != 0 {
		t.Errorf("%d are used, %d refused; %d were granted or returned", d.used[0], d.refused[0], d.moves)
	}
}

// TestBudgetMovesInBlocks: a core that has more than its share while another wants its
// own gives it back as its commands end, but not with a message for each.
func TestBudgetMovesInBlocks(t *testing.T) {
	d, r := newDivision(3200, 2, 1), rand.New(rand.NewPCG(1, 1))
	rounds := func(n int, do func()) {
		for range n {
			if err := d.settle(r, 1, do); err != nil {
				t.Fatal(err)
			}
		}
	}
	rounds(100, func() {
		for range d.b.total {
			d.admit(0, 1)
		}
	})
	had := d.moves
	rounds(2000, func() { d.end(0, 1); d.admit(1, 1) })
	if d.used[1] < d.b.share || d.moves-had > 2*d.used[1]/d.b.block {
		t.Errorf("a core has %d, its share is %d; it took %d grants and returns of at least %d", d.used[1], d.b.share, d.moves-had, d.b.block)
	}
}

// TestMostCores: limits that are too small for many shard cores are divided among fewer,
// so that a share is at least four blocks, and the largest command fits into each.
func TestMostCores(t *testing.T) {
	const large = 2 << 20
	for _, c := range []struct{ total, largest, want int }{
		{0, 1, 1}, {1, 1, 1}, {7, 1, 1}, {8, 1, 2}, {20_000, 1, 5000},
		{1 << 20, large, 1}, {15 << 20, large, 1}, {16 << 20, large, 2}, {256 << 20, large, 32},
	} {
		if got := mostCores(c.total, c.largest); got != c.want {
			t.Errorf("%d, with at most %d for one request, are divided among %d cores, want %d", c.total, c.largest, got, c.want)
		}
	}
}

// TestFitShardCores: a region with small limits has fewer shard cores, and works.
func TestFitShardCores(t *testing.T) {
	for want, limit := range map[int]func(*Config){
		64: func(*Config) {},
		2:  func(c *Config) { c.Turn.TotalLoads = 10 },
		3:  func(c *Config) { c.Turn.TotalCommands = 15 },
		4:  func(c *Config) { c.Turn.TotalBytes = 40 << 20 },
		1:  func(c *Config) { c.Turn.TotalBytes = 1 },
	} {
		c := DefaultConfig(sharding.NodeID{Addr: "r1:1", UID: 1}, "r1")
		c.ShardCores, c.Turn.TotalBytes = MaxShardCores, 1<<30
		limit(&c)
		if err := c.Validate(); (err != nil) != (want < MaxShardCores) {
			t.Errorf("%d shard cores where %d fit: %v", c.ShardCores, want, err)
		}
		c.FitShardCores()
		if err := c.Validate(); err != nil || c.ShardCores != want {
			t.Errorf("there are %d shard cores, want %d: %v", c.ShardCores, want, err)
		}
	}
}
