package vclock

import (
	"slices"
	"testing"
)

// node maps a byte to one of nine nodes, "a" to "i".
func node(b byte) string { return string('a' + rune(b%9)) }

// clocks derives three clocks from bytes: pairs of a node and its count, in any order,
// counts of 0 included.
func clocks(raw []byte) (a, b, c Clock[string]) {
	maps := [3]map[string]uint64{{}, {}, {}}
	for len(raw) >= 2 {
		maps[int(raw[0])/9%3][node(raw[0])] = uint64(raw[1] % 5)
		raw = raw[2:]
	}
	return fromMap(maps[0]), fromMap(maps[1]), fromMap(maps[2])
}

// relate is an independent implementation of Compare, by the definition.
func relate(a, b Clock[string]) Relation {
	atMost := func(a, b Clock[string]) bool { // a <= b
		for _, e := range a {
			if !slices.ContainsFunc(b, func(o Entry[string]) bool { return o.Node == e.Node && o.Count >= e.Count }) {
				return false
			}
		}
		return true
	}
	switch ab, ba := atMost(a, b), atMost(b, a); {
	case ab && ba:
		return Same
	case ab:
		return Before
	case ba:
		return After
	}
	return Concurrent
}

// FuzzLaws checks the laws of vector clocks.
func FuzzLaws(f *testing.F) {
	f.Add([]byte{0, 1, 9, 1, 18, 1})
	f.Add([]byte{0, 0, 10, 0, 19, 3, 1, 2, 2, 3, 11, 3})
	f.Add([]byte{0, 4, 1, 4, 9, 4, 10, 3, 18, 4, 20, 1, 26, 2})
	f.Add([]byte{8, 1, 7, 1, 6, 1, 5, 1, 9, 1, 10, 1, 11, 1, 22, 1, 23, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, b, c := clocks(raw)
		copies := []Clock[string]{slices.Clone(a), slices.Clone(b), slices.Clone(c)}
		compare(t, a, b, c)
		merge(t, a, b, c)
		for i := range byte(9) {
			tick(t, a, b, node(i))
			prune(t, a, b, node(i))
		}
		for i, now := range []Clock[string]{a, b, c} {
			if !slices.Equal(now, copies[i]) {
				t.Errorf("%v was changed to %v", copies[i], now)
			}
		}
	})
}

// compare: Compare is a partial order.
func compare(t *testing.T, a, b, c Clock[string]) {
	back := map[Relation]Relation{Same: Same, Before: After, After: Before, Concurrent: Concurrent}
	ab, bc := a.Compare(b), b.Compare(c)
	if want := relate(a, b); ab != want {
		t.Errorf("%v is %v %v, want %v", a, ab, b, want)
	}
	if a.Compare(a) != Same || (ab == Same) != slices.Equal(a, b) {
		t.Errorf("same is not equal: %v, %v", a, b)
	}
	if b.Compare(a) != back[ab] {
		t.Errorf("%v is %v %v, but the other way round %v", a, ab, b, b.Compare(a))
	}
	if ab == bc && ab != Concurrent && a.Compare(c) != ab {
		t.Errorf("not transitive: %v is %v %v is %v %v, but %v", a, ab, b, bc, c, a.Compare(c))
	}
}

// merge: Merge returns the least upper bound.
func merge(t *testing.T, a, b, c Clock[string]) {
	ab := a.Merge(b)
	if !ab.Valid() || !slices.Equal(a.Merge(a), a) || !slices.Equal(ab, b.Merge(a)) || !slices.Equal(ab.Merge(c), a.Merge(b.Merge(c))) {
		t.Errorf("merge is not idempotent, commutative and associative: %v %v %v", a, b, c)
	}
	if r := a.Compare(ab); r != Same && r != Before {
		t.Errorf("%v is %v its merge with %v", a, r, b)
	}
	below := func(x, y Clock[string]) bool { r := x.Compare(y); return r == Same || r == Before }
	if below(a, c) && below(b, c) && !below(ab, c) {
		t.Errorf("the merge of %v and %v is not below %v, which includes both", a, b, c)
	}
}

// tick: a ticked clock is strictly after the one before, by one count of one node.
func tick(t *testing.T, a, b Clock[string], n string) {
	ticked := a.Tick(n)
	if !ticked.Valid() || a.Compare(ticked) != Before || ticked.Count(n) != a.Count(n)+1 {
		t.Errorf("%v ticked by %s is %v", a, n, ticked)
	}
	if r := ticked.Compare(b); b.Count(n) <= a.Count(n) && r != After && r != Concurrent {
		t.Errorf("%v, ticked by %s, is %v %v, which does not know of it", a, n, r, b)
	}
}

// prune: Prune removes one node, and commutes with Merge.
func prune(t *testing.T, a, b Clock[string], n string) {
	pruned := a.Prune(n)
	if !pruned.Valid() || pruned.Count(n) != 0 || !slices.Equal(pruned.Prune(n), pruned) {
		t.Errorf("%v without %s is %v", a, n, pruned)
	}
	if !slices.Equal(a.Merge(b).Prune(n), pruned.Merge(b.Prune(n))) {
		t.Errorf("%v and %v without %s: pruning does not commute with merging", a, b, n)
	}
	if kept := a.Keep(func(k string) bool { return k != n }); !slices.Equal(kept, pruned) {
		t.Errorf("%v without %s is %v, kept the others: %v", a, n, pruned, kept)
	}
	if r := a.Compare(b); r == Same || r == Before { // pruning keeps the order
		if r := pruned.Compare(b.Prune(n)); r != Same && r != Before {
			t.Errorf("%v is below %v, but without %s it is %v", a, b, n, r)
		}
	}
}
