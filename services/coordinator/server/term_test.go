package server

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/lease"
	leasememory "github.com/roost-cluster/roost/libs/lease/memory"
	"github.com/roost-cluster/roost/libs/node/rpc"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestTermAboveEveryEpoch: a lease whose record was lost begins again at term 1,
// below what regions have claimed.
func TestTermAboveEveryEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), func(b *memory.Backend) {
			claim := &sharding.Claim{Shard: sharding.ShardID{Type: "T0"}, Epoch: sharding.MakeEpoch(9, 3), Owner: 5}
			if res, err := b.Commit(t.Context(), []journal.Op{{Claim: claim}}); err != nil || res[0].Verdict != sharding.Durable {
				t.Fatal(res, err)
			}
		})
		if term := r.elected(); term <= 9 {
			t.Errorf("elected in term %d, below an epoch of term 9", term)
		}
	})
}

// TestLapse: a coordinator past its lease publishes nothing, neither new decisions
// nor facts that were durable in time, whatever held it up.
func TestLapse(t *testing.T) { synctest.Test(t, lapse) }

func lapse(t *testing.T) {
	r := drive(t, coordinator.DefaultConfig(), nil)
	if got := outcome(r.register(1, 4)); got != "<nil>" {
		t.Fatal(got)
	}
	// A long batch: the lease ends before what would be answered at once.
	r.store.turn(true)
	again := make(chan rpc.Answer, 1)
	r.inbox.Put(
		func() { time.Sleep(3 * time.Second) },
		func() {
			r.step(coordinator.Received{
				From: region1(1), Call: r.calls.Hold(region1(1), again), Msg: control.Register{Types: []sharding.TypeDesc{{Type: "T0", Shards: 4}}},
			})
		})
	time.Sleep(10 * time.Second)
	select {
	case a := <-again:
		if _, standby := a.Msg.(control.NotActive); !standby && a.Err == nil {
			t.Errorf("past its lease it acknowledges: %+v", a.Msg)
		}
	default:
	}
	// A record becomes durable when the lease is over.
	r.store.turn(false)
	r.elected()
	if got := outcome(r.register(1, 4)); got != "<nil>" {
		t.Fatal(got)
	}
	before := r.told()
	r.backend.fall(errSilent)
	r.home(0)
	r.store.turn(true)
	r.inbox.Put(func() { time.Sleep(3 * time.Second); r.backend.recover(); time.Sleep(time.Second) })
	time.Sleep(10 * time.Second)
	if r.told() > before {
		t.Errorf("past its lease it sends %v", r.orders)
	}
}

// TestRenewedAmongWork: a coordinator whose lease is renewed does not step down because it
// has much to do.
func TestRenewedAmongWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		term := r.elected()
		var batch []func()
		for range 20 {
			batch = append(batch, func() { time.Sleep(500 * time.Millisecond); r.step(coordinator.Tick{}) })
		}
		r.inbox.Put(batch...)
		if now := r.elected(); now != term || r.text.has("stepped down") {
			t.Errorf("it was in term %d and is in %d: %s", term, now, r.text.b.String())
		}
	})
}

// TestSecondCluster: a cluster that was formed on the journal of another one, of
// the same name and with its own lease, ends with a message that names the remedy. The first is not harmed.
func TestSecondCluster(t *testing.T) {
	for name, term2 := range map[string]sharding.Term{"its lease is new": 0, "its lease has a low term": 2, "its lease has a high term": 99} {
		synctest.Test(t, func(t *testing.T) {
			first := drive(t, coordinator.DefaultConfig(), nil)
			for range 3 { // so that its term is not the lowest
				term, _, _ := first.state()
				first.keeper.RaiseTerm(term)
				for now := term; now <= term; {
					time.Sleep(100 * time.Millisecond)
					now = first.elected()
				}
			}
			if got := outcome(first.register(1, 4)); got != "<nil>" {
				t.Fatal(got)
			}
			term, _, _ := first.state()
			time.Sleep(5 * time.Second)
			lease := &quiet{Backend: leasememory.New()}
			if term2 > 0 {
				lease.used(t, term2)
			}
			second := launchOn(t, coordinator.DefaultConfig(), first.backend.Backend, lease)
			time.Sleep(time.Minute)
			if second.failed() == nil || !errors.Is(second.failed(), errContested) || !strings.Contains(second.failed().Error(), driven.Addr) ||
				!strings.Contains(second.failed().Error(), first.lease1().String()) || !strings.Contains(second.failed().Error(), second.lease1().String()) {
				t.Errorf("%s: the second cluster ends with %v: %s", name, second.failed(), second.text.b.String())
			}
			if now, _, _ := first.state(); now != term || first.failed() != nil || first.text.has("fenced") {
				t.Errorf("%s: the first cluster was in term %d and is in %d, %v", name, term, now, first.failed())
			}
			first.home(0)
			time.Sleep(time.Second)
			if first.told() == 0 {
				t.Errorf("%s: the first cluster decides nothing", name)
			}
		})
	}
}

