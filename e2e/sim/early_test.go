package sim

import (
	"fmt"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// sendsWake crashes regions in weather in which nothing else fails, and in which sends are retried after an hour.
// No send may fail any more soon after the shard of its target is served again. sendsWake
// describes those that do, and returns the number of attempts that failed.
func sendsWake(t testing.TB, seed uint64) (failing string, attempts int) {
	w := newWorld(harsh, seed, nil)
	w.weather = w.weather.calm()
	w.weather.Rollout, w.weather.Forms, w.weather.Newer, w.weather.Join, w.weather.LateSecond = false, false, 0, false, false
	w.weather.Harsh.Send, w.weather.Harsh.SendAge, w.weather.SendPause = 0.4, 0, 3600*sec
	w.weather.Think, w.weather.Patience = 100*ms, 5*sec
	for i, p := range w.processes {
		w.after(int64(i)*10*ms, p.start)
	}
	for i := range 6 {
		c := &client{w: w, id: i, gateway: i % gateways}
		w.clients = append(w.clients, c)
		w.after(3*sec, c.think)
	}
	pass := func(d int64) {
		w.run(w.now+d, func() bool { return w.broken != nil })
		if w.broken != nil {
			t.Fatal(w.failure())
		}
	}
	pass(8 * sec)
	for n := range 3 {
		p := w.processes[firstRegion+n%regions]
		p.crash("by the test")
		pass(10 * sec)
		p.start()
		pass(5 * sec)
	}
	w.calm = true // the clients stop
	pass(15 * sec)
	return failingSends(w), w.marks["send: attempt is not_applied"] + w.marks["send: attempt is unknown"]
}

// failingSends describes sends that fail, except those whose answer the sender has not taken: no process is in the way
// of these.
func failingSends(w *World) (text string) {
	for _, p := range w.processes[firstRegion:firstGateway] {
		if n, ok := p.body.(*regionNode); ok {
			for _, s := range n.shards {
				for _, f := range s.core.FailingSends(sharding.Entity{}, 100) {
					if !f.Answer {
						text += fmt.Sprintf("%v to %v failed %d times, first %v ago: %s %s; ", f.From, f.To, f.Times, p.now().Sub(f.Since), f.Code, f.Message)
					}
				}
			}
		}
	}
	return text
}

func TestSendsWake(t *testing.T) {
	failed := 0
	for seed := uint64(1); seed <= 10; seed++ {
		s, attempts := sendsWake(t, seed)
		if failed += attempts; s != "" {
			t.Errorf("seed %d: 15 s after the last region is up: %s", seed, s)
		}
	}
	if failed == 0 {
		t.Error("no attempt failed")
	}
}
