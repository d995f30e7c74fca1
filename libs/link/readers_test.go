package link

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestReaders: one connection of a lane is read at a time, the newest one waits, and
// a late older one ends nothing.
func TestReaders(t *testing.T) {
	r := NewReaders[string]()
	lane := LaneID{Client: 7, Lane: 1}
	enter := func(number uint64, c, want string) {
		t.Helper()
		e := r.Enter(lane, number, c)
		if got := fmt.Sprintf("refused %t read %t cut %v", e.Refused, e.Read, e.Older); got != want {
			t.Errorf("%s: %s, not %s", c, got, want)
		}
	}
	leave := func(c, want string) {
		t.Helper()
		if next, _ := r.Leave(lane, c); next != want {
			t.Errorf("after %s: %q, not %q", c, next, want)
		}
	}
	leave("nobody", "")
	enter(3, "a", "refused false read true cut []")
	enter(2, "late", "refused true read false cut []")
	enter(3, "again", "refused true read false cut []")
	enter(4, "b", "refused false read false cut [a]")
	enter(6, "c", "refused false read false cut [b a]")
	enter(5, "late", "refused true read false cut []")
	leave("b", "") // it waited, and waits no more
	if e := r.Enter(LaneID{Client: 7, Lane: 2}, 1, "other"); !e.Read {
		t.Error("another lane has to wait")
	}
	if all := slices.Sorted(r.All()); fmt.Sprint(all) != "[a c other]" {
		t.Error(all)
	}
	for range r.All() {
		break
	}
	leave("a", "c")
	leave("a", "")
	enter(7, "d", "refused false read false cut [c]")
	leave("d", "")
	leave("c", "")
	leave("c", "")
	enter(1, "e", "refused false read true cut []")
	leave("e", "")
	if len(r.lanes) != 1 {
		t.Errorf("%d lanes", len(r.lanes))
	}
}

// TestReadersReadOneAtATime: in any order of connections that come and go, one is read
// at a time, and none waits when the lane is free.
func TestReadersReadOneAtATime(t *testing.T) {
	for seed := uint64(1); seed <= 300; seed++ {
		if why := confuseReaders(seed); why != "" {
			t.Fatalf("seed %d: %s", seed, why)
		}
	}
}

// confuseReaders lets connections of one lane come, be superseded and leave in random
// order, and returns what is wrong.
func confuseReaders(seed uint64) string {
	d := rand.New(rand.NewPCG(seed, 3))
	r, lane := NewReaders[uint64](), LaneID{Client: 1}
	reading, last := map[uint64]bool{}, uint64(0)
	var open []uint64
	read := func(c uint64) string {
		reading[c] = true
		if len(reading) > 1 {
			return fmt.Sprintf("%v are read at a time", reading)
		}
		if c < last {
			return fmt.Sprintf("%d is read after %d", c, last)
		}
		last = c
		return ""
	}
	for n := uint64(1); n <= 50; n++ {
		number := n
		if d.IntN(4) == 0 {
			number = n - d.Uint64N(n)
		}
		if !slices.Contains(open, number) {
			if e := r.Enter(lane, number, number); !e.Refused {
				open = append(open, number)
				if e.Read {
					last = min(last, number) // the lane was free
					if why := read(number); why != "" {
						return why
					}
				}
			}
		}
		for len(open) > 0 && (d.IntN(2) == 0 || n == 50) {
			i := d.IntN(len(open))
			c := open[i]
			open = slices.Delete(open, i, i+1)
			delete(reading, c)
			if next, ok := r.Leave(lane, c); ok {
				if why := read(next); why != "" {
					return why
				}
			}
			if len(open) > 0 && len(reading) == 0 && len(slices.Collect(r.All())) > 0 {
				return "a reader waits for nothing"
			}
		}
	}
	if len(r.lanes) > 0 {
		return "a lane without connections is kept"
	}
	return ""
}
