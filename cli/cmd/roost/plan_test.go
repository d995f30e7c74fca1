package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/internal/app"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (f *fakeAdmin) Plan(_ context.Context, req *adminv1.PlanRequest) (*adminv1.PlanResponse, error) {
	switch {
	case f.standby:
		return nil, f.check()
	case slices.Contains(req.Without, "region-9"):
		return nil, twirp.NewError(twirp.NotFound, "no region region-9; see roost cluster status")
	case len(req.Without) == 0:
		return &adminv1.PlanResponse{HeldBack: []string{"nothing moves: ann froze all moves of shards that can stay; see roost placement freeze --undo"}}, nil
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

func TestPlan(t *testing.T) {
	admin := serve(t, &fakeAdmin{standby: true}) + "," + strings.TrimPrefix(serve(t, &fakeAdmin{}), "http://")
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"placement plan", 0, "0 moves\nnothing moves: ann froze all moves of shards that can stay; see roost placement freeze --undo\n"},
		{"placement plan --without region-1 --without region-7", 0, `SHARD    FROM      TO        BECAUSE
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
		{"placement plan --without region-9", app.ExitNotFound, "roost: no region region-9; see roost cluster status\n"},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
	if code, out, _ := roost(t, "placement", "plan", "--without", "region-1", "-o", "json", "--admin", admin); code != 0 || !strings.Contains(out, `"reason":"leave"`) || !strings.Contains(out, `"after":10`) {
		t.Errorf("exit code %d, %s", code, out)
	}
}