// TestSecondLease: of two coordinators with two leases of one cluster, for example a new one and an older copy, one ends
// with a message about the lease, because there is no other cluster.
func TestSecondLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := drive(t, coordinator.DefaultConfig(), nil)
		time.Sleep(5 * time.Second)
		older := lease.Record{Term: 1, TTL: time.Second, Nonce: 3, Cluster: first.lease1(), Holder: region1(9)}
		copied := &quiet{Backend: leasememory.New()}
		if ok, err := copied.Swap(t.Context(), "coordinator.dev", lease.Record{}, older); !ok || err != nil {
			t.Fatal(ok, err)
		}
		second := launchOn(t, coordinator.DefaultConfig(), first.backend.Backend, copied) // its term is the higher one
		time.Sleep(time.Minute)
		if err := first.failed(); err == nil || !strings.Contains(err.Error(), "the store of the lease was removed") || !strings.Contains(err.Error(), driven.Addr) || errors.Is(err, errContested) {
			t.Errorf("the first coordinator ends with %v", err)
		}
		if second.failed() != nil || second.text.has("fenced") {
			t.Errorf("the second coordinator ends with %v", second.failed())
		}
	})
}

// used makes a record as another cluster's coordinator leaves it.
func (q *quiet) used(t *testing.T, term sharding.Term) {
	r := lease.Record{Term: term, TTL: time.Second, Nonce: 3, Cluster: 3, Holder: region1(9)}
	if ok, err := q.Backend.Swap(t.Context(), "coordinator.dev", lease.Record{}, r); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

// lease1 is whose lease the driver's is.
func (r *rig) lease1() sharding.ClusterID {
	l, err := r.store.Backend.Get(r.ctx, "coordinator.dev")
	if err != nil {
		r.t.Fatal(err)
	}
	return l.Cluster
}

// TestFormerCluster: a journal whose cluster writes no journal heartbeats any more is the
// next one's, whatever the terms of its lease, and the former finds that out when it
// comes back.
func TestFormerCluster(t *testing.T) {
	for name, term2 := range map[string]sharding.Term{"a lost lease record": 0, "a lease of high terms": 99} {
		synctest.Test(t, func(t *testing.T) {
			first := drive(t, coordinator.DefaultConfig(), nil)
			time.Sleep(5 * time.Second)
			first.keeper.SetRank(-1)
			first.in(func() { first.step(coordinator.Lost{Term: first.core.ActiveTerm()}) })
			first.keeper.Yield()
			time.Sleep(time.Second)
			lease := &quiet{Backend: leasememory.New()}
			if term2 > 0 {
				lease.used(t, term2)
			}
			second := launchOn(t, coordinator.DefaultConfig(), first.backend.Backend, lease)
			start := time.Now()
			second.elected()
			if took := time.Since(start); took < 4*time.Second || took > 16*time.Second || !second.text.has("the journal may belong to another cluster") || !second.text.has(first.lease1().String()) {
				t.Errorf("%s: it took over after %v: %s", name, took, second.text.b.String())
			}
			if s, err := second.journal.Heartbeat(t.Context()); err != nil || s.Cluster != second.lease1() {
				t.Errorf("%s: the journal says %+v, %v", name, s, err)
			}
			first.keeper.SetRank(0)
			time.Sleep(time.Minute)
			if !errors.Is(first.failed(), errContested) || second.failed() != nil || second.text.has("fenced") {
				t.Errorf("%s: the former ends with %v, the next with %v", name, first.failed(), second.failed())
			}
		})
	}
}

// TestJournalHeartbeatBeforeFacts: whose journal it is stands there before anything is decided.
func TestJournalHeartbeatBeforeFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		r.in(func() {
			if s, err := r.journal.Heartbeat(t.Context()); err != nil || s.Cluster == 0 || s.Cluster != r.lease1() || s.Coordinator != r.self || s.Term != r.core.ActiveTerm() {
				t.Errorf("in term %d the journal says %+v, %v", r.core.ActiveTerm(), s, err)
			}
		})
	})
}
