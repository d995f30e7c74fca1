package due_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/due"
	"github.com/roost-cluster/roost/libs/sharding"
)

type element struct {
	due.Failure
	id int
}

func (e *element) Owner() sharding.Entity {
	return sharding.Entity{Type: sharding.EntityType(fmt.Sprint("T", e.id%3)), ID: sharding.EntityID(fmt.Sprint(e.id))}
}

func (e *element) Compare(o *element) int { return cmp.Compare(e.id, o.id) }

// TestFailing: against lists, elements are retried at their times, in the order in which they have failed, and those
// that have been failing for longest are listed first.
func TestFailing(t *testing.T) {
	for seed := range uint64(30) {
		rng, now := rand.New(rand.NewPCG(seed, 1)), time.Unix(1000, 0)
		var f due.Failing[*element]
		in, queue := map[*element]bool{}, []*element{} // all elements; those that wait, in the order in which they have failed
		for range 200 {
			now = now.Add(time.Duration(rng.IntN(3)) * time.Second)
			e := &element{id: rng.IntN(1 << 30)}
			if old := slices.SortedFunc(maps.Keys(in), (*element).Compare); len(old) > 0 && rng.IntN(3) > 0 {
				e = old[rng.IntN(len(old))]
			}
			in[e] = true
			switch at := now.Add(time.Duration(rng.IntN(9)) * time.Second); {
			case !f.Queued(e):
				f.Fail(e, now, sharding.Unavailable, "")
				f.Retry(e, at)
				queue = append(queue, e)
			case rng.IntN(2) == 0:
				f.Hasten(e, at)
			default:
				f.Clear(e)
				queue = slices.DeleteFunc(queue, func(o *element) bool { return o == e })
				delete(in, e)
			}
			if rng.IntN(4) == 0 {
				copies := map[*element]*element{}
				for e := range in { // order-free: copies
					x := *e
					copies[e] = &x
				}
				clone := func(e *element) *element { return copies[e] }
				f = f.Clone(clone)
				queue, in = due.Map(queue, clone), map[*element]bool{}
				for _, e := range copies { // order-free: copies
					in[e] = true
				}
			}
			want := slices.DeleteFunc(slices.Clone(queue), func(e *element) bool { return e.RetryAt.After(now) })
			slices.SortStableFunc(want, func(a, b *element) int { return a.RetryAt.Compare(b.RetryAt) })
			for _, e := range want {
				if alarm := f.Alarm(); !alarm.Equal(e.RetryAt) {
					t.Fatalf("seed %d: the alarm is at %v, want %v", seed, alarm, e.RetryAt)
				}
				if got, ok := f.Due(now); !ok || got != e {
					t.Fatalf("seed %d: %v is retried, want %v", seed, got, e)
				}
				queue = slices.DeleteFunc(queue, func(o *element) bool { return o == e })
			}
			if e, ok := f.Due(now); ok || f.Waiting() != len(queue) || f.Len() != len(in) {
				t.Fatalf("seed %d: %v is retried too early; %d wait, %d are failing, want %d and %d", seed, e, f.Waiting(), f.Len(), len(queue), len(in))
			}
			if err := f.Check(in); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			of := sharding.Entity{Type: "T1"}
			sorted := slices.SortedFunc(maps.Keys(in), func(a, b *element) int { return cmp.Or(a.Since.Compare(b.Since), a.Compare(b)) })
			sorted = slices.DeleteFunc(sorted, func(e *element) bool { return e.Owner().Type != of.Type })
			if got := f.First(of, 3); !slices.Equal(got, sorted[:min(3, len(sorted))]) || f.Types()[of.Type] != len(sorted) {
				t.Fatalf("seed %d: the first of %v are %v, of %d", seed, sorted, got, f.Types()[of.Type])
			}
		}
	}
}

// TestTimes: zero times are none.
func TestTimes(t *testing.T) {
	a, b := time.Unix(1, 0), time.Unix(2, 0)
	if at := due.Earliest(time.Time{}, b, time.Time{}, a, b); !at.Equal(a) || !due.Earliest(time.Time{}).IsZero() {
		t.Errorf("the earliest is %v", at)
	}
	if due.Left(b, a) != 0 || due.Left(a, b) != time.Second || due.Left(a, time.Time{}) != -1 {
		t.Error("the time left is wrong")
	}
}
