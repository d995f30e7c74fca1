package server

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// slowGateway answers as a gateway does.
type slowGateway struct{}

func (slowGateway) Slow(_ context.Context, req *inspectionv1.SlowRequest) (*inspectionv1.SlowResponse, error) {
	if req.Cluster != "dev" || req.To != 77 {
		return nil, twirp.NewError(twirp.FailedPrecondition, "another one was meant")
	}
	return &inspectionv1.SlowResponse{Commands: []*inspectionv1.SlowCommand{
		{AtUnixMs: 2000, Type: "T", Id: "b", Command: "Add", TotalUs: 5, MailboxUs: 100, From: "10.0.0.7"},
		{AtUnixMs: 1000, Type: "T", Id: "a", Command: "Add", Region: "10.0.0.9:1", Attempts: 2, TotalUs: 900, MailboxUs: 100, HandlerUs: 200, JournalUs: 300, Code: "unavailable", Trace: "abc"},
	}}, nil
}

// TestSlow: gateways and regions are queried, gateways at their management addresses. Those that do not answer are
// named. A region gets the same limit as a gateway, and is listed with where its commands came from.
func TestSlow(t *testing.T) {
	r, f, admin := standing(t)
	defer r.end()
	region := &inspected{}
	f.mux.Handle(inspectionv1.InspectionPathPrefix, inspectionv1.NewInspectionServer(region))
	server := httptest.NewServer(inspectionv1.NewGatewayInspectionServer(slowGateway{}))
	defer server.Close()
	watch := func(node sharding.NodeID, management string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		f.api.Self = node
		if _, err := f.api.Call(ctx, r.addr, control.WatchTable{Card: control.Card{Span: time.Second, Commands: 5, Management: management}}); err != nil {
			t.Fatal(err)
		}
	}
	self := f.api.Self
	watch(sharding.NodeID{Addr: "10.0.0.1:8080", UID: 77}, strings.TrimPrefix(server.URL, "http://"))
	watch(sharding.NodeID{Addr: "10.0.0.2:8080", UID: 78}, strings.TrimPrefix(server.URL, "http://"))
	f.api.Self = self
	res, err := admin.Slow(t.Context(), &adminv1.SlowRequest{})
	if err != nil || res.Gateways != 1 || len(res.Silent) != 1 || res.Silent[0].Region != "10.0.0.2:8080" || !strings.Contains(res.Silent[0].Reason, "another one was meant") || len(res.Commands) != 2 {
		t.Fatal(res, err)
	}
	if res.Regions != 0 || len(res.SilentRegions) != 1 || res.SilentRegions[0].Region != "region-1" || !strings.Contains(res.SilentRegions[0].Reason, "cannot be queried") {
		t.Errorf("a region of an earlier release: %d have answered, silent are %v", res.Regions, res.SilentRegions)
	}
	if x := res.Commands[1]; res.Commands[0].Id != "b" || x.Id != "a" || x.RouteUs != 300 || x.Gateway != "10.0.0.1:8080" || x.Region != "10.0.0.9:1" || x.Attempts != 2 || x.Code != "unavailable" || res.Commands[0].From != "10.0.0.7" || x.From != "" {
		t.Errorf("listed is %v", res.Commands)
	}
	if res.Commands[0].RouteUs != 0 {
		t.Errorf("the parts are more than the whole: %v", res.Commands[0])
	}
	if res, err = admin.Slow(t.Context(), &adminv1.SlowRequest{Limit: 1}); err != nil || len(res.Commands) != 1 || res.Commands[0].Id != "b" {
		t.Errorf("one: %v, %v", res, err)
	}
	region.mu.Lock()
	region.slow = func(req *inspectionv1.SlowRequest) (*inspectionv1.SlowResponse, error) {
		if req.Limit != 3 {
			t.Errorf("a region is queried for %d", req.Limit)
		}
		x := func(at int64) *inspectionv1.SlowCommand {
			return &inspectionv1.SlowCommand{AtUnixMs: at, Type: "T", Id: "c", Command: "Take", Region: f.api.Self.Addr, TotalUs: 9, HandlerUs: 4, Origin: "send", From: "U/a"}
		}
		return &inspectionv1.SlowResponse{Commands: []*inspectionv1.SlowCommand{x(1500), x(3), x(2), x(1)}}, nil
	}
	region.mu.Unlock()
	res, err = admin.Slow(t.Context(), &adminv1.SlowRequest{Limit: 3})
	if err != nil || res.Regions != 1 || res.Gateways != 1 || len(res.SilentRegions) != 0 || len(res.Commands) != 3 {
		t.Fatal(res, err)
	}
	if x := res.Commands[1]; x.Id != "c" || x.Gateway != "" || x.KeptBy != "region-1" || x.Region != "region-1" || x.Origin != "send" || x.From != "U/a" || x.RouteUs != 5 {
		t.Errorf("of the region is listed %v", x)
	}
	if x := res.Commands[0]; x.KeptBy != "" || x.Origin != "" {
		t.Errorf("of a gateway is listed %v", x)
	}
	_, err = admin.Slow(t.Context(), &adminv1.SlowRequest{TimeoutMs: -1})
	wantCode(t, "a negative time", err, twirp.InvalidArgument)
}
