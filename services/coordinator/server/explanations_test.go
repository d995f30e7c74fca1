package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/coordinator/console"
)

func TestWhyOnSQLite(t *testing.T) {
	noneLeft(t)
	checkWhy(t, "sqlite:"+t.TempDir()+"/journal.db")
}

// checkWhy: a running coordinator gives the reason for a shard's region, and so does the next one,
// which reads the first one's decisions. A coordinator that stops stores its explanations first.
func checkWhy(t *testing.T, url string) {
	dir, addr := t.TempDir(), freeAddr(t)
	onJournal := func(cfg *Config) { cfg.Journal.URL = url }
	c := start(t, dir, addr, "static://"+addr, onJournal)
	desc := sharding.TypeDesc{Type: "T", Shards: 4, Rule: sharding.ShardRule{Separator: ":"}}
	f := newRegion(t, []string{addr}, desc)
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
	for id, key := range map[string]string{"a:1": "a", "a": ""} { // order-free
		if res := why(&adminv1.WhyRequest{Type: "T", Id: id}); res.Shard.GetIndex() != desc.ShardOf(sharding.EntityID(id)).Index || res.ShardKey != key {
			t.Errorf("the shard of the entity %s: %v", id, res)
		}
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
		{Type: "T", Index: 4}:   "twirp error not_found: type T has 4 shards, 0 to 3; roost shard show finds the shard of an entity",
		{Type: "U"}:             "twirp error not_found: no entity type U; declared are T",
		{Limit: 1001}:           "twirp error invalid_argument: limit is 1001, must be at most 1000",
		{Type: "T", Id: "\xff"}: "",
	} { // order-free
		if res := why(req); res.Unread != want && want != "" || res.Unread == "" {
			t.Errorf("%v: %s", req, res.Unread)
		}
	}
	c.send(homes(4)...)
	await(t, "the last shard has a region", func() bool {
		return why(&adminv1.WhyRequest{Type: "T", Index: 3}).Shard.GetRegion() != ""
	})
	c.end() // within a second of the last explanation, which is not stored yet
	// It joins the region: a cluster of its own would be the junior one of two.
	c = start(t, dir, addr, "static://"+addr+","+f.self.Addr, onJournal)
	await(t, "the next term knows what the first has decided", func() bool {
		res := why(&adminv1.WhyRequest{Type: "T", Index: 2})
		n := len(res.Decisions)
		return res.Term > term && n > 0 && proto.Equal(res.Decisions[n-1], given.Decisions[0]) && res.Unread == ""
	})
	if res := why(&adminv1.WhyRequest{Type: "T", Index: 3}); len(res.Decisions) == 0 || res.Decisions[len(res.Decisions)-1].Term != term {
		t.Errorf("what the first coordinator has decided last: %v", res)
	}
	keepsBound(t, c)
	c.end()
}

// keepsBound fills a small log of a running coordinator. The journal keeps the newest records only.
func keepsBound(t *testing.T, c *running) {
	const n = 400
	limits := coordinator.DefaultExplanationLimits()
	limits.BatchBytes, limits.MaxBytes, limits.MeasureBytes, limits.BatchWait = 400, 4000, 1000, 10*time.Millisecond
	if err := c.server.look(t.Context(), func() error {
		s, now := c.server, time.Now()
		s.explanations = coordinator.NewExplanationLog(limits)
		s.explanations.Begin(s.core.ActiveTerm(), now)
		for i := range n {
			s.explanations.Add(now, console.EncodeExplanation(&coordinator.Explanation{Term: s.core.ActiveTerm(), N: uint64(1000 + i), Strategy: "load"}))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	await(t, "the log has the newest explanations, and keeps its bound", func() bool {
		l, err := c.server.journal.Load(t.Context(), journal.LoadRequest{Entity: wire.DecisionsEntity})
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, r := range sizesOf(l.Records) {
			size += r.Bytes
		}
		kept := console.DecodeExplanations(l.Records, nil, 1, always)
		return l.Snapshot.Seq > 0 && size <= limits.MaxBytes && len(kept) == 1 && kept[0].N == 1000+n-1
	})
}

// TestDecisionsOfSickJournal: explanations wait for a journal that refuses, and the facts go on
// without them; too many are dropped, and the records say so.
func TestDecisionsOfSickJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		limits := coordinator.DefaultExplanationLimits()
		limits.MaxWaiting, limits.BatchBytes, limits.MaxBytes, limits.MeasureBytes = 2000, 500, 10_000, 1000
		r.in(func() {
			r.explanations = coordinator.NewExplanationLog(limits)
			r.explanations.Begin(r.core.ActiveTerm(), time.Now())
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
		l, err := r.journal.Load(r.ctx, journal.LoadRequest{Entity: wire.DecisionsEntity})
		total := 0
		for _, rec := range sizesOf(l.Records) {
			total += rec.Bytes
		}
		if err != nil || total == 0 || total > limits.MaxBytes || l.Snapshot.Seq == 0 {
			t.Errorf("%d bytes of explanations are kept after record %d: %v", total, l.Snapshot.Seq, err)
		}
		r.in(func() { // more than may wait, at once
			for i := range uint32(400) {
				r.step(coordinator.Received{Msg: control.GetShardHome{Shard: sharding.ShardID{Type: "T0", Index: 400 + i}}})
			}
		})
		r.serve()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if l, err = r.journal.Load(r.ctx, journal.LoadRequest{Entity: wire.DecisionsEntity}); err != nil {
			t.Fatal(err)
		}
		dropped := uint64(0)
		for _, d := range console.DecodeExplanations(l.Records, nil, 1000, always) {
			dropped += d.Dropped
		}
		var lost uint64
		r.in(func() { _, lost = r.explanations.Waiting() })
		if dropped == 0 || dropped != lost {
			t.Errorf("%d explanations were dropped, the records say %d", lost, dropped)
		}
		res, err := admin{r.console, r.Server}.Why(r.ctx, &adminv1.WhyRequest{Type: "T0", Index: 799})
		if err != nil || len(res.Decisions) != 1 || res.Dropped != lost || res.Shard.Phase != "serving" {
			t.Errorf("%v, %v", res, err)
		}
	})
}

func always(*coordinatorv1.Decision) bool { return true }
