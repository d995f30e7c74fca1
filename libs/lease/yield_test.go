package lease

import (
	"testing"
	"time"
)

// TestYield: who gives the lease up stands in line for it again, at the place that
// it has by then.
func TestYield(t *testing.T) {
	b := newBench(t, config(1))
	b.step(Yield{}) // nothing is held
	b.run(10 * time.Millisecond)
	b.take()
	b.step(SetRank{Rank: 7})
	b.step(Yield{})
	b.want(Lost{Term: 1}, Observed{Term: 1})
	if !b.rec.Holder.IsZero() || b.rec.Term != 1 {
		t.Errorf("what was given up is %+v", b.rec)
	}
	b.run(2 * time.Second)
	b.want() // others have a head start of 7 × 300 ms
	b.run(200 * time.Millisecond)
	if got, _ := find[Acquired](b.take()); got.Term != 2 {
		t.Errorf("no process took it, and it has term %d, want 2", got.Term)
	}

	b.step(Yield{})
	b.rec = foreign(b.rec.Version+1, 3)
	b.run(2 * time.Second)
	if _, again := find[Acquired](b.take()); again {
		t.Error("acquired although another one has it")
	}
}

func TestYieldInTrouble(t *testing.T) {
	lost := func(spoil func(b *bench)) *bench {
		b := newBench(t, config(1))
		b.step(Tick{})
		b.step(SetRank{Rank: 7})
		b.take()
		spoil(b)
		b.step(Yield{})
		if _, ok := b.h.Valid(b.now); ok {
			t.Error("valid after it was given up")
		}
		return b
	}
	// The answer is lost, and read later.
	b := lost(func(b *bench) { b.mute = true })
	b.mute = false
	b.run(time.Second)
	b.want(Lost{Term: 1}, Observed{Term: 1})
	// A renewal is in progress whose answer is lost.
	b = lost(func(b *bench) { b.mute = true; b.run(510 * time.Millisecond) })
	b.mute = false
	b.run(time.Second)
	b.want(Lost{Term: 1}, Observed{Term: 1})
	if !b.rec.Holder.IsZero() {
		t.Errorf("what was given up is %+v", b.rec)
	}
	// The store is gone: after a TTL others may take over anyway, and when it is
	// back all continues.
	b = lost(func(b *bench) { b.deaf = true })
	b.run(3 * time.Second)
	b.want(Lost{Term: 1})
	b.deaf = false
	b.run(5 * time.Second)
	if got, ok := find[Acquired](b.take()); !ok || got.Term != 2 {
		t.Errorf("with the store back it acquired %+v, %v", got, ok)
	}
	// Given up permanently while it is given up.
	b = lost(func(b *bench) { b.mute = true })
	b.step(Release{})
	b.mute = false
	b.run(time.Second)
	b.want(Lost{Term: 1}, Observed{Term: 1}, Released{})
}
