package sharding_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestFormSets compares sets with maps.
func TestFormSets(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	draw := func() (sharding.FormSet, map[int]bool) {
		var s sharding.FormSet
		m := map[int]bool{}
		for range rng.IntN(5) {
			i := rng.IntN(40)
			s, m[i] = s.With(i), true
		}
		return s, m
	}
	for range 10_000 {
		a, in := draw()
		b, also := draw()
		both, contains := a.Union(b), true
		for i := range 48 {
			if a.Has(i) != in[i] || both.Has(i) != (in[i] || also[i]) {
				t.Fatalf("seed %d: %x and %x: %d", seed, string(a), string(b), i)
			}
			contains = contains && (in[i] || !also[i])
		}
		all := slices.Collect(a.All())
		if a.Contains(b) != contains || both != b.Union(a) || !both.Contains(a) || !both.Contains(b) || a.Union(a) != a {
			t.Fatalf("seed %d: %x and %x: %x", seed, string(a), string(b), string(both))
		}
		if len(all) != len(in) || a.Len() != len(in) || a.End() > 0 && all[len(all)-1] != a.End()-1 {
			t.Fatalf("seed %d: %x has %v, %d, ends at %d", seed, string(a), all, a.Len(), a.End())
		}
		if again := sharding.MakeFormSet(append([]byte(a), 0, 0)); again != a {
			t.Fatalf("seed %d: %x comes back as %x", seed, string(a), string(again))
		}
	}
}

// TestReads: a form is read if it is known, or if it allows the reader's version to
// ignore unknown parts.
func TestReads(t *testing.T) {
	form := func(name string, version, readableBy uint16, shape uint64) sharding.Form {
		return sharding.Form{Kind: sharding.FormOfEvent, Name: name, Version: version, ReadableBy: readableBy, Shape: shape}
	}
	reads := []sharding.Form{form("added", 1, 0, 7), form("added", 2, 0, 8), form("cleared", 1, 0, 9)}
	for _, c := range []struct {
		form sharding.Form
		want bool
	}{
		{form("added", 1, 0, 7), true},
		{form("added", 2, 1, 8), true},  // how far it may be read back changes nothing
		{form("added", 2, 0, 7), false}, // a field has changed, the version has not
		{form("added", 2, 1, 7), false},
		{form("added", 3, 0, 10), false},
		{form("added", 3, 3, 10), false},
		{form("added", 3, 2, 10), true},
		{form("added", 3, 1, 10), true},
		{form("added", 4, 3, 10), false}, // the reader's version is 2
		{form("gone", 1, 0, 7), false},
		{form("gone", 2, 1, 7), false},
		{sharding.Form{Kind: sharding.FormOfInput, Name: "added", Version: 1, Shape: 7}, false},
	} {
		if got := sharding.Reads(reads, c.form); got != c.want {
			t.Errorf("%v, readable by %d: %t", c.form, c.form.ReadableBy, got)
		}
	}
	if sharding.Reads(nil, form("added", 1, 0, 7)) {
		t.Error("a program that reads nothing reads something")
	}
}
