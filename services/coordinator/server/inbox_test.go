package server

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestInboxIsBounded: calls from outside that find no room are refused, whatever
// they are, and our own jobs are taken in all the same.
func TestInboxIsBounded(t *testing.T) {
	nothing := func() {}
	for _, limits := range []inboxLimits{{calls: 3, bytes: 1000}, {calls: 1000, bytes: 30}} {
		b := newInbox(limits)
		for i := range 3 {
			if !b.offer(10, nothing) {
				t.Errorf("%+v: call %d is refused", limits, i)
			}
		}
		if b.offer(10, nothing) {
			t.Errorf("%+v: one too many is taken", limits)
		}
		b.put(nothing)
		if n := len(b.take()); n != 4 {
			t.Errorf("%+v: %d items", limits, n)
		}
		if !b.offer(10, nothing) {
			t.Errorf("%+v: there is no room again", limits)
		}
	}
	if !newInbox(inboxLimits{calls: 1, bytes: 1}).offer(10, nothing) {
		t.Error("the longest request never finds room")
	}
}

// TestCrowd: a loop that is held up is not asked for more than it may keep. Every
// call is answered, those without room with an error; then all is as before.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		<-r.register(1, 4)
		r.inbox.mu.Lock()
		r.inbox.limits = inboxLimits{calls: 20, bytes: 2000}
		r.inbox.mu.Unlock()
		release := make(chan struct{})
		r.inbox.put(func() { <-release })
		synctest.Wait()
		v := service{r.Server}
		call := func(from sharding.NodeID, m control.Message) error {
			_, err := v.Answer(t.Context(), from, m, 30)
			return err
		}
		send := func(m control.Message) error { return v.Receive(t.Context(), region1(1), []control.Message{m}, 30) }
		var mu sync.Mutex
		answers := map[string]int{}
		var calls sync.WaitGroup
		for i := range 50 {
			for name, do := range map[string]func() error{
				"watch":    func() error { return call(sharding.NodeID{}, control.WatchTable{}) },
				"register": func() error { return call(region1(1), control.Register{}) },
				"leave":    func() error { return call(region1(2), control.GracefulShutdown{}) },
				"homes": func() error {
					return send(control.GetShardHome{Shard: sharding.ShardID{Type: "T0", Index: uint32(i) % 4}})
				},
				"report":  func() error { return send(control.ShardStarted{}) },
				"journal": func() error { return send(control.JournalReport{}) },
				"look":    func() error { return r.look(context.Background(), func() error { return nil }) },
			} {
				calls.Go(func() {
					err := do()
					mu.Lock()
					defer mu.Unlock()
					if errors.Is(err, errCrowded) {
						answers[name]++
					}
				})
			}
			synctest.Wait()
		}
		r.inbox.mu.Lock()
		waiting, size := r.inbox.calls, r.inbox.bytes
		r.inbox.mu.Unlock()
		if waiting > 20 || size > 2000 {
			t.Errorf("%d calls of %d bytes wait", waiting, size)
		}
		if len(answers) != 7 || !r.text.has("too many calls wait for this coordinator") {
			t.Errorf("refused were %v", answers)
		}
		close(release)
		calls.Wait()
		r.in(func() { r.inbox.limits = defaultInbox })
		if term, _, _ := r.state(); term == 0 {
			t.Error("not active any more")
		}
	})
}

// TestOrdersAreBounded: what waits for a region that does not answer is bounded;
// what was left out is counted and said.
func TestOrdersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		held := make(chan struct{})
		r.mu.Lock()
		r.held = held
		r.mu.Unlock()
		for i := range uint32(2 * 65_536) {
			r.outbox.Send(region1(1), control.HostShard{Term: 1, Shard: sharding.ShardID{Type: "T0", Index: i}})
		}
		synctest.Wait()
		if !r.text.has("too many messages wait for a process") {
			t.Error("nothing was said")
		}
		close(held)
		synctest.Wait()
		if n := r.told(); n < 65_536 || n > 65_536+8192 {
			t.Errorf("%d orders arrived", n)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.most > 8192 {
			t.Errorf("a call had %d orders", r.most)
		}
	})
}
