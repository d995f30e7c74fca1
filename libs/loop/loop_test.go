package loop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestBounded: what is offered finds room or not, as a whole; what is put does.
func TestBounded(t *testing.T) {
	for _, limits := range []Limits{{Items: 3}, {Bytes: 30}, {Items: 3, Bytes: 1000}, {Items: 1000, Bytes: 30}} {
		b := NewInbox[int](limits)
		if err := b.Offer(20, 1, 2); err != nil {
			t.Errorf("%+v: %v", limits, err)
		}
		if err := b.Offer(20, 3, 4); !errors.Is(err, ErrFull) {
			t.Errorf("%+v: two more: %v", limits, err)
		}
		if err := b.Offer(10, 3); err != nil {
			t.Errorf("%+v: one more: %v", limits, err)
		}
		if err := b.Offer(10, 4); !errors.Is(err, ErrFull) {
			t.Errorf("%+v: one too many: %v", limits, err)
		}
		if !b.Put(5, 6) || !b.Fill(func(items []int) []int { return append(items, 7) }) {
			t.Errorf("%+v: a result is refused", limits)
		}
		if got := b.Take(nil); !slices.Equal(got, []int{1, 2, 3, 5, 6, 7}) {
			t.Errorf("%+v: %v", limits, got)
		}
		if err := b.Offer(10, 8); err != nil {
			t.Errorf("%+v: there is no room again: %v", limits, err)
		}
	}
	b := NewInbox[int](Limits{Items: 1, Bytes: 1})
	if err := b.Offer(10, 1); err != nil {
		t.Errorf("the longest never finds room: %v", err)
	}
	b.Close()
	if err := b.Offer(1, 2); !errors.Is(err, ErrClosed) || b.Put(3) {
		t.Errorf("a closed inbox takes more: %v", err)
	}
	if got := b.Take(nil); !slices.Equal(got, []int{1}) {
		t.Errorf("what waited at the end: %v", got)
	}
}

// TestRun: everything is taken once, in order, as a batch, and before the tick.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewInbox[int](Limits{})
		var got []int
		var batches, ticks int
		ended := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		b.Put(1, 2)
		go func() {
			defer close(ended)
			Run(ctx, b, time.Second, nil, func(batch []int, tick bool) {
				if got = append(got, batch...); len(batch) > 0 {
					batches++
				}
				if tick {
					ticks++
					b.Put(100 * ticks) // comes with the next batch
				}
			})
		}()
		synctest.Wait()
		b.Put(3)
		synctest.Wait()
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if !slices.Equal(got, []int{1, 2, 3, 100, 200}) || batches != 4 || ticks != 2 {
			t.Errorf("%v in %d batches, %d ticks", got, batches, ticks)
		}
		put := func(f func()) error { b.Put(0); f(); return nil }
		if err := Do(ctx, ended, put, func() error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("asked: %v", err)
		}
		cancel()
		<-ended
		nobody := func(func()) error { return nil }
		if err := Do(t.Context(), ended, nobody, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("asked after the end: %v", err)
		}
		gone, stop := context.WithCancel(t.Context())
		stop()
		if err := Do(gone, nil, nobody, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("asked by a caller that is gone: %v", err)
		}
		if err := Do(ctx, nil, func(func()) error { return ErrFull }, nil); !errors.Is(err, ErrFull) {
			t.Errorf("refused: %v", err)
		}
	})
}

// TestRunDue: ticks come when something is due, but not more often than they may, nor much more rarely.
func TestRunDue(t *testing.T) {
	const every = 20 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		b := NewInbox[time.Duration](Limits{})
		began := time.Now()
		due := began
		var mu sync.Mutex // virtual time orders nothing for the race detector
		var ticks []time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		go Run(ctx, b, every, func() time.Time { return due }, func(batch []time.Duration, tick bool) {
			if tick {
				mu.Lock()
				ticks = append(ticks, time.Since(began))
				mu.Unlock()
				due = time.Now().Add(time.Hour)
			}
			for _, in := range batch {
				due = time.Now().Add(in)
			}
		})
		want := func(what string, at ...time.Duration) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(ticks, at) {
				t.Errorf("%s: ticks at %v, want %v", what, ticks, at)
			}
			ticks = nil
		}
		time.Sleep(every)
		want("due from the start", every)
		time.Sleep(980 * time.Millisecond)
		want("nothing is due")
		b.Put(300*time.Millisecond, 100*time.Millisecond) // the last one counts
		time.Sleep(19 * time.Millisecond)
		want("nothing is due yet")
		time.Sleep(time.Millisecond)
		want("nothing for a long time", every+longestWait)
		b.Put(100 * time.Millisecond)
		time.Sleep(110 * time.Millisecond)
		want("something", 2*every+longestWait+80*time.Millisecond)
		b.Put(0)
		b.Put(time.Millisecond)
		time.Sleep(30 * time.Millisecond)
		want("something at once", 3*every+longestWait+80*time.Millisecond)
		cancel()
		synctest.Wait()
	})
}
