package server

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// TestTop: what takes most is listed as the regions say it. A region that does not answer is named, and
// reports of a region about shards of others are ignored.
func TestTop(t *testing.T) {
	r, f, admin := standing(t)
	defer r.end()
	ctx := t.Context()
	region := &inspected{}
	f.mux.Handle(inspectionv1.InspectionPathPrefix, inspectionv1.NewInspectionServer(region))
	f.serveT(t, r.addr, admin)
	res, err := admin.Top(ctx, &adminv1.TopRequest{})
	if err != nil || res.Regions != 0 || len(res.Shards)+len(res.Entities) > 0 || len(res.Silent) != 1 || res.Silent[0].Region != "region-1" || !strings.Contains(res.Silent[0].Reason, "cannot be queried") {
		t.Errorf("of a region of an earlier release: %v, %v", res, err)
	}
	region.mu.Lock()
	region.hot = &inspectionv1.HotResponse{
		Shards: []*inspectionv1.HotShard{
			{Type: "T", Index: 1, MilliCommands: 1500, HandlerMicros: 250_000, MilliWaiting: 500, JournalBytes: 7, Entities: 9, Bytes: 100},
			{Type: "T", Index: 2, HandlerMicros: math.MaxUint64},
			{Type: "U", Index: 3, HandlerMicros: 1 << 30}, // no region owns it
			{Type: "T", Index: 77},
			{Type: "None"},
		},
		Entities: []*inspectionv1.HotEntity{
			{Type: "T", Id: "e1", Commands: 10, Handlers: 0.001},
			{Type: "T", Id: "e2", Commands: 20, Handlers: 0.001},
			{Type: "T", Id: "e3", Commands: math.NaN()}, {Type: "T", Id: "e3", Commands: 1, Handlers: -1},
			{Type: "U", Id: "e1", Commands: 1e6}, {Type: "T", Commands: 1e6}, {Type: "None", Id: "e1", Commands: 1e6},
		},
	}
	region.mu.Unlock()
	text := func(res *adminv1.TopResponse) (list string) {
		for _, s := range res.Shards {
			list += fmt.Sprintf("%s/%d %s %g %g %g %g %d %d\n", s.Type, s.Index, s.Region, s.Commands, s.Handlers, s.Waiting, s.JournalBytes, s.Entities, s.Bytes)
		}
		for _, e := range res.Entities {
			list += fmt.Sprintf("%s/%s %s/%d %s %g %g\n", e.Type, e.Id, e.Type, e.Index, e.Region, e.Commands, e.Handlers)
		}
		return list
	}
	entity := func(id string) string {
		return fmt.Sprintf("T/%s T/%d region-1", id, shardingtest.ShardOf(sharding.EntityID(id), 3))
	}
	two := fmt.Sprintf("T/2 region-1 0 %g 0 0 0 0\n", float64(1<<40)/1e6)
	one := "T/1 region-1 1.5 0.25 0.5 7 9 100\n"
	for _, test := range []struct {
		req  *adminv1.TopRequest
		asks *inspectionv1.HotRequest // of each region, without what all of them have
		want string
	}{
		{&adminv1.TopRequest{}, &inspectionv1.HotRequest{Shards: 10, Entities: 10}, two + one + entity("e2") + " 20 0.001\n" + entity("e1") + " 10 0.001\n"},
		{&adminv1.TopRequest{Shards: 1}, &inspectionv1.HotRequest{Shards: 1}, two},
		{&adminv1.TopRequest{Entities: 1, Type: "T"}, &inspectionv1.HotRequest{Entities: 1, Type: "T"}, entity("e2") + " 20 0.001\n"},
		{&adminv1.TopRequest{Shards: 1 << 20, Type: "U"}, &inspectionv1.HotRequest{Shards: 1000, Type: "U"}, ""},
	} {
		if test.req.Shards == 1 { // the region answers the heaviest first
			region.mu.Lock()
			region.hot.Shards[0], region.hot.Shards[1] = region.hot.Shards[1], region.hot.Shards[0]
			region.hot.Entities[0], region.hot.Entities[1] = region.hot.Entities[1], region.hot.Entities[0]
			region.mu.Unlock()
		}
		res, err := admin.Top(ctx, test.req)
		if err != nil || text(res) != test.want || res.Regions != 1 || len(res.Silent) > 0 {
			t.Errorf("%v: %v\n%s%v\nwant\n%s", test.req, err, text(res), res.GetSilent(), test.want)
		}
		region.mu.Lock()
		asked := region.asksHot
		region.mu.Unlock()
		if test.asks.Cluster, test.asks.To = "dev", 55; !proto.Equal(asked, test.asks) {
			t.Errorf("%v: a region receives %v, want %v", test.req, asked, test.asks)
		}
	}
	if _, err := admin.Top(ctx, &adminv1.TopRequest{Type: "X"}); err == nil || err.(twirp.Error).Code() != twirp.NotFound {
		t.Errorf("an unknown type: %v", err)
	}
}
