package priority

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

type number struct {
	value, place int
}

func (n *number) Before(o *number) bool { return n.value < o.value }
func (n *number) Place() *int           { return &n.place }

// TestQueue: against a sorted list, elements come out in their order, whatever was removed.
func TestQueue(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var q Queue[*number]
		var in []*number
		for i, v := range rng.Perm(100) {
			n := &number{value: v, place: -1}
			if q.Has(n) {
				t.Fatalf("seed %d: has %d, which was never put in", seed, v)
			}
			q.Push(n)
			in = append(in, n)
			if i%3 == 2 {
				k := rng.IntN(len(in))
				q.Remove(in[k])
				if in[k].place != -1 || q.Has(in[k]) {
					t.Fatalf("seed %d: %+v was removed", seed, *in[k])
				}
				in = slices.Delete(in, k, k+1)
			}
		}
		slices.SortFunc(in, func(a, b *number) int { return a.value - b.value })
		for _, every := range []int{1, 2, 7, 101} {
			accepts := func(n *number) bool { return n.value%every == every-1 }
			i := slices.IndexFunc(in, accepts)
			if got, found := q.Find(accepts); found != (i >= 0) || found && got != in[i] {
				t.Fatalf("seed %d: one of every %d is %v, %t", seed, every, got, found)
			}
		}
		for _, want := range in {
			if !q.Has(want) || q[0] != want {
				t.Fatalf("seed %d: the first one is %d, want %d", seed, q[0].value, want.value)
			}
			q.Remove(want)
		}
		if len(q) > 0 {
			t.Fatalf("seed %d: %d are left", seed, len(q))
		}
	}
}

// TestFirst: against a sorted list, the first elements are taken, whatever their order was.
func TestFirst(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		all := rng.Perm(rng.IntN(300))
		switch seed % 3 {
		case 1:
			slices.Sort(all)
		case 2:
			slices.SortFunc(all, func(a, b int) int { return b - a })
		}
		sorted := slices.Sorted(slices.Values(all))
		for _, n := range []int{0, 1, 7, len(all), 1000} {
			if got := First(slices.Values(all), n, cmp.Compare[int]); !slices.Equal(got, sorted[:min(n, len(all))]) {
				t.Fatalf("seed %d: the first %d of %v are %v", seed, n, all, got)
			}
		}
	}
}

// BenchmarkFirst takes a page of as many elements as there may be.
func BenchmarkFirst(b *testing.B) {
	all := map[*number]struct{}{}
	for i := range 50_000 {
		all[&number{value: i * 7919 % 50_000}] = struct{}{}
	}
	for b.Loop() {
		First(maps.Keys(all), 1000, func(a, b *number) int { return cmp.Compare(a.value, b.value) })
	}
}
