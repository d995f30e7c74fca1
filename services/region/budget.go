package region

import (
	"fmt"
)

// What may wait in a region is bounded for the region as a whole, while each shard core
// admits commands alone. So the control core divides each bound among the shard cores,
// as a [budget], and each of them spends its [allowance]:
//
//   - A bound is divided into blocks. A block is large enough for the largest command, and so large
//     that few messages move blocks between the cores, however small the commands are.
//   - At the beginning each core has an equal share, of at least four blocks: a region
//     whose limits are too small for that has fewer cores ([Config.FitShardCores]).
//   - A core that has almost nothing left requests more (RequestRoom). It does not wait for the
//     answer: commands that do not fit are refused.
//   - The control core grants free blocks (Grant), first to the core that has the fewest.
//     If no block is free, it takes blocks back (Reclaim): each core keeps what it uses and one
//     block, so that no core is ever without a block, and gives the rest back (Return). While a
//     core with less than its share wants more, cores with more than their shares give
//     blocks back as their commands end, until they have their shares.
//
// All this is about the part of each bound that is not reserved. A fifth of each bound is reserved for the
// commands that entities wait for ([turn.ReservedShare]). Each core has an equal part of the reserve,
// which never changes.
//
// At any time, the blocks of all cores and the free blocks add up to the bound: a block that is on its
// way between two cores can be spent by neither. If there is only one shard core, it has the whole bound
// from the beginning, and requests nothing.

// Resource is something that a region has a bounded amount of.
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
	wanting             []bool // the cores that have requested more, and since then were granted nothing and returned nothing
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

// keep returns how much each core may keep at most, and whether some core wants more. If a core that
// wants more has less than its share, the others may keep their shares; otherwise they may keep all.
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

// returned takes back what a core returns. This cancels the core's request for more; the core requests
// again if it still needs more.
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
			return fmt.Errorf("shard core %d has %d, which is not a multiple of a block of %d", i, n, b.block)
		}
	}
	if sum != b.total || b.free < 0 {
		return fmt.Errorf("%d are granted or free (%d) of %d", sum, b.free, b.total)
	}
	return nil
}

// allowance is the part of a bound that a shard core may use.
type allowance struct {
	// granted is the amount that this core has. usable is the part of granted that the core may use for
	// new commands. It is less than granted while a Reclaim has asked for blocks that are still in use:
	// the core gives these blocks back as soon as they are no longer in use.
	granted, usable int
	block           int
	asked           bool // more was requested, and since then nothing was granted or returned
	// reserve is the amount that commands with a chain may use beyond usable. How much of the
	// reserve is in use is not counted separately, and does not matter here: see method ordinary.
	reserve int
}

func (b *budget) allowance() allowance {
	return allowance{granted: b.share, usable: b.share, block: b.block}
}

// owes reports whether a part of the allowance must still go back to the control core, which has reclaimed it:
// this part is in use.
func (a *allowance) owes() bool { return a.granted > a.usable }

// ordinary returns how much of the granted part is in use, without the reserve.
func (a *allowance) ordinary(used int) int { return min(used, a.granted) }

// room returns how much may be used by commands with a chain, or by other commands.
func (a *allowance) room(chained bool) int {
	if chained {
		return a.usable + a.reserve
	}
	return a.usable
}

// low reports whether so little is left that more must be requested. Once more was requested, low
// returns false until something is granted or returned.
func (a *allowance) low(used int) bool { return !a.asked && a.usable-used < a.block/2 }

func (a *allowance) grant(n int) {
	a.granted += n
	a.usable += n
	a.asked = false
}

// reclaim lowers usable to the blocks that are in use and one more, but at most to the parameter keep.
func (a *allowance) reclaim(used, keep int) {
	// Invariant: the limits of commands, bytes and loads hold for all shard cores of a region together. Each shard core
	// can use what the other shard cores leave.
	// Guarded by: `region.divide`, `region.reclaim`: the control core divides each limit, and takes back what is not
	// used.
	// Mutants: budget-returned
	a.usable -= a.blocks(a.usable - min(a.ordinary(used)+a.block, keep)) //mutant:skip budget-returned
}

// excess takes out of the allowance, and returns, what the core gives back: the blocks that are neither
// in use nor usable.
func (a *allowance) excess(used int) int {
	n := a.blocks(a.granted - max(a.usable, a.ordinary(used)))
	if n > 0 {
		a.granted -= n
		a.asked = false
	}
	return n
}

// blocks rounds n down to whole blocks; a negative n becomes 0.
func (a *allowance) blocks(n int) int { return max(0, n-n%a.block) }

func (a *allowance) check(used int) error {
	if used > a.granted+a.reserve || a.usable > a.granted || a.usable < a.block || a.usable%a.block != 0 {
		return fmt.Errorf("%d used, %d allowed, %d granted, a block is %d", used, a.usable, a.granted, a.block)
	}
	return nil
}
