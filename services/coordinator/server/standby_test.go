package server

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/lease"
	leasememory "github.com/roost-cluster/roost/libs/lease/memory"
	"github.com/roost-cluster/roost/libs/sharding"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// launchStandby starts a coordinator that is not a candidate, while another one holds the lease. It returns the record of the
// lease, and the store that it is in.
func launchStandby(t *testing.T) (*rig, *quiet, lease.Record) {
	t.Helper()
	store := &quiet{Backend: leasememory.New()}
	record := lease.Record{Version: 1, Term: 3, Holder: sharding.NodeID{Addr: "127.0.0.1:2", UID: 9}, TTL: 5 * time.Second, Nonce: 4, Cluster: 4}
	if done, err := store.Swap(t.Context(), "coordinator.dev", lease.Record{}, record); !done || err != nil {
		t.Fatal(done, err)
	}
	r := launchOn(t, coordinator.DefaultConfig(), memory.New(journal.DefaultConfig()), store)
	r.keeper.SetRank(-1)
	return r, store, record
}

// TestLeaseOver: while no coordinator holds the lease, a standby does not send operators to the coordinator that has held it last.
func TestLeaseOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, record := launchStandby(t)
		last := record.Holder
		time.Sleep(time.Second)
		if since, over := r.leaseOver(last); over {
			t.Errorf("the lease ran out at %v, although it holds", since)
		}
		observe := func() *inspectionv1.CoordinatorObservation {
			o, err := r.console.Observe(t.Context(), &inspectionv1.ObserveRequest{Type: "T", Id: "x"})
			if err != nil {
				t.Fatal(err)
			}
			return o.Coordinator
		}
		if said := observe(); said.ActiveAddr != last.Addr || said.Lease != "" {
			t.Errorf("a standby says %v", said)
		}
		time.Sleep(20 * time.Second)
		ask := func() string {
			_, err := r.showActive(func(context.Context, any) (any, error) { return nil, standsBy{last} })(t.Context(), nil)
			return err.Error()
		}
		if says := ask(); !strings.Contains(says, "no coordinator is active: the lease of 127.0.0.1:2 ran out at 2000-01-01T00:00:0") {
			t.Errorf("a standby says %s", says)
		}
		if said := observe(); said.ActiveAddr != "" {
			t.Errorf("%s is active, says a standby, although its lease has run out", said.ActiveAddr)
		}
		store.turn(true)
		time.Sleep(time.Minute)
		if _, over := r.leaseOver(last); over {
			t.Error("a standby that cannot read the lease reports that no coordinator holds it")
		}
		if said := observe(); said.Lease == "" {
			t.Error("a standby does not say that it cannot read the lease")
		}
	})
}

// TestRenewalIsKnownWithTheNextInput: a standby that holds a watch because the lease ends must know of a renewal
// then. At rest, its next tick may come much later.
func TestRenewalIsKnownWithTheNextInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store, record := launchStandby(t)
		for range 20 {
			renewed := record
			renewed.Version, renewed.Nonce = record.Version+1, record.Nonce+1
			if done, err := store.Swap(t.Context(), "coordinator.dev", record, renewed); !done || err != nil {
				t.Fatal(done, err)
			}
			record = renewed
			_, before := r.keeper.Current()
			until := before
			for until.Equal(before) {
				time.Sleep(time.Millisecond)
				_, until = r.keeper.Current()
			}
			var known time.Time
			r.inbox.Put(func() { known = r.known.Until })
			synctest.Wait()
			if !known.Equal(until) {
				t.Errorf("the lease ends at %v, and is taken to end at %v", until, known)
			}
		}
	})
}
