package main

import (
	"context"
	"strings"
	"testing"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/internal/app"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (f *fakeAdmin) Entities(_ context.Context, req *adminv1.EntitiesRequest) (*adminv1.EntitiesResponse, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	switch {
	case req.Type == "Plane":
		return nil, twirp.NewError(twirp.NotFound, "no entity type Plane; declared are Cart")
	case req.Type == "Idle":
		return &adminv1.EntitiesResponse{Regions: 2}, nil
	case req.Stored:
		return &adminv1.EntitiesResponse{Entities: []*adminv1.Entity{
			{Type: "Cart", Id: "anna", Index: 4, Region: "region-1"}, {Type: "Cart", Id: "dora", Index: 17},
		}}, nil
	}
	hung := &adminv1.Entity{Type: "Cart", Id: "dora", Index: 17, Region: "region-2", Epoch: "1.9", State: "active", Mailbox: 3, OldestMs: 93_700, Running: "Checkout", RunningMs: 93_400, WaitsForType: "Stock", WaitsForId: "s1", Record: 40}
	silent := []*adminv1.Silent{{Region: "region-3", Reason: "no answer within 500ms (coordinator.query_timeout)"}}
	switch {
	case req.RunningMs > 0 && req.GetIndex() == 17:
		return &adminv1.EntitiesResponse{Entities: []*adminv1.Entity{hung}, Regions: 2}, nil
	case req.After == "":
		return &adminv1.EntitiesResponse{Entities: []*adminv1.Entity{{Type: "Cart", Id: "a\nb", Index: 4, Region: "region-1", State: "active", IdleMs: 1530, Record: 2}}, Next: "two", Silent: silent, Regions: 2}, nil
	}
	return &adminv1.EntitiesResponse{Entities: []*adminv1.Entity{hung}, Silent: silent, Regions: 2}, nil
}

func TestEntities(t *testing.T) {
	const (
		header = "ENTITY       SHARD    REGION    STATE   MAILBOX  RUNNING                                 IDLE  RECORD\n"
		first  = `"Cart/a\nb"  Cart/4   region-1  active        0  -                                       1.5s       2` + "\n"
		// The same in a table of its own.
		alone = "ENTITY     SHARD    REGION    STATE   MAILBOX  RUNNING                                 IDLE  RECORD\n" +
			"Cart/dora  Cart/17  region-2  active        3  Checkout for 1m33s, waits for Stock/s1  -         40\n"
		hung   = "Cart/dora    Cart/17  region-2  active        3  Checkout for 1m33s, waits for Stock/s1  -         40\n"
		silent = "the entities of region-3 are missing: no answer within 500ms (coordinator.query_timeout)\n"
	)
	admin := serve(t, &fakeAdmin{standby: true}) + "," + strings.TrimPrefix(serve(t, &fakeAdmin{}), "http://")
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"entity ls", 0, header + first + hung + silent},
		{"entity ls --active --limit 1", 0, "ENTITY       SHARD   REGION    STATE   MAILBOX  RUNNING  IDLE  RECORD\n" +
			`"Cart/a\nb"  Cart/4  region-1  active        0  -        1.5s       2` + "\n" + silent + "more are left; go on with --after two\n"},
		{"entity ls --after two --type Cart", 0, alone + silent},
		{"entity ls Cart --running-longer 1s --shard 17", 0, alone},
		{"entity ls --stored", 0, "ENTITY     SHARD    REGION\nCart/anna  Cart/4   region-1\nCart/dora  Cart/17  -\n"},
		{"entity ls Idle", 0, "no such entity is in memory in the 2 regions that answered\n"},
		{"entity ls Idle --stored", 0, "nothing is stored of such entities\n"},
		{"entity ls Plane", app.ExitNotFound, "roost: no entity type Plane; declared are Cart\n"},
		{"entity ls Cart --type Cart", app.ExitUsage, "roost: the type is given twice, as an argument and by --type\n"},
		{"entity ls --limit 0", app.ExitUsage, "roost: --limit is 0; it must be at least 1\n"},
		{"entity ls --active --stored", app.ExitUsage, "roost: --active cannot be combined with --stored\n"},
		{"entity ls --stored --running-longer 1s", app.ExitUsage, "roost: --running-longer cannot be combined with --stored: turns run in memory\n"},
		{"entity ls --running-longer 0s", app.ExitUsage, "roost: --running-longer is 0s; it must be at least 1ms\n"},
		{"entity ls --shard 3", app.ExitUsage, "roost: --shard is given without a type: each type has shards of its own\n"},
		{"entity ls Cart --shard -1", app.ExitUsage, "roost: --shard is -1; see roost shard ls\n"},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
	if code, out, _ := roost(t, "entity", "ls", "-o", "json", "--admin", admin); code != 0 || strings.Count(out, `"id":`) != 2 || strings.Count(out, `"reason":`) != 1 || !strings.Contains(out, `"running_ms":"93400"`) || !strings.Contains(out, `"waits_for_id":"s1"`) {
		t.Errorf("exit code %d, %s", code, out)
	}
}
