package wakeup_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/storeclock"
	"github.com/roost-cluster/roost/libs/wakeup"
)

// TestClockSetBack: when the clock of the store is set back by an hour, fired wake-ups do not
// fire again, and due ones wait an hour longer.
func TestClockSetBack(t *testing.T) {
	m := newModel(t, 5, nil)
	m.claimAll()
	m.set("a1", "first", m.wall()+1000, 0, false)
	m.set("a1", "second", m.wall()+60_000, 0, false)
	m.set("b1", "often", m.wall()+1000, 20_000, false)
	m.pass(30 * time.Second)
	fired := len(m.fired)
	if fired != 3 { // first, and often at 1 s and 21 s
		t.Fatalf("fired %v", m.fired)
	}
	m.ahead -= time.Hour
	m.pass(50 * time.Minute)
	if len(m.fired) > fired+1 { // one may fire by the old clock, until the new one is seen
		t.Fatalf("fired %v", m.fired)
	}
	m.pass(11 * time.Minute)
	first, second := 0, 0
	for _, f := range m.fired {
		switch f {
		case "a1/first":
			first++
		case "a1/second":
			second++
		}
	}
	if first != 1 || second != 1 {
		t.Errorf("the first fired %d times, the second %d times: %v", first, second, m.fired)
	}
}

// TestClockSetForward: when the clock of the store is set forward by an hour, wake-ups due by then
// fire once; a repeated wake-up gets the number of missed times, and continues from there when the
// clock is set back.
func TestClockSetForward(t *testing.T) {
	m := newModel(t, 5, nil)
	m.claimAll()
	m.set("a1", "once", m.wall()+1_800_000, 0, false)
	m.set("b1", "often", m.wall()+60_000, 60_000, false)
	m.pass(10 * time.Second)
	m.ahead += time.Hour
	m.pass(30 * time.Second)
	if len(m.fired) != 2 || m.missed["b1/often"] != 59 {
		t.Fatalf("fired %v, missed %d", m.fired, m.missed["b1/often"])
	}
	m.ahead -= time.Hour
	m.pass(30 * time.Second)
	fired := len(m.fired) // it may be due once more before the new clock is seen
	m.pass(50 * time.Minute)
	if len(m.fired) != fired {
		t.Errorf("it fires before the time that was reached comes again: %v", m.fired)
	}
}

// TestNoClock: a page of damaged shards alone does not say what the clock of the store is: the
// reminders of other shards fire on time.
func TestNoClock(t *testing.T) { noClock(t) }

func noClock(t testing.TB) {
	m := newModel(t, 6, nil)
	m.claimAll()
	damaged := sharding.ShardID{Type: "Tc", Index: 0}
	m.damaged = damaged
	m.set("a1", "w", m.wall()+3_000, 0, false)
	m.pass(2 * time.Second) // all others are read
	m.claim(damaged)
	m.pass(3 * time.Second)
	if len(m.fired) != 1 || m.latest > 100*time.Millisecond {
		t.Errorf("fired %v, up to %s late", m.fired, m.latest)
	}
}

// TestOneClock: a wake-up that is set some time ahead counts from the clock that decides when it is due.
func TestOneClock(t *testing.T) { oneClock(t) }

func oneClock(t testing.TB) {
	now := time.Now()
	k := wakeup.New(wakeup.DefaultConfig())
	if _, _, known := k.Clock(); known {
		t.Error("a clock is known without a reading")
	}
	var read storeclock.Clock
	read.Read(now, now, now.Add(5*time.Minute))
	k.SetClock(read)
	k.Step(now, wakeup.Tick{}, &wakeup.Outputs{})
	store, at, known := k.Clock()
	if !known || store.Sub(at).Round(time.Second) != 5*time.Minute {
		t.Errorf("the clock of the store shows %s at %s, known %t", store, at, known)
	}
	// A reading that has taken ten seconds: the store's clock may show ten seconds more than the reading.
	read = storeclock.Clock{}
	read.Read(now.Add(-10*time.Second), now, now)
	k = wakeup.New(wakeup.DefaultConfig())
	k.SetClock(read)
	k.Step(now, wakeup.Tick{}, &wakeup.Outputs{})
	if store, at, _ := k.Clock(); !store.Equal(at.Add(10 * time.Second)) {
		t.Errorf("a reminder that is set now counts from %s before the latest time", at.Add(10*time.Second).Sub(store))
	}
}
