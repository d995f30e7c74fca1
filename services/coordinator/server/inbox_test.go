package server

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wire"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
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
		region, v := wire.ToNode(region1(1)), service{r.Server}
		var mu sync.Mutex
		answers := map[string]int{}
		var calls sync.WaitGroup
		for i := range 50 {
			for name, do := range map[string]func() error{
				"watch": func() error {
					_, err := v.WatchTable(t.Context(), &coordinatorv1.WatchTableRequest{Cluster: "dev"})
					return err
				},
				"register": func() error {
					_, err := v.Register(t.Context(), &coordinatorv1.RegisterRequest{Cluster: "dev", Region: region})
					return err
				},
				"leave": func() error {
					_, err := v.GracefulShutdown(t.Context(), &coordinatorv1.GracefulShutdownRequest{Cluster: "dev", Region: wire.ToNode(region1(2))})
					return err
				},
				"homes": func() error {
					e := wire.ToShardEpoch(sharding.ShardID{Type: "T0", Index: uint32(i) % 4}, 0)
					_, err := v.GetShardHomes(t.Context(), &coordinatorv1.GetShardHomesRequest{Cluster: "dev", Shards: []*coordinatorv1.ShardEpoch{e}})
					return err
				},
				"report": func() error {
					_, err := v.ReportShards(t.Context(), &coordinatorv1.ReportShardsRequest{Cluster: "dev", Region: region})
					return err
				},
				"journal": func() error {
					_, err := v.ReportJournal(t.Context(), &coordinatorv1.ReportJournalRequest{Cluster: "dev", Region: region})
					return err
				},
				"look": func() error { return r.look(context.Background(), func() error { return nil }) },
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
			r.hostShard(coordinator.HostShard{To: region1(1), Term: 1, Shard: sharding.ShardID{Type: "T0", Index: i}})
		}
		synctest.Wait()
		if !r.text.has("too many messages wait for a region") {
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
