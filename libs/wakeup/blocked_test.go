package wakeup_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// TestHangHoldsNobodyBack: an entity whose handler hangs, and which has more reminders than are
// read at a time, or than may wait in memory, holds back no other one of its shard. When the
// handler continues, all of them fire, in the order in which they were due.
func TestHangHoldsNobodyBack(t *testing.T) { hangHoldsNobodyBack(t) }

func hangHoldsNobodyBack(t testing.TB) {
	const limit = 30
	for _, count := range []int{9, 10, 20, limit, 100} {
		m := newModel(t, 7, func(c *wakeup.Config) { c.Page, c.BlockedWakes, c.FailingWakes, c.Wakes = 10, limit, 5, 100 })
		m.claimAll()
		due := m.wall() + 2000
		for i := range count {
			m.set("a0", fmt.Sprintf("r%03d", i), due+int64(i), 0, false)
		}
		m.set("a3", "other", due+60_000, 0, false) // of the same shard
		m.hangs = func(f turn.Fire) bool { return f.Entity.ID == "a0" }
		m.pass(70 * time.Second)
		if s := m.k.Stats(); len(m.fired) != 1 || m.fired[0] != "a3/other" || m.latest > 100*time.Millisecond || s.Wakes > limit+1 {
			t.Errorf("%d reminders of an entity that hangs: fired %v, up to %s late, %+v", count, m.fired, m.latest, s)
		}
		m.hangs, m.fired = nil, nil
		m.pass(2 * time.Second)
		if len(m.fired) != count || len(m.entries) != 0 {
			t.Errorf("%d of %d have fired", len(m.fired), count)
		}
		for i, key := range m.fired {
			if want := fmt.Sprintf("a0/r%03d", i); key != want {
				t.Errorf("%s fires before %s", key, want)
				break
			}
		}
	}
}

// TestHangsHoldNobodyBack: nor do more entities that hang than reminders are read at a time.
func TestHangsHoldNobodyBack(t *testing.T) { hangsHoldNobodyBack(t) }

func hangsHoldNobodyBack(t testing.TB) {
	m := newModel(t, 7, func(c *wakeup.Config) { c.Page = 10 })
	m.claimAll()
	for i := range 15 {
		m.set(fmt.Sprintf("a0%d", i), "hangs", m.wall()+2000, 0, false)
	}
	m.set("a3", "other", m.wall()+60_000, 0, false) // of the same shard
	m.hangs = func(f turn.Fire) bool { return f.Wakeup.Name == "hangs" }
	m.pass(70 * time.Second)
	if len(m.fired) != 1 || m.fired[0] != "a3/other" || m.latest > 100*time.Millisecond {
		t.Errorf("fired %v, up to %s late", m.fired, m.latest)
	}
}

// TestSweepAgainInBusyShard: when a sweep begins anew while memory holds all of the shard that is
// read ahead, earlier wake-ups are found in time, and new ones are taken in.
func TestSweepAgainInBusyShard(t *testing.T) { sweepAgainInBusyShard(t) }

func sweepAgainInBusyShard(t testing.TB) {
	m := newModel(t, 7, func(c *wakeup.Config) { c.Page = 10 })
	for i := range 30 {
		m.set(fmt.Sprintf("a0%d", i), "later", m.wall()+40_000, 0, false)
	}
	m.claimAll()
	m.pass(5 * time.Second)
	m.set("a3", "found", m.wall()+1000, 0, true) // the answer of the journal is lost
	m.set("a3", "set", m.wall()+2000, 0, false)
	m.pass(5 * time.Second)
	if len(m.fired) != 2 || m.latest > 100*time.Millisecond {
		t.Errorf("fired %v, up to %s late", m.fired, m.latest)
	}
}
