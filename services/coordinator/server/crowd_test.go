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

// TestCrowd: while the loop is held up, no more calls wait than there is room for. Every
// call is answered, those without room with an error; then all is as before.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		<-r.register(1, 4)
		release := make(chan struct{})
		r.inbox.Put(func() { <-release })
		synctest.Wait()
		const room = 20
		for range inboxLimits.Items - room {
			r.inbox.Put(func() {})
		}
		v := service{r.Server}
		call := func(from sharding.NodeID, m control.Message) error {
			_, err := v.Answer(t.Context(), from, m, 30)
			return err
		}
		send := func(m control.Message) error { return v.Receive(t.Context(), region1(1), []control.Message{m}, 30) }
		var mu sync.Mutex
		waiting, refused := 0, map[string]int{}
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
					mu.Lock()
					waiting++
					mu.Unlock()
					err := do()
					mu.Lock()
					defer mu.Unlock()
					if waiting--; errors.Is(err, errCrowded) {
						refused[name]++
					}
				})
			}
			synctest.Wait()
		}
		if waiting > room {
			t.Errorf("%d calls wait", waiting)
		}
		if len(refused) != 7 || !r.text.has("too many calls wait for this coordinator") {
			t.Errorf("refused were %v", refused)
		}
		close(release)
		calls.Wait()
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
