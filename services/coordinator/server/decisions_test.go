package server

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestWhy: a running coordinator says why a shard is where it is, and so does the next one, which
// reads what the first has decided.
func TestWhy(t *testing.T) {
	noneLeft(t)
	dir, addr := t.TempDir(), freeAddr(t)
	c := start(t, dir, addr, "static://"+addr, nil)
	f := newRegion(t, []string{addr}, sharding.TypeDesc{Type: "T", Shards: 4})
	f.register(t, addr)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	why := func(req *adminv1.WhyRequest) *adminv1.WhyResponse {
		res, err := adminv1.NewAdminProtobufClient("http://"+c.node.ManagementAddr(), c.client).Why(ctx, req)
		if err != nil {
			return &adminv1.WhyResponse{Unread: err.Error()}
		}
		return res
	}
	if res := why(&adminv1.WhyRequest{Type: "T", Index: 2}); res.Shard.GetEpoch() != "0.0" || res.Cause != "" || len(res.Decisions) > 0 {
		t.Errorf("a shard that was never needed: %v", res)
	}
	var given *adminv1.WhyResponse
	await(t, "the shard has a region", func() bool {
		c.send(homes(3)...) // in vain until the region is up
		given = why(&adminv1.WhyRequest{Type: "T", Index: 2})
		return given.Shard.GetRegion() != ""
	})
	term := given.Term
	if given.Cause != "first-command" || len(given.Decisions) != 1 || given.SinceUnixMs == 0 || given.Decisions[0].Epoch != given.Shard.Epoch || given.Decisions[0].Chosen.GetRegion() == "" {
		t.Errorf("a shard that was needed: %v", given)
	}
	if res := why(&adminv1.WhyRequest{Limit: 2}); len(res.Decisions) != 2 || !res.More || res.Decisions[0].N <= res.Decisions[1].N {
		t.Errorf("what was decided last: %v", res)
	}
	for req, want := range map[*adminv1.WhyRequest]string{
		{Type: "T", Index: 4}:   "twirp error not_found: type T has 4 shards, 0 to 3; roost where finds the shard of an entity",
		{Type: "U"}:             "twirp error not_found: no entity type U; declared are [T]",
		{Limit: 1001}:           "twirp error invalid_argument: limit is 1001, must be at most 1000",
		{Type: "T", Id: "\xff"}: "",
	} { // order-free
		if res := why(req); res.Unread != want && want != "" || res.Unread == "" {
			t.Errorf("%v: %s", req, res.Unread)
		}
	}
	await(t, "the decisions are stored", func() bool {
		j := openJournal(t, dir)
		defer func() { _ = j.Close() }()
		l, err := j.Load(ctx, journal.LoadRequest{Entity: ringEntity})
		return err == nil && len(decodeDecisions(l.Records, nil, 10, always)) > 2
	})
	c.end()
	c = start(t, dir, addr, "static://"+addr, nil)
	await(t, "the next term knows what the first has decided", func() bool {
		res := why(&adminv1.WhyRequest{Type: "T", Index: 2})
		n := len(res.Decisions)
		return res.Term > term && n > 0 && proto.Equal(res.Decisions[n-1], given.Decisions[0]) && res.Unread == ""
	})
	c.end()
}

// TestDecisionsOfSickJournal: decisions wait for a journal that refuses, and the facts go on
// without them; too many are dropped, and the records say so.
func TestDecisionsOfSickJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		limits := coordinator.DefaultRingLimits()
		limits.MaxWaiting, limits.BatchBytes, limits.MaxBytes, limits.MeasureBytes = 2000, 500, 10_000, 1000
		r.in(func() {
			r.ring = coordinator.NewRing(limits)
			r.ring.Begin(r.core.Active(), time.Now())
		})
		<-r.register(1, 1024)
		for i := range uint32(400) {
			r.home(i)
			if i%5 == 0 {
				time.Sleep(50 * time.Millisecond)
			}
		}
		r.serve()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		l, err := r.journal.Load(r.ctx, journal.LoadRequest{Entity: ringEntity})
		total := 0
		for _, rec := range sizesOf(l.Records) {
			total += rec.Bytes
		}
		if err != nil || total == 0 || total > limits.MaxBytes || l.Snapshot.Seq == 0 {
			t.Errorf("%d bytes of decisions are kept after record %d: %v", total, l.Snapshot.Seq, err)
		}
		r.in(func() { // more than may wait, at once
			for i := range uint32(400) {
				r.step(coordinator.Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T0", Index: 400 + i}}})
			}
		})
		r.serve()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if l, err = r.journal.Load(r.ctx, journal.LoadRequest{Entity: ringEntity}); err != nil {
			t.Fatal(err)
		}
		dropped := uint64(0)
		for _, d := range decodeDecisions(l.Records, nil, 1000, always) {
			dropped += d.dropped
		}
		var lost uint64
		r.in(func() { _, lost = r.ring.Waiting() })
		if dropped == 0 || dropped != lost {
			t.Errorf("%d decisions were dropped, the records say %d", lost, dropped)
		}
		res, err := admin{r.Server}.Why(r.ctx, &adminv1.WhyRequest{Type: "T0", Index: 799})
		if err != nil || len(res.Decisions) != 1 || res.Dropped != lost || res.Shard.Phase != "serving" {
			t.Errorf("%v, %v", res, err)
		}
	})
}

func always(*coordinatorv1.Decision) bool { return true }

// TestDecisionIsReadBack: everything of a decision is stored.
func TestDecisionIsReadBack(t *testing.T) {
	d := coordinator.Decision{
		Term: 3, N: 9, At: time.UnixMilli(1_700_000_000_123), Kind: coordinator.HandedOff, Shard: sharding.ShardID{Type: "T", Index: 4},
		From: "r1", To: "r2", Epoch: sharding.MakeEpoch(3, 7), Cause: sharding.CauseMove, Strategy: "external", Request: "move", By: "ann", Reason: "near",
		Moves: 5, Begun: 4, Chosen: coordinator.Weighed{Region: "r2", Shards: 1, Total: 2}, Unlisted: 6, Unweighed: true,
	}
	d.Others[0] = coordinator.Weighed{Region: "r3", Shards: 8, Total: 9, Against: coordinator.AgainstCordon}
	list := decodeDecisions(nil, [][]byte{encodeDecision(&d), {0xff}, encodeDecision(&d)}, 10, always)
	if len(list) != 1 {
		t.Fatalf("%d decisions are read back", len(list))
	}
	got := toDecision(list[0])
	want := &adminv1.Decision{
		Term: 3, N: 9, AtUnixMs: 1_700_000_000_123, Kind: "handed-off", Type: "T", Index: 4, From: "r1", To: "r2", Epoch: "3.7", Cause: "move",
		Strategy: "external", Request: "move", By: "ann", Reason: "near", Moves: 5, Begun: 4, Unlisted: 6, Unweighed: true,
		Chosen: &adminv1.WeighedRegion{Region: "r2", Shards: 1, Total: 2}, Others: []*adminv1.WeighedRegion{{Region: "r3", Shards: 8, Total: 9, Against: "cordon"}},
	}
	if !proto.Equal(got, want) {
		t.Error(fmt.Sprint(got), want)
	}
}
