package region

import (
	"fmt"

	"github.com/roost-cluster/roost/libs/mutant"
)

// What may wait in a region is bounded for the region as a whole, while each shard core
// admits commands alone. So the control core divides each bound among the shard cores,
// as a [budget], and each of them spends its [allowance]:
//
//   - What moves between cores are blocks: large enough for the largest command, and so
//     large that there are few messages, however small the commands.
//   - At the beginning each core has an equal share, of at least four blocks: a region
//     whose limits are too small for that has fewer cores ([Config.FitShardCores]).
//   - A core that has almost nothing left asks for more (Want). It does not wait for the
//     answer: what it has no room for is refused.
//   - The control core grants what nobody has (Grant), and first to the core that has least.
//     If there is nothing, it takes back (Reclaim): each core keeps what it uses and a
//     block, so that no core is ever without, and gives the rest back (Return). While a
//     core with less than its share wants more, those with more than theirs give
//     back down to it, as their commands end.
//
// All this is about what is not reserved: a fifth of each bound is for the commands for which
// entities wait ([turn.ReservedShare]). Each core has an equal part of that for good.
//
// The sum of what the cores have and what nobody has is the bound, at any time: what is
// on its way between two cores can be spent by neither. One core alone has all of it
// from the beginning, and never asks.

// Resource is something of which a region has a bounded amount.
type Resource uint8

const (
	// ResourceCommands are the commands that wait, for their entity or for a claim.
	ResourceCommands Resource = iota
	// ResourceBytes is their size.
	ResourceBytes
	// ResourceLoads are the loads of entities that are not answered.
	ResourceLoads
	resources
)

// String is "commands", "bytes" or "loads".
func (r Resource) String() string { return [...]string{"commands", "bytes", "loads"}[r] }

// A share has about blocksPerShare blocks, and at least leastBlocks.
const (
	blocksPerShare = 16
	leastBlocks    = 4
)

// mostCores is the largest number of cores that can share a bound, if one command takes
// at most largest of it.
func mostCores(total, largest int) int { return max(1, total/(leastBlocks*largest)) }

// budget is a bound of the region, as the control core divides it.
type budget struct {
	total, share, block int    // a share is a number of blocks
	free                int    // granted to no core
	granted             []int  // to each core: a number of blocks
	wanting             []bool // cores that asked, and were granted nothing since, nor gave anything back
}

// newBudget divides the total equally. There must not be more than [mostCores].
func newBudget(total, cores, largest int) budget {
	b := budget{total: total, block: total, granted: make([]int, cores), wanting: make([]bool, cores)}
	if cores > 1 {
		b.block = max(total/cores/blocksPerShare, largest)
	}
	b.share = total / cores / b.block * b.block
	b.free = total - cores*b.share
	for i := range b.granted {
		b.granted[i] = b.share
	}
	return b
}

// grant grants the blocks that are free to the cores that want them: to the one that has
// least first, up to its share, or one if it has that. It returns no core if there is
// nothing to grant.
func (b *budget) grant() (core, n int, ok bool) {
	core = -1
	for i, wants := range b.wanting {
		if wants && (core < 0 || b.granted[i] < b.granted[core]) {
			core = i
		}
	}
	if core < 0 || b.free < b.block {
		return 0, 0, false
	}
	n = max(b.block, min(b.free-b.free%b.block, b.share-b.granted[core]))
	b.free -= n
	b.granted[core] += n
	b.wanting[core] = false
	return core, n, true
}

// keep is what each core may keep at most, as long as some core wants more: its share if
// that one has less, else all.
func (b *budget) keep() (keep int, wanted bool) {
	keep = b.total
	for i, wants := range b.wanting {
		if wants {
			wanted = true
			if b.granted[i] < b.share {
				keep = b.share
			}
		}
	}
	return keep, wanted
}

// mayReturn reports whether a core may have something to give back. A core that asked
// for more may have finished commands since.
func (b *budget) mayReturn(core int) bool { return b.granted[core] > b.block }

// returned takes back what a core returns. This cancels the core's wish for more; it
// asks again if it still has one.
func (b *budget) returned(core, n int) {
	b.granted[core] -= n
	b.free += n
	b.wanting[core] = false
}

func (b *budget) check() error {
	sum := b.free
	for i, n := range b.granted {
		sum += n
		if n < b.block || n%b.block != 0 {
			return fmt.Errorf("shard core %d has %d, which is no number of blocks of %d", i, n, b.block)
		}
	}
	if sum != b.total || b.free < 0 {
		return fmt.Errorf("%d are granted or free (%d) of %d", sum, b.free, b.total)
	}
	return nil
}

// allowance is what a shard core may use of a bound.
type allowance struct {
	// granted is what counts as this core's. It admits nothing beyond ceiling: the
	// blocks above it are given back as soon as they are not used any more.
	granted, ceiling int
	block            int
	asked            bool // for more, and neither was granted nor returned anything since
	// reserve may be used beyond the ceiling by commands with a chain. What is used of it is
	// not known apart, and does not matter here: see the method ordinary.
	reserve int
}

func (b *budget) allowance() allowance {
	return allowance{granted: b.share, ceiling: b.share, block: b.block}
}

// ordinary is what is used of what was granted.
func (a *allowance) ordinary(used int) int { return min(used, a.granted) }

// room is what may be used by commands with a chain, or by others.
func (a *allowance) room(chained bool) int {
	if chained {
		return a.ceiling + a.reserve
	}
	return a.ceiling
}

// low reports whether so little would be left beside what is used that more should be
// asked for, once.
func (a *allowance) low(used int) bool { return !a.asked && a.ceiling-used < a.block/2 }

func (a *allowance) grant(n int) {
	a.granted += n
	a.ceiling += n
	a.asked = false
}

// reclaim lowers the ceiling to the blocks that are used and one more, at most to what
// may be kept.
func (a *allowance) reclaim(used, keep int) {
	if !mutant.On("budget-returned") {
		a.ceiling -= a.blocks(a.ceiling - min(a.ordinary(used)+a.block, keep))
	}
}

// excess takes what is given back: the blocks that are neither used nor below the ceiling.
func (a *allowance) excess(used int) int {
	n := a.blocks(a.granted - max(a.ceiling, a.ordinary(used)))
	if n > 0 {
		a.granted -= n
		a.asked = false
	}
	return n
}

// blocks is the part of n that is a number of blocks, not below 0.
func (a *allowance) blocks(n int) int { return max(0, n-n%a.block) }

func (a *allowance) check(used int) error {
	if used > a.granted+a.reserve || a.ceiling > a.granted || a.ceiling < a.block || a.ceiling%a.block != 0 {
		return fmt.Errorf("%d used, %d allowed, %d granted, a block is %d", used, a.ceiling, a.granted, a.block)
	}
	return nil
}
