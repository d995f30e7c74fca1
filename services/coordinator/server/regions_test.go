package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twitchtv/twirp"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// wantCode checks the code of an error.
func wantCode(t *testing.T, what any, err error, code twirp.ErrorCode) {
	t.Helper()
	if e, ok := err.(twirp.Error); !ok || e.Code() != code {
		t.Errorf("%v: %v, want %s", what, err, code)
	}
}

// TestRegions: what regions have in memory is listed as they say it, and a region that does not answer
// is named.
func TestRegions(t *testing.T) {
	r, f, admin := standing(t)
	defer r.end()
	region := &inspected{}
	f.mux.Handle(inspectionv1.InspectionPathPrefix, inspectionv1.NewInspectionServer(region))
	f.serveT(t, r.addr, admin)
	res, err := admin.Regions(t.Context(), &adminv1.RegionsRequest{})
	if err != nil || len(res.Regions) != 0 || len(res.Silent) != 1 || res.Silent[0].Region != "region-1" || !strings.Contains(res.Silent[0].Reason, "cannot be queried") {
		t.Errorf("of a region of an earlier release: %v, %v", res, err)
	}
	var asked *inspectionv1.ShardsRequest
	region.mu.Lock()
	region.shards = func(req *inspectionv1.ShardsRequest) (*inspectionv1.ShardsResponse, error) {
		asked = req
		return &inspectionv1.ShardsResponse{Buffered: 4, BufferedBytes: 99, Types: []*inspectionv1.HeldType{
			{Type: "T", Shards: 3, Entities: 10, Bytes: 5000, MilliWaiting: 1500, MilliCommands: 2500, HandlerMicros: 500_000, JournalBytes: 7},
			{Type: "T", Shards: 300, Entities: 1}, // said twice
			{Type: "None", Shards: 300, Entities: 1},
			{Type: "U", Shards: 1, Entities: 2, MilliCommands: 500},
			nil,
		}}, nil
	}
	region.mu.Unlock()
	res, err = admin.Regions(t.Context(), &adminv1.RegionsRequest{})
	if err != nil || len(res.Regions) != 1 || len(res.Silent) != 0 || asked.Limit != 0 {
		t.Fatal(res, err, asked)
	}
	if g := res.Regions[0]; g.Region != "region-1" || g.Addr == "" || g.Buffered != 4 || g.BufferedBytes != 99 || len(g.Types) != 2 ||
		g.Types[0].Commands != 2.5 || g.Types[0].Handlers != 0.5 || g.Types[0].Waiting != 1.5 || g.All.Shards != 4 || g.All.Entities != 12 || g.All.Commands != 3 {
		t.Errorf("listed is %v", g)
	}
	if _, err := admin.Regions(t.Context(), &adminv1.RegionsRequest{Type: "T", Region: "region-1", TimeoutMs: 900}); err != nil || asked.Type != "T" {
		t.Errorf("asked is %v, %v", asked, err)
	}
	for _, x := range []struct {
		req  *adminv1.RegionsRequest
		code twirp.ErrorCode
	}{
		{&adminv1.RegionsRequest{Type: "X"}, twirp.NotFound},
		{&adminv1.RegionsRequest{Type: "T/x"}, twirp.InvalidArgument},
		{&adminv1.RegionsRequest{Region: "region-9"}, twirp.NotFound},
		{&adminv1.RegionsRequest{TimeoutMs: -1}, twirp.InvalidArgument},
		{&adminv1.RegionsRequest{TimeoutMs: 30_001}, twirp.InvalidArgument},
	} {
		_, err := admin.Regions(t.Context(), x.req)
		wantCode(t, x.req, err, x.code)
	}
}

// TestShardStates: every shard that has an owner is listed once, page by page, with what its owner says,
// and as unknown if the owner says nothing of it.
func TestShardStates(t *testing.T) {
	r, f, admin := standing(t)
	defer r.end()
	region := &inspected{}
	f.mux.Handle(inspectionv1.InspectionPathPrefix, inspectionv1.NewInspectionServer(region))
	f.serveT(t, r.addr, admin)
	list := func(limit uint32) (all []string, pages int) {
		req := &adminv1.ShardStatesRequest{Limit: limit}
		for ; pages < 20; pages++ {
			res, err := admin.ShardStates(t.Context(), req)
			if err != nil || len(res.Shards) > int(limit) {
				t.Fatal(res, err)
			}
			for _, s := range res.Shards {
				all = append(all, fmt.Sprintf("%s/%d %s unknown %v %s %d %v", s.Shard.Type, s.Shard.Index, s.Shard.Region, s.Unknown, s.Held, s.Buffered, s.Holdings.GetEntities()))
			}
			if req.After = res.Next; res.Next == "" {
				break
			}
		}
		return all, pages
	}
	unknown := []string{"T/0 region-1 unknown true  0 0", "T/1 region-1 unknown true  0 0", "T/2 region-1 unknown true  0 0"}
	if all, _ := list(1); !slices.Equal(all, unknown) {
		t.Errorf("of a region that cannot be queried:\n%q", all)
	}
	most := 100 // how many shards the region lists in one answer
	region.mu.Lock()
	region.shards = func(req *inspectionv1.ShardsRequest) (*inspectionv1.ShardsResponse, error) {
		res := &inspectionv1.ShardsResponse{}
		for i := range uint32(5) { // 3 and 4 do not exist
			x := &inspectionv1.HeldShard{Type: "T", Index: i, Phase: "serving", Buffered: i, Entities: 10 + uint64(i)}
			switch {
			case i == 1 || req.After != nil && i <= req.After.Index:
			case len(res.Shards) == most:
				res.More = true
			default:
				res.Shards = append(res.Shards, x)
			}
		}
		return res, nil
	}
	region.mu.Unlock()
	want := []string{"T/0 region-1 unknown false serving 0 10", "T/1 region-1 unknown true  0 0", "T/2 region-1 unknown false serving 2 12"}
	for _, most = range []int{100, 1} {
		for _, limit := range []uint32{1, 2, 3, 1000} {
			if all, pages := list(limit); !slices.Equal(all, want) || limit == 1 && pages != 2 {
				t.Errorf("limit %d, the region lists %d: %d pages of\n%q", limit, most, pages, all)
			}
		}
	}
	if res, err := admin.ShardStates(t.Context(), &adminv1.ShardStatesRequest{Type: "U"}); err != nil || len(res.Shards) > 0 || res.Regions != 0 {
		t.Errorf("of a type without shards: %v, %v", res, err)
	}
	for _, x := range []struct {
		req  *adminv1.ShardStatesRequest
		code twirp.ErrorCode
	}{
		{&adminv1.ShardStatesRequest{Type: "X"}, twirp.NotFound},
		{&adminv1.ShardStatesRequest{Region: "region-9"}, twirp.NotFound},
		{&adminv1.ShardStatesRequest{After: "?"}, twirp.InvalidArgument},
		{&adminv1.ShardStatesRequest{TimeoutMs: -1}, twirp.InvalidArgument},
	} {
		_, err := admin.ShardStates(t.Context(), x.req)
		wantCode(t, x.req, err, x.code)
	}
}
