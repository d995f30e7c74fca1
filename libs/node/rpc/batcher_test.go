package rpc_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/roost-cluster/roost/libs/node/rpc"
)

// TestBatcherGathers: one call per address at a time, in order, without loss; a slow
// address does not delay the others.
func TestBatcherGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := map[string][][]int{}
		release := make(chan struct{})
		limits := rpc.BatchLimits{Call: 10, CallBytes: 100, Messages: 10, Bytes: 100}
		o := rpc.NewBatcher(limits, func(int) int { return 1 }, func(to string, ms []int) {
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

// TestBatcherIsBounded: the messages that wait for an address are bounded in number and
// bytes, and a repeated message takes no space.
func TestBatcherIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls [][]string
		release := make(chan struct{})
		limits := rpc.BatchLimits{Call: 2, CallBytes: 10, Messages: 3, Bytes: 10}
		o := rpc.NewBatcher(limits, func(m string) int { return len(m) }, func(_ int, ms []string) {
			calls = append(calls, slices.Clone(ms))
			<-release
		})
		add := func(m string, want bool) {
			t.Helper()
			if got := o.Add(1, m); got != want {
				t.Errorf("%q: %v", m, got)
			}
			synctest.Wait()
		}
		add("at once", true)
		add("a", true)
		add("0123456789", false) // too many bytes with it
		add("b", true)
		add("a", true) // is waiting already
		add("c", true)
		add("d", false) // too many
		add("b", true)
		for range 3 {
			release <- struct{}{}
			synctest.Wait()
		}
		if want := [][]string{{"at once"}, {"a", "b"}, {"c"}}; !slices.EqualFunc(calls, want, slices.Equal) {
			t.Errorf("calls %q, want %q", calls, want)
		}
		add("0123456789", true) // there is room again
		release <- struct{}{}
	})
}

// TestBatcherCallBytes: a call carries at most CallBytes, but at least one message.
func TestBatcherCallBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls [][]string
		release := make(chan struct{})
		limits := rpc.BatchLimits{Call: 10, CallBytes: 5, Messages: 10, Bytes: 100}
		o := rpc.NewBatcher(limits, func(m string) int { return len(m) }, func(_ int, ms []string) {
			calls = append(calls, slices.Clone(ms))
			<-release
		})
		o.Add(1, "first")
		synctest.Wait()
		for _, m := range []string{"aa", "bbb", "c", "longer than a call", "d"} {
			o.Add(1, m)
		}
		close(release)
		synctest.Wait()
		want := [][]string{{"first"}, {"aa", "bbb"}, {"c"}, {"longer than a call"}, {"d"}}
		if !slices.EqualFunc(calls, want, slices.Equal) {
			t.Errorf("calls %q, want %q", calls, want)
		}
	})
}
