package server

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// TestActiveEntities: what is in memory is listed as its owners say it, page by page. A region that does
// not answer is named, and reports of a region about shards of others are ignored.
func TestActiveEntities(t *testing.T) {
	r, f, admin := standing(t)
	defer r.end()
	region := &inspected{}
	f.mux.Handle(inspectionv1.InspectionPathPrefix, inspectionv1.NewInspectionServer(region))
	if res, err := admin.Entities(t.Context(), &adminv1.EntitiesRequest{}); err != nil || res.Regions != 0 || len(res.Silent) > 0 {
		t.Errorf("before a shard has a region: %v, %v", res, err)
	}
	f.serveT(t, r.addr, admin)
	res, err := admin.Entities(t.Context(), &adminv1.EntitiesRequest{})
	if err != nil || res.Regions != 0 || len(res.Entities) > 0 || len(res.Silent) != 1 || res.Silent[0].Region != "region-1" || !strings.Contains(res.Silent[0].Reason, "cannot be queried") {
		t.Errorf("of a region of an earlier release: %v, %v", res, err)
	}

	var all []*inspectionv1.ActiveEntity
	var want []string
	for i := range 20 {
		id := fmt.Sprintf("e%02d", i)
		x := &inspectionv1.ActiveEntity{Type: "T", Id: id, Index: shardingtest.ShardOf(sharding.EntityID(id), 3), Epoch: 1<<32 | 2, State: "active", Mailbox: uint32(i), Record: 7}
		if i == 3 {
			x.Running, x.RunningMs, x.WaitsForType, x.WaitsForId = "Add", 1200, "T", "e04"
		}
		all, want = append(all, x), append(want, fmt.Sprintf("T/%d %s region-1", x.Index, id))
	}
	byShard := func(a, b *inspectionv1.ActiveEntity) int {
		return strings.Compare(fmt.Sprint(a.Index, a.Id), fmt.Sprint(b.Index, b.Id))
	}
	slices.SortFunc(all, byShard)
	slices.Sort(want)
	var asked []*inspectionv1.EntitiesRequest
	region.mu.Lock()
	region.entities = func(req *inspectionv1.EntitiesRequest) *inspectionv1.EntitiesResponse {
		asked = append(asked, req)
		res := &inspectionv1.EntitiesResponse{Entities: []*inspectionv1.ActiveEntity{
			{Type: "T", Id: "e00", Index: (all[0].Index + 1) % 3}, {Type: "U", Id: "e1"}, {Type: "None", Id: "e1"}, {Type: "T"}, {},
		}}
		for _, x := range all {
			if at := req.After; at != nil && byShard(x, &inspectionv1.ActiveEntity{Index: at.Index, Id: at.Id}) <= 0 {
				continue
			}
			if len(res.Entities) == int(req.Limit) {
				last := res.Entities[len(res.Entities)-1]
				res.Next = &inspectionv1.EntityPosition{Type: last.Type, Index: last.Index, Id: last.Id}
				break
			}
			res.Entities = append(res.Entities, x)
		}
		return res
	}
	region.mu.Unlock()
	for _, limit := range []uint32{0, 7, 20, 5000} {
		req := &adminv1.EntitiesRequest{Limit: limit}
		var got []string
		for range 100 {
			if res, err = admin.Entities(t.Context(), req); err != nil || res.Regions != 1 || len(res.Silent) > 0 {
				t.Fatal(res, err)
			}
			for _, e := range res.Entities {
				got = append(got, fmt.Sprintf("%s/%d %s %s", e.Type, e.Index, e.Id, e.Region))
				if e.Id == "e03" && (e.Running != "Add" || e.RunningMs != 1200 || e.WaitsForId != "e04" || e.Epoch != "1.2" || e.State != "active" || e.Mailbox != 3 || e.Record != 7) {
					t.Errorf("listed is %v", e)
				}
			}
			if req.After = res.Next; req.After == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d:\n%q, want\n%q", limit, got, want)
		}
	}
	if a := asked[0]; a.Limit != 100 || a.After != nil || asked[1].Limit != 7 || asked[2].After.GetId() == "" || asked[len(asked)-1].Limit != 1000 {
		t.Errorf("asked is %v", asked)
	}
	asked = nil
	index := uint32(1)
	if _, err := admin.Entities(t.Context(), &adminv1.EntitiesRequest{Type: "T", Index: &index, Prefix: "e", Region: "region-1", RunningMs: 5}); err != nil || len(asked) != 1 ||
		asked[0].Type != "T" || asked[0].GetIndex() != 1 || asked[0].Prefix != "e" || asked[0].RunningMs != 5 {
		t.Errorf("asked is %v, %v", asked, err)
	}
	if res, err := admin.Entities(t.Context(), &adminv1.EntitiesRequest{Type: "U"}); err != nil || len(res.Entities) > 0 || res.Regions != 0 {
		t.Errorf("of a type without shards: %v, %v", res, err)
	}

	// A region that sends its lists in circles is not followed forever.
	region.mu.Lock()
	region.entities = func(req *inspectionv1.EntitiesRequest) *inspectionv1.EntitiesResponse {
		return &inspectionv1.EntitiesResponse{Next: &inspectionv1.EntityPosition{Type: "A"}}
	}
	region.mu.Unlock()
	next := base64.RawURLEncoding.EncodeToString([]byte(`{"Shard":{"Type":"T","Index":1}}`))
	if res, err := admin.Entities(t.Context(), &adminv1.EntitiesRequest{After: next}); err != nil || res.Next != "" || len(res.Silent) != 1 {
		t.Errorf("of a region that goes back: %v, %v", res, err)
	}

	far := uint32(3)
	for _, x := range []struct {
		req  *adminv1.EntitiesRequest
		code twirp.ErrorCode
	}{
		{&adminv1.EntitiesRequest{Type: "X"}, twirp.NotFound},
		{&adminv1.EntitiesRequest{Type: "T", Index: &far}, twirp.NotFound},
		{&adminv1.EntitiesRequest{Region: "region-9"}, twirp.NotFound},
		{&adminv1.EntitiesRequest{Index: &index}, twirp.InvalidArgument},
		{&adminv1.EntitiesRequest{Type: "T/x"}, twirp.InvalidArgument},
		{&adminv1.EntitiesRequest{Prefix: "a\n"}, twirp.InvalidArgument},
		{&adminv1.EntitiesRequest{RunningMs: -1}, twirp.InvalidArgument},
		{&adminv1.EntitiesRequest{RunningMs: 1, Stored: true}, twirp.InvalidArgument},
		{&adminv1.EntitiesRequest{After: "?"}, twirp.InvalidArgument},
		{&adminv1.EntitiesRequest{After: next, Stored: true}, twirp.InvalidArgument},
	} {
		_, err := admin.Entities(t.Context(), x.req)
		if e, ok := err.(twirp.Error); !ok || e.Code() != x.code {
			t.Errorf("%v: %v, want %s", x.req, err, x.code)
		}
	}
}

