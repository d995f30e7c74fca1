package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/twitchtv/twirp"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (f *fakeAdmin) Plan(_ context.Context, req *adminv1.PlanRequest) (*adminv1.PlanResponse, error) {
	switch {
	case f.standby:
		return nil, f.check()
	case slices.Contains(req.Without, "region-9"):
		return nil, twirp.NewError(twirp.NotFound, "no region region-9; see roost members")
	case req.AsOfAgoMs == 300_000 || req.AsOfUnixMs == 1_767_366_245_000:
		return &adminv1.PlanResponse{AsOfUnixMs: 1_767_366_240_000}, nil
	case req.AsOfAgoMs+req.AsOfUnixMs > 0:
		return nil, twirp.NewError(twirp.NotFound, "there is no planning moment at or before 2020-01-01T00:00:00Z: this coordinator has 2, from 2026-01-02T15:04:00Z to 2026-01-02T15:05:00Z; see roost plan --moments")
	case len(req.Without) == 0:
		return &adminv1.PlanResponse{HeldBack: []string{"nothing moves: ann froze all moves of shards that can stay; see roost thaw"}}, nil
	}
	return &adminv1.PlanResponse{
		Moves: []*adminv1.PlannedMove{
			{Type: "Cart", Index: 3, From: "region-1", To: "region-2", Reason: "leave", Broken: "cordon zone"},
			{Type: "Cart", Index: 12, From: "region-3", To: "region-2", Reason: "balance"},
		},
		Unplaced: []*adminv1.UnplacedShard{
			{Type: "Cart", Index: 4, Region: "region-1"}, {Type: "Item", Index: 1, Region: "region-1"}, {Type: "Item", Index: 3, Region: "region-1"},
		},
		Regions: []*adminv1.PlannedRegion{
			{Region: "region-1", Before: 2, After: 1, Leaves: true}, {Region: "region-2", Before: 8, After: 10}, {Region: "region-3", Before: 11, After: 10, Cordoned: true, Full: true},
		},
	}, nil
}

func (f *fakeAdmin) PlanMoments(context.Context, *adminv1.PlanMomentsRequest) (*adminv1.PlanMomentsResponse, error) {
	return &adminv1.PlanMomentsResponse{Moments: []*adminv1.PlanMoment{
		{AtUnixMs: 1_767_366_240_000, Regions: 3, Shards: 1024},
		{AtUnixMs: 1_767_366_300_000, Regions: 12, Shards: 1024, HeldBack: []string{"region-2 is unreachable", "full"}},
	}}, f.check()
}

func TestPlan(t *testing.T) {
	admin := serve(t, &fakeAdmin{standby: true}) + "," + strings.TrimPrefix(serve(t, &fakeAdmin{}), "http://")
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"plan", 0, "0 moves\nnothing moves: ann froze all moves of shards that can stay; see roost thaw\n"},
		{"plan --without region-1 --without region-7", 0, `SHARD    FROM      TO        BECAUSE
Cart/3   region-1  region-2  its region leaves; breaks: cordon, zone
Cart/12  region-3  region-2  the strategy wants it there

REGION    BEFORE  AFTER
region-1       2      1  leaves
region-2       8     10
region-3      11     10  cordoned, full: it has its region.capacity

2 moves
no other region can be given Cart/4, which region-1 has
no other region can be given 2 shards of Item (1, 3), which region-1 has
`},
		{"plan --as-of -5m", 0, "as of 2026-01-02T15:04:00Z\n\n0 moves\n"},
		{"plan --as-of 2026-01-02T15:04:05Z", 0, "as of 2026-01-02T15:04:00Z\n\n0 moves\n"},
		{"plan --as-of 2020-01-01T00:00:00Z", exitNotFound, "roost: there is no planning moment at or before 2020-01-01T00:00:00Z: this coordinator has 2, from 2026-01-02T15:04:00Z to 2026-01-02T15:05:00Z; see roost plan --moments\n"},
		{"plan --as-of 5m", exitUsage, "roost: --as-of \"5m\": give a time such as 2026-01-02T15:04:05Z, or how long ago, such as -5m\n"},
		{"plan --moments", 0, `MOMENT                REGIONS  SHARDS
2026-01-02T15:04:00Z        3    1024
2026-01-02T15:05:00Z       12    1024  region-2 is unreachable; full
`},
		{"plan --moments --type Cart", exitUsage, "roost: --moments lists all moments, and goes with no other flag of plan\n"},
		{"plan --without region-9", exitNotFound, "roost: no region region-9; see roost members\n"},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
	if code, out, _ := roost(t, "plan", "--without", "region-1", "-o", "json", "--admin", admin); code != 0 || !strings.Contains(out, `"reason":"leave"`) || !strings.Contains(out, `"after":10`) {
		t.Errorf("exit code %d, %s", code, out)
	}
}
