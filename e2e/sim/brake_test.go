package sim

import (
	"fmt"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// brakeWorld is a world in which nothing fails, with clients that never stop. Only one shard moves at
// a time, so that a rebalance takes a while.
type brakeWorld struct {
	*World
	t *testing.T
}

func newBrakeWorld(t *testing.T, seed uint64) *brakeWorld {
	w := newWorld(classic, seed, nil)
	w.weather = w.weather.calm()
	w.weather.Rollout, w.weather.Forms, w.weather.Newer, w.weather.Think, w.weather.Patience = false, false, 0, 5*ms, 10*sec
	w.weather.JournalDelay, w.weather.Delay, w.weather.Loop = 2*ms, ms, ms
	w.weather.Handoffs, w.weather.HandoffsPerRegion = 1, 0
	for i, p := range w.processes {
		if i != firstGateway-1 {
			w.after(int64(i)*10*ms, p.start)
		}
	}
	for i := range 60 {
		c := &client{w: w, id: i, gateway: i % gateways}
		w.clients = append(w.clients, c)
		w.after(3*sec, c.think)
	}
	return &brakeWorld{World: w, t: t}
}

func (w *brakeWorld) failed() bool { return w.broken != nil || w.t.Failed() }

// pass lets time pass, and checks that nothing is broken.
func (w *brakeWorld) pass(d int64) {
	w.t.Helper()
	w.run(w.now+d, w.failed)
	if w.broken != nil {
		w.t.Fatal(w.failure())
	}
}

// until lets time pass until something is so.
func (w *brakeWorld) until(what string, d int64, so func() bool) {
	w.t.Helper()
	for end := w.now + d; !so(); w.pass(50 * ms) {
		if w.now >= end {
			w.t.Fatalf("seed %d: %v is not enough until %s: %+v", w.seed, nanos(d), what, w.brake())
		}
	}
}

func (w *brakeWorld) brake() coordinator.BrakeView {
	for _, c := range w.activeCoordinators() {
		return c.core.Steering().Brake
	}
	return coordinator.BrakeView{}
}

// pinAll pins all shards to a region.
func (w *brakeWorld) pinAll(p *process) {
	var pins []coordinator.Pin
	for _, t := range types {
		for i := range t.Shards {
			pins = append(pins, coordinator.Pin{Shard: sharding.ShardID{Type: t.Type, Index: i}, Region: p.name})
		}
	}
	w.wish(coordinator.PinShards{Pins: pins})
}

// gather moves all shards to a region, and waits until that has no effect any more: it may have slowed commands enough to
// stop moves.
func (w *brakeWorld) gather(p *process) {
	w.pinAll(p)
	w.until("all shards are at the first region", 60*sec, func() bool { return len(w.journal.newest) >= 8 && w.away(p) == 0 })
	w.pass(5 * sec) // until moves are stopped, if they are
	w.until("the brake is released", 60*sec, func() bool { return w.brake().Since.IsZero() })
	w.pass(5 * sec)
}

// away counts the shards that are not at a region.
func (w *brakeWorld) away(p *process) (n int) {
	for _, row := range w.journal.newest { // order-free: counts
		if row.Owner != p.id() || row.Phase != sharding.Serving {
			n++
		}
	}
	return n
}

// journalSlows: the journal becomes slow while shards move. Voluntary moves stop within three windows
// and two seconds, and go on by themselves while it is slow.
func journalSlows(t *testing.T, seed uint64) {
	w := newBrakeWorld(t, seed)
	r1, r2 := w.processes[firstRegion], w.processes[firstRegion+1]
	w.pass(8 * sec)
	w.gather(r1)
	w.weather.JournalDelay = 120 * ms
	w.pinAll(r2)
	slowSince := w.now
	w.until("moves are stopped", 5*sec, func() bool { return w.brake().State == coordinator.BrakeStopped })
	if w.away(r2) == 0 {
		t.Fatalf("seed %d: all shards have moved before", seed)
	}
	stopped := w.now
	w.until("one is tried", 10*sec, func() bool { return w.brake().Trials > 0 })
	for _, b := range w.journal.begun {
		if b > stopped+500*ms && b < stopped+brakePause {
			t.Errorf("seed %d: a shard begins to move %v after moves are stopped", seed, nanos(b-stopped))
		}
	}
	w.until("all shards have moved", 120*sec, func() bool { return w.away(r2) == 0 })
	w.weather.JournalDelay = 2 * ms
	w.until("the brake is released", 60*sec, func() bool { return w.brake().Since.IsZero() })
	t.Logf("seed %d: stopped after %v, all have moved after %v", seed, nanos(stopped-slowSince), nanos(w.now-slowSince))
}

// imbalance: a region that has all shards becomes slow, because it has too much to do. Its shards
// move to others, and all is quick again.
func imbalance(t *testing.T, seed uint64) {
	w := newBrakeWorld(t, seed)
	r1 := w.processes[firstRegion]
	w.pass(8 * sec)
	w.gather(r1)
	usual := w.brake()
	w.weather.Burden = 20 * ms
	w.pass(2 * sec)
	w.until("moves are stopped", 10*sec, func() bool { return w.brake().State == coordinator.BrakeStopped })
	w.unsteer()
	slow := w.brake()
	if slow.Samples > usual.Samples/2 {
		t.Fatalf("seed %d: %d commands in a second, usually %d: there is no imbalance", seed, slow.Samples, usual.Samples)
	}
	w.until("the shards are spread", 90*sec, func() bool {
		per := map[sharding.NodeID]int{}
		for _, row := range w.journal.newest { // order-free: counts
			per[row.Owner]++
		}
		return len(per) == 3 && per[r1.id()] <= burdenFrom
	})
	w.until("the brake is released", 60*sec, func() bool { return w.brake().Since.IsZero() })
	// Clients send the next command when the last one is answered.
	w.until("commands are quick again", 30*sec, func() bool { return w.brake().Samples > usual.Samples/2 })
	t.Logf("seed %d: %d commands in a second, then %d, now %d", seed, usual.Samples, slow.Samples, w.brake().Samples)
}

// TestBrake: slow commands hold voluntary moves back, and do not preserve what makes them slow.
func TestBrake(t *testing.T) {
	for seed := uint64(1); seed <= number64(t, "SIM_BRAKE_SEEDS", 3); seed++ {
		t.Run(fmt.Sprint("journal/", seed), func(t *testing.T) { journalSlows(t, seed) })
		t.Run(fmt.Sprint("imbalance/", seed), func(t *testing.T) { imbalance(t, seed) })
	}
}