// TestStoredEntities: stored entities are listed from the journal, whatever the regions report, each entity
// once and in the order of the ids.
func TestStoredEntities(t *testing.T) {
	r, f, admin := standing(t)
	defer r.end()
	list := func(req *adminv1.EntitiesRequest) (got []string) {
		t.Helper()
		req.Stored = true
		for range 100 {
			res, err := admin.Entities(t.Context(), req)
			if err != nil || len(res.Silent) > 0 || req.Limit > 0 && len(res.Entities) > int(req.Limit) {
				t.Fatal(res, err)
			}
			for _, e := range res.Entities {
				got = append(got, e.Type+"/"+e.Id+" "+e.Region)
				if e.Index != shardingtest.ShardOf(sharding.EntityID(e.Id), 3) {
					t.Errorf("listed is %v", e)
				}
			}
			if req.After = res.Next; req.After == "" {
				break
			}
		}
		return got
	}
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprintf("T/e%d ", i))
	}
	want = append(want, "T/gone ") // its records are still there
	for _, limit := range []uint32{0, 1, 3, 11, 5000} {
		if got := list(&adminv1.EntitiesRequest{Limit: limit}); !slices.Equal(got, want) {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
	f.serveT(t, r.addr, admin)
	for i := range want {
		want[i] += "region-1"
	}
	index := shardingtest.ShardOf("e4", 3)
	var inShard []string
	for i, w := range want[:10] {
		if shardingtest.ShardOf(sharding.EntityID(fmt.Sprint("e", i)), 3) == index {
			inShard = append(inShard, w)
		}
	}
	if shardingtest.ShardOf("gone", 3) == index {
		inShard = append(inShard, want[10])
	}
	for _, x := range []struct {
		req  *adminv1.EntitiesRequest
		want []string
	}{
		{&adminv1.EntitiesRequest{Prefix: "e"}, want[:10]},
		{&adminv1.EntitiesRequest{Prefix: "e4", Type: "T"}, want[4:5]},
		{&adminv1.EntitiesRequest{Prefix: "g", Limit: 1}, want[10:]},
		{&adminv1.EntitiesRequest{Prefix: "f"}, nil},
		{&adminv1.EntitiesRequest{Region: "region-1", Limit: 2}, want},
		{&adminv1.EntitiesRequest{Type: "T", Index: &index, Limit: 1}, inShard},
		{&adminv1.EntitiesRequest{Type: "U"}, nil},
		{&adminv1.EntitiesRequest{Type: "V"}, nil},
	} {
		if got := list(x.req); !slices.Equal(got, x.want) {
			t.Errorf("%v: %q, want %q", x.req, got, x.want)
		}
	}
}
