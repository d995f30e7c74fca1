package server

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator/console"
)

// TestEntity: the journal's data of an entity is shown without its region, the memory as the region
// reports it, and missing parts are named. What the entity has stored is shown only where that is
// allowed.
func TestEntity(t *testing.T) {
	r, f, admin := standing(t)
	defer r.end()
	shard := sharding.ShardID{Type: "T", Index: shardingtest.ShardOf("e1", 3)}
	r.commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: sharding.Entity{Type: "T", ID: "e1"}, Records: []sharding.Record{
		{Seq: 2, Command: "c-2", Events: []sharding.Event{{Name: "Added", Version: 3, Payload: []byte(`{"n":5}`)}, {Name: "Raw", Payload: []byte{0xff}}}},
		{Seq: 3, Events: []sharding.Event{{Name: "Long", Payload: []byte(strings.Repeat("x", (64<<10)+1))}}},
	}}})
	began := time.Now().Add(-time.Hour).UnixMilli()
	res, err := admin.Entity(t.Context(), &adminv1.EntityRequest{Type: "T", Id: "e1", Records: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := res.Stored
	if len(res.Silent) != 1 || res.Silent[0].Region != "" || !strings.Contains(res.Silent[0].Reason, "no region owns the shard") || res.Memory != nil || res.MayShowPayloads || res.Volatile ||
		res.Where.Shard.Index != shard.Index || res.RememberedUnixMs != 5 || len(res.Reminders) != 1 || len(res.Sends) != 3 || len(res.Damaged) > 0 {
		t.Errorf("without a region: %v", res)
	}
	if s == nil || s.Last != 3 || !s.More || len(s.Records) != 2 || s.Records[0].Number != 3 || s.Records[0].Bytes < (64<<10) {
		t.Fatalf("stored is %v", s)
	}
	if x := s.Records[1]; x.Number != 2 || x.CommandId != "c-2" || x.Epoch != "0.1" || x.AtUnixMs < began || len(x.Events) != 2 || x.Events[0].Name != "Added" || x.Events[0].Version != 3 || x.Events[0].Bytes != 7 || x.Events[0].Payload != nil {
		t.Errorf("a record is %v", x)
	}
	first, err := admin.Entity(t.Context(), &adminv1.EntityRequest{Type: "T", Id: "e1", Records: 5, Before: 2})
	if err != nil || first.Stored.More || len(first.Stored.Records) != 1 || first.Stored.Records[0].Wakes != 2 || len(first.Stored.Records[0].Sends) != 4 || first.Stored.Records[0].Sends[0].TargetId != "to" {
		t.Errorf("the first record: %v, %v", first, err)
	}
	if none, err := admin.Entity(t.Context(), &adminv1.EntityRequest{Type: "T", Id: "none"}); err != nil || none.Stored == nil || none.Stored.Last != 0 || none.Stored.More {
		t.Errorf("of an entity that is not stored: %v, %v", none, err)
	}
	if head, err := admin.Entity(t.Context(), &adminv1.EntityRequest{Type: "T", Id: "e1"}); err != nil || len(head.Stored.Records) > 0 || !head.Stored.More || head.Stored.Last != 3 {
		t.Errorf("without records: %v, %v", head, err)
	}

	region := &inspected{answer: func(context.Context, *inspectionv1.FailingRequest) (*inspectionv1.FailingResponse, error) {
		return &inspectionv1.FailingResponse{}, nil
	}}
	f.mux.Handle(inspectionv1.InspectionPathPrefix, inspectionv1.NewInspectionServer(region))
	f.serveT(t, r.addr, admin)
	if res, err = admin.Entity(t.Context(), &adminv1.EntityRequest{Type: "T", Id: "e1", Records: 1}); err != nil || len(res.Silent) != 1 || res.Silent[0].Region != "region-1" || len(res.Stored.Records) != 1 {
		t.Errorf("of a region that does not answer: %v, %v", res, err)
	}
	about := "e1"
	region.mu.Lock()
	region.entity = func(req *inspectionv1.EntityRequest) (*inspectionv1.EntityResponse, error) {
		return &inspectionv1.EntityResponse{
			Entity: &inspectionv1.ActiveEntity{Type: req.Type, Id: about, Index: shardingtest.ShardOf(sharding.EntityID(about), 3), Epoch: 1<<32 | 2, State: "active", Mailbox: 2, Running: "Add", RunningMs: 5},
			Timers: []*inspectionv1.Timer{{Name: "tick", Command: "Tick", DueMs: 3, PeriodMs: 4}}, UnlistedTimers: 7,
		}, nil
	}
	region.state = func(req *inspectionv1.StateRequest) (*inspectionv1.StateResponse, error) {
		if req.Index != shard.Index {
			return nil, twirp.NewError(twirp.PermissionDenied, "set region.show_payloads")
		}
		return &inspectionv1.StateResponse{Record: 3, State: []byte(`{"n":5}`), Bytes: 7, Json: true}, nil
	}
	region.mu.Unlock()
	if res, err = admin.Entity(t.Context(), &adminv1.EntityRequest{Type: "T", Id: "e1"}); err != nil || len(res.Silent) > 0 || res.Memory.GetMailbox() != 2 || res.Memory.Region != "region-1" ||
		len(res.Timers) != 1 || res.Timers[0].Name != "tick" || res.UnlistedTimers != 7 || res.State != nil {
		t.Errorf("of a region that answers: %v, %v", res, err)
	}
	about = "e2"
	if res, err = admin.Entity(t.Context(), &adminv1.EntityRequest{Type: "T", Id: "e1"}); err != nil || res.Memory != nil || len(res.Silent) != 1 || len(res.Timers) > 0 {
		t.Errorf("of a region that speaks of another entity: %v, %v", res, err)
	}
	if res, err = admin.Entity(t.Context(), &adminv1.EntityRequest{Type: "V", Id: "e1"}); err != nil || !res.Volatile || res.Stored != nil || len(res.Damaged) > 0 {
		t.Errorf("of a volatile type: %v, %v", res, err)
	}

	for _, req := range []*adminv1.EntityRequest{{Type: "T", Id: "e1", Payloads: true}, {Type: "T", Id: "e1", State: true}} {
		_, err := admin.Entity(t.Context(), req)
		if wantCode(t, req, err, twirp.PermissionDenied); err != nil && !strings.Contains(err.Error(), "coordinator.show_payloads") {
			t.Errorf("%v does not say which setting allows it", err)
		}
	}
	r.server.cfg.ShowPayloads = true
	shown := console.New(r.server.consoleConfig())
	about = "e1"
	res, err = shown.Entity(t.Context(), &adminv1.EntityRequest{Type: "T", Id: "e1", Records: 3, Payloads: true, State: true})
	if err != nil || res.State.GetRecord() != 3 || string(res.State.State) != `{"n":5}` || !res.State.Json || len(res.Silent) > 0 || !res.MayShowPayloads {
		t.Errorf("with the state: %v, %v", res, err)
	}
	if e := res.Stored.Records; string(e[1].Events[0].Payload) != `{"n":5}` || !e[1].Events[0].Json || e[1].Events[1].Json || len(e[0].Events[0].Payload) > 0 || e[0].Events[0].Bytes != (64<<10)+1 {
		t.Errorf("with payloads: %v", e)
	}
	if res, err = shown.Entity(t.Context(), &adminv1.EntityRequest{Type: "T", Id: otherShard(shard.Index), State: true}); err != nil || res.State != nil || !slices.ContainsFunc(res.Silent, func(s *adminv1.Silent) bool {
		return s.Region == "region-1" && strings.Contains(s.Reason, "region.show_payloads")
	}) {
		t.Errorf("of a region that does not allow it: %v, %v", res, err)
	}
	f.follow(t, r.addr) // a quarantine is in effect when the region knows of it
	if res, err := admin.Quarantine(t.Context(), &adminv1.QuarantineRequest{Type: "T", Id: "e1", By: "ann", Reason: "its state is too large"}); err != nil {
		t.Fatalf("the quarantine is not stored: %v, %v", res, err)
	}
	if res, err = shown.Entity(t.Context(), &adminv1.EntityRequest{Type: "T", Id: "e1", State: true}); err != nil || !strings.Contains(res.Quarantined, "its state is too large") || res.State != nil ||
		len(res.Silent) != 1 || !strings.Contains(res.Silent[0].Reason, "quarantined") {
		t.Errorf("a quarantined entity, whose code must not run: %v, %v", res, err)
	}
	for _, x := range []struct {
		req  *adminv1.EntityRequest
		code twirp.ErrorCode
	}{
		{&adminv1.EntityRequest{Type: "X", Id: "a"}, twirp.NotFound},
		{&adminv1.EntityRequest{Type: "T"}, twirp.InvalidArgument},
		{&adminv1.EntityRequest{Type: "T", Id: "a", Records: 1001}, twirp.InvalidArgument},
		{&adminv1.EntityRequest{Type: "T", Id: "a", TimeoutMs: 1 << 40}, twirp.InvalidArgument},
	} {
		_, err := shown.Entity(t.Context(), x.req)
		wantCode(t, x.req, err, x.code)
	}
}

// otherShard returns an id that is not in a shard.
func otherShard(index uint32) string {
	for _, id := range []string{"a", "b", "c", "d", "f", "g"} {
		if shardingtest.ShardOf(sharding.EntityID(id), 3) != index {
			return id
		}
	}
	panic("all ids are in one shard")
}
