package node_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/roost-cluster/roost/libs/node"
)

// TestOutboxGathers: one call per address at a time, in order, nothing lost;
// a slow address holds nobody else up.
func TestOutboxGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := map[string][][]int{}
		release := make(chan struct{})
		o := node.NewOutbox(func(to string, ms []int) {
			calls[to] = append(calls[to], slices.Clone(ms))
			if to == "slow" {
				<-release
			}
		})
		o.Add("slow", 1)
		synctest.Wait()
		o.Add("slow", 2)
		o.Add("slow", 3)
		o.Add("fast", 4)
		synctest.Wait()
		if len(calls["slow"]) != 1 || len(calls["fast"]) != 1 {
			t.Fatalf("calls %v", calls)
		}
		release <- struct{}{}
		synctest.Wait()
		if got := calls["slow"]; len(got) != 2 || !slices.Equal(got[1], []int{2, 3}) {
			t.Fatalf("calls %v", got)
		}
		release <- struct{}{}
		synctest.Wait()
		o.Add("slow", 5)
		synctest.Wait()
		release <- struct{}{}
		synctest.Wait()
		if got := calls["slow"]; len(got) != 3 || !slices.Equal(got[2], []int{5}) {
			t.Fatalf("calls %v", got)
		}
	})
}
