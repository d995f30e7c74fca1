// Package vclock is a vector clock: one counter per node, incremented by that
// node for every change it makes. Comparing two clocks shows whether one state
// includes everything in the other, or whether they changed independently.
//
// A [Clock] is a value: every method returns a new one and leaves its operands
// alone, so clocks may be shared freely.
//
// The algorithm is Fidge's and Mattern's (1988). [Clock.Compare] is a partial
// order and [Clock.Merge] its least upper bound: idempotent, commutative and
// associative, so that clocks may be merged in any order and any number of times.
//
// # Departed nodes
//
// A clock grows by an entry for every node that ever changed the state. [Clock.Prune] and [Clock.Keep] drop
// the entries of nodes that are gone permanently. Pruning commutes with merging, but a clock that was not
// pruned brings the entry back: prune incoming clocks as well, and remember departed nodes until all others
// know of their departure.
//
// # What this does not do
//
// A clock does not know which nodes exist: its owner must prune the entries of
// nodes that left. After pruning, two clocks may compare as equal although their
// states differ.
package vclock

import (
	"cmp"
	"slices"
)

// Entry is the counter of one node.
type Entry[K cmp.Ordered] struct {
	Node  K
	Count uint64
}

// Clock is a vector clock, sorted by node, at most one entry per node. The nil Clock belongs to a state
// that no node has changed yet.
type Clock[K cmp.Ordered] []Entry[K]

// Relation is the relation of one clock to another.
type Relation uint8

const (
	// Same: equal entry by entry.
	Same Relation = iota + 1
	// Before: the other clock includes this one and more.
	Before
	// After: this clock includes the other one and more.
	After
	// Concurrent: each has counted something that the other has not.
	Concurrent
)

// String is "same", "before", "after" or "concurrent".
func (r Relation) String() string {
	switch r {
	case Same:
		return "same"
	case Before:
		return "before"
	case After:
		return "after"
	case Concurrent:
		return "concurrent"
	}
	return "invalid"
}

func (c Clock[K]) find(node K) (int, bool) {
	return slices.BinarySearchFunc(c, node, func(e Entry[K], k K) int { return cmp.Compare(e.Node, k) })
}

// Count returns the counter of a node, 0 if it has none.
func (c Clock[K]) Count(node K) uint64 {
	if i, ok := c.find(node); ok {
		return c[i].Count
	}
	return 0
}

// Tick returns the clock with the counter of node incremented.
func (c Clock[K]) Tick(node K) Clock[K] {
	i, ok := c.find(node)
	if !ok {
		return slices.Insert(slices.Clone(c), i, Entry[K]{Node: node, Count: 1})
	}
	out := slices.Clone(c)
	out[i].Count++
	return out
}

// Prune returns the clock without the entry of a node.
func (c Clock[K]) Prune(node K) Clock[K] {
	i, ok := c.find(node)
	if !ok {
		return c
	}
	return slices.Delete(slices.Clone(c), i, i+1)
}

// Keep returns the clock without the entries for whose node keep returns false.
func (c Clock[K]) Keep(keep func(K) bool) Clock[K] {
	return slices.DeleteFunc(slices.Clone(c), func(e Entry[K]) bool { return !keep(e.Node) })
}

// Merge returns a clock with the higher counter of every node: the clock of a state
// that includes both.
func (c Clock[K]) Merge(o Clock[K]) Clock[K] {
	out := make(Clock[K], 0, max(len(c), len(o)))
	walk(c, o, func(node K, a, b uint64, _, _ bool) {
		out = append(out, Entry[K]{Node: node, Count: max(a, b)})
	})
	return out
}

// Compare returns the relation of c to o. A missing entry is older than any entry
// of the other clock, even one that counts 0.
func (c Clock[K]) Compare(o Clock[K]) Relation {
	var less, more bool
	walk(c, o, func(_ K, a, b uint64, inA, inB bool) {
		less = less || !inA || inB && a < b
		more = more || !inB || inA && a > b
	})
	switch {
	case less && more:
		return Concurrent
	case less:
		return Before
	case more:
		return After
	}
	return Same
}

// walk visits the nodes of both clocks in order.
func walk[K cmp.Ordered](a, b Clock[K], visit func(node K, a, b uint64, inA, inB bool)) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Node < b[0].Node:
			visit(a[0].Node, a[0].Count, 0, true, false)
			a = a[1:]
		case len(a) == 0 || b[0].Node < a[0].Node:
			visit(b[0].Node, 0, b[0].Count, false, true)
			b = b[1:]
		default:
			visit(a[0].Node, a[0].Count, b[0].Count, true, true)
			a, b = a[1:], b[1:]
		}
	}
}

// Valid reports whether the entries are sorted by node without repeats; a clock from outside may violate
// this.
func (c Clock[K]) Valid() bool {
	for i := 1; i < len(c); i++ {
		if c[i-1].Node >= c[i].Node {
			return false
		}
	}
	return true
}
