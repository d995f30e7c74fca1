package main

import (
	"context"
	"strings"
	"testing"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/internal/app"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (f *fakeAdmin) Top(_ context.Context, req *adminv1.TopRequest) (*adminv1.TopResponse, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	switch req.Type {
	case "Plane":
		return nil, twirp.NewError(twirp.NotFound, "no entity type Plane; declared are Cart")
	case "Idle":
		return &adminv1.TopResponse{Regions: 2}, nil
	}
	res := &adminv1.TopResponse{
		Regions: 2, Silent: []*adminv1.Silent{{Region: "region-3", Reason: "no answer within 500ms (coordinator.query_timeout)"}},
		Shards: []*adminv1.TopShard{
			{Type: "Cart", Index: 17, Region: "region-2", Commands: 412.34, Handlers: 0.1241, Waiting: 0.25, JournalBytes: 8000, Entities: 1204, Bytes: 3 << 20},
			{Type: "Cart", Index: 4, Region: "region-1", Commands: 3.06, Handlers: 0.0004, Entities: 12},
		},
		Entities: []*adminv1.TopEntity{
			{Type: "Cart", Id: "dora", Index: 17, Region: "region-2", Commands: 398.06, Handlers: 0.1187},
			{Type: "Cart", Id: "a\nb", Index: 4, Region: "region-1", Commands: 1, Handlers: 0.0001},
		},
	}
	res.Shards, res.Entities = res.Shards[:min(2, req.Shards)], res.Entities[:min(2, req.Entities)]
	return res, nil
}

const (
	topShards = `SHARD    REGION    COMMANDS  HANDLERS  WAITING  ENTITIES   MEMORY
Cart/17  region-2   412.3/s     12.4%      0.2      1204  3.0 MiB
Cart/4   region-1     3.1/s      0.0%      0.0        12        -
`
	topEntities = `ENTITY       SHARD    REGION    COMMANDS  HANDLERS
Cart/dora    Cart/17  region-2   398.1/s     11.9%
"Cart/a\nb"  Cart/4   region-1     1.0/s      0.0%
`
	topSilent = "what is hot in region-3 is not known: no answer within 500ms (coordinator.query_timeout)\n"
)

func TestTop(t *testing.T) {
	admin := serve(t, &fakeAdmin{standby: true}) + "," + strings.TrimPrefix(serve(t, &fakeAdmin{}), "http://")
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"cluster top", 0, topShards + "\n" + topEntities + topSilent},
		{"cluster top --shards --once", 0, topShards + topSilent},
		{"cluster top --entities", 0, topEntities + topSilent},
		{"cluster top --type Idle", 0, "nothing has had a command in the last minutes in the 2 regions that answered\n"},
		{"cluster top --type Plane", app.ExitNotFound, "roost: no entity type Plane; declared are Cart\n"},
		{"cluster top -n 0", app.ExitUsage, "roost: -n is 0; it must be 1 to 1000\n"},
		{"cluster top -n 1001", app.ExitUsage, "roost: -n is 1001; it must be 1 to 1000\n"},
		{"cluster top --every 1ms", app.ExitUsage, "roost: --every is 1ms; it must be at least 100ms\n"},
		{"cluster top --every 1s --once", app.ExitUsage, "roost: --once cannot be combined with --every\n"},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
	if code, out, _ := roost(t, "cluster", "top", "-n", "1", "-o", "json", "--admin", admin); code != 0 || strings.Count(out, `"commands"`) != 2 || !strings.Contains(out, `"id":"dora"`) || !strings.Contains(out, `"journal_bytes":8000`) {
		t.Errorf("exit code %d, %s", code, out)
	}
}
