package main

import (
	"context"
	"strings"
	"testing"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (f *fakeAdmin) Entity(_ context.Context, req *adminv1.EntityRequest) (*adminv1.EntityResponse, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	at := &adminv1.Shard{Type: req.Type, Index: 17, Region: "region-2", Addr: "10.0.0.2:25522", Epoch: "1.9", Phase: "serving", Cause: "balance"}
	res := &adminv1.EntityResponse{Where: &adminv1.WhereResponse{Shard: at}}
	switch req.Id {
	case "none":
		return nil, twirp.NewError(twirp.NotFound, "no entity type Plane; declared are Cart")
	case "new":
		res.Where.Shard = &adminv1.Shard{Type: req.Type, Index: 3, Phase: "unallocated"}
		res.Silent, res.Stored = []*adminv1.Silent{{Reason: "no region owns the shard, so the entity is in no memory"}}, &adminv1.StoredEntity{}
		return res, nil
	case "bomb":
		res.Quarantined = "since noon, roost: its command Checkout ended r1, r2"
		return res, nil
	case "cached":
		res.Volatile = true
		return res, nil
	case "lost":
		res.Silent, res.Damaged = []*adminv1.Silent{{Region: "region-2", Reason: "no answer within 2s"}}, []string{"its records cannot be read: damaged\n"}
		return res, nil
	}
	if req.State && req.TimeoutMs == 0 {
		return nil, twirp.NewError(twirp.PermissionDenied, "this cluster does not show what entities store; set coordinator.show_payloads to allow it, and region.show_payloads for the state")
	}
	res.Where.ShardKey = "dora"
	res.Memory = &adminv1.Entity{
		Type: req.Type, Id: req.Id, State: "active", Mailbox: 3, OldestMs: 93_700, Running: "Checkout", RunningMs: 93_400, WaitsForType: "Stock", WaitsForId: "s1", Record: 40, Staged: 41, Bytes: 2048, IdleMs: 5,
	}
	res.Timers, res.UnlistedTimers = []*adminv1.Timer{{Name: "tick", Command: "Tick", DueMs: 1500, PeriodMs: 2000}}, 2
	res.RememberedUnixMs = 1000
	res.Reminders, res.MoreReminders = []*adminv1.Reminder{{Name: "pay\nnow", Command: "Pay", DueUnixMs: 5000, PeriodMs: 60_000, Failure: &adminv1.Failure{Times: 2, Code: "unavailable", Message: "away"}}}, true
	res.Sends, res.MoreSends = []*adminv1.Send{{TargetType: "Stock", TargetId: "s1", Command: "Reserve", State: "pending", SentUnixMs: 6000}}, true
	res.Stored = &adminv1.StoredEntity{Last: 41, Life: 3, Trimmed: 30, Snapshot: 38, SnapshotBytes: 20 << 20, More: true, Records: []*adminv1.Record{
		{Number: 41, AtUnixMs: 7000, Bytes: 99, Epoch: "1.9", CommandId: "key-1", Wakes: 1, Events: []*adminv1.StoredEvent{{Name: "Added", Version: 2, Bytes: 7}, {Name: "Raw", Bytes: 1}},
			Sends: []*adminv1.StoredSend{{TargetType: "Stock", TargetId: "s1", Command: "Reserve"}}},
		{Number: 40, AtUnixMs: 6000, Bytes: 10, Epoch: "1.9"},
		{Number: 39, Bytes: 11, Damaged: "it does not match its checksum"},
	}}
	if req.Payloads {
		res.Stored.Records = res.Stored.Records[:1]
		e := res.Stored.Records[0].Events
		e[0].Payload, e[0].Json, e[1].Payload = []byte("{\"n\":\n 5}"), true, []byte{0xff}
		res.Stored.More = false
	}
	if req.State {
		res.State = &adminv1.EntityState{Record: 41, State: []byte(`{"n":5}`), Bytes: 7, Json: true}
	}
	return res, nil
}

func (f *fakeAdmin) Regions(_ context.Context, req *adminv1.RegionsRequest) (*adminv1.RegionsResponse, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if req.TimeoutMs == 1 {
		return &adminv1.RegionsResponse{}, nil
	}
	cart := &adminv1.Holdings{Type: "Cart", Shards: 10, Entities: 100, Bytes: 3 << 20, Commands: 12.5, Handlers: 0.25, Waiting: 0.5, JournalBytes: 2048}
	return &adminv1.RegionsResponse{
		Regions: []*adminv1.RegionState{
			{Region: "region-1", All: cart, Types: []*adminv1.Holdings{cart}, Buffered: 1},
			{Region: "region-2", All: &adminv1.Holdings{}},
		},
		Silent: []*adminv1.Silent{{Region: "region-3", Reason: "connection refused"}},
	}, nil
}

func (f *fakeAdmin) ShardStates(_ context.Context, req *adminv1.ShardStatesRequest) (*adminv1.ShardStatesResponse, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	silent := []*adminv1.Silent{{Region: "region-3", Reason: "connection refused"}}
	if req.After == "" {
		return &adminv1.ShardStatesResponse{Next: "two", Silent: silent, Regions: 2, Shards: []*adminv1.ShardState{
			{Shard: &adminv1.Shard{Type: "Cart", Index: 4, Region: "region-1", Phase: "serving"}, Held: "serving", Buffered: 1, Holdings: &adminv1.Holdings{Entities: 12, Bytes: 3 << 20, Commands: 12.5, Handlers: 0.25, Waiting: 0.5}},
		}}, nil
	}
	return &adminv1.ShardStatesResponse{Silent: silent, Regions: 1, Shards: []*adminv1.ShardState{{Shard: &adminv1.Shard{Type: "Cart", Index: 5, Region: "region-3", Phase: "handing-off"}, Unknown: true}}}, nil
}

func TestEntityShow(t *testing.T) {
	admin := serve(t, &fakeAdmin{standby: true}) + "," + strings.TrimPrefix(serve(t, &fakeAdmin{}), "http://")
	const where = `shard      Cart/17
owner      region-2 (10.0.0.2:25522), serving at epoch 1.9, because balance
`
	const all = `entity     Cart/dora
shard      Cart/17, key "dora"
owner      region-2 (10.0.0.2:25522), serving at epoch 1.9, because balance
memory     active, 2048 bytes, idle for 5ms, writes records up to 41
mailbox    3 commands, the oldest for 1m33s
running    Checkout for 1m33s, waits for Stock/s1
timer      tick runs Tick in 1.5s, and then every 2s
           and 2 more timers
stored     records up to 41, deleted by record 3, events up to record 30 are trimmed
snapshot   after record 38, 20.0 MiB
remembered last active 1970-01-01T00:00:01.000Z
reminder   "pay\nnow" runs Pay at 1970-01-01T00:00:05.000Z, and then every 1m0s; failed 2 times: unavailable: away
           and more: roost entity reminders TYPE/ID
send       Reserve to Stock/s1, pending since 1970-01-01T00:00:06.000Z
           and more: roost entity sends TYPE/ID
`
	const first = "    41  1970-01-01T00:00:07.000Z     99  1.9    key-1       Added v2 (7 bytes), Raw (1 byte), 1 reminder, send Reserve to Stock/s1\n"
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"Cart/dora", 0, all + "\nRECORD  STORED                    BYTES  EPOCH  COMMAND ID  WHAT\n" + first +
			"    40  1970-01-01T00:00:06.000Z     10  1.9    -           nothing: only a command id, or an unknown outcome was settled\n" +
			"    39  -                            11         -           damaged: it does not match its checksum\n" +
			"there are earlier records: --before 39\n"},
		{"Cart dora --payloads --state --query-timeout 2s", 0, all + "\nRECORD  STORED                    BYTES  EPOCH  COMMAND ID  WHAT\n" + first +
			"41 Added {\"n\":5}\n41 Raw \"\\xff\"\n\nstate after record 41, 7 bytes:\n{\n  \"n\": 5\n}\n"},
		{"Cart/new", 0, "entity     Cart/new\nshard      Cart/3\nowner      none: its first command will place the shard\nstored     nothing\n"},
		{"Cart/bomb", 0, "entity     Cart/bomb\n" + where + "quarantine since noon, roost: its command Checkout ended r1, r2\n"},
		{"Cart/cached", 0, "entity     Cart/cached\n" + where + "memory     not in memory: its next command loads it\nstored     nothing: the type is volatile\n"},
		{"Cart/lost", 0, "entity     Cart/lost\n" + where + "missing    region-2: no answer within 2s\ndamaged    its records cannot be read: damaged\n"},
		{"Plane/none", app.ExitNotFound, "roost: no entity type Plane; declared are Cart\n"},
		{"Cart/dora --state", app.ExitFailed, "roost: this cluster does not show what entities store; set coordinator.show_payloads to allow it, and region.show_payloads for the state\n"},
		{"Cart", app.ExitUsage, "roost: \"Cart\" is not the name of an entity: write TYPE ID or TYPE/ID, such as Cart/anna\n"},
		{"Cart/dora --events 1001", app.ExitUsage, "roost: --events is 1001, must be at most 1000; go on with --before\n"},
		{"Cart/dora --before 0", app.ExitUsage, "roost: --before is 0; there is no record before the first one, which has the number 1\n"},
		{"Cart/dora --query-timeout 1h", app.ExitUsage, "roost: --query-timeout is 1h0m0s; it must be 1ms to 30s\n"},
	} {
		code, out, errOut := roost(t, append(append([]string{"entity", "show"}, strings.Fields(test.command)...), "--admin", admin)...)
		if code != test.code || out+errOut != strings.ReplaceAll(test.want, "because balance", "because "+sharding.CauseText("balance")) {
			t.Errorf("roost entity show %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
	if code, out, _ := roost(t, "entity", "show", "Cart/dora", "-o", "json", "--admin", admin); code != 0 || strings.Count(out, `"number":`) != 3 || !strings.Contains(out, `"due_ms":"1500"`) {
		t.Errorf("exit code %d, %s", code, out)
	}
}

func TestRegionsAndShardStates(t *testing.T) {
	admin := serve(t, &fakeAdmin{standby: true}) + "," + strings.TrimPrefix(serve(t, &fakeAdmin{}), "http://")
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"region ls", 0, `REGION    SHARDS  ENTITIES   MEMORY  COMMANDS  HANDLERS  WAITING    JOURNAL
region-1      10       100  3.0 MiB    12.5/s     25.0%      0.5  2.0 KiB/s
region-2       0         0        -     0.0/s      0.0%      0.0  0.0 KiB/s
all           10       100  3.0 MiB    12.5/s     25.0%      0.5  2.0 KiB/s
in region-1, 1 command waits for shards that it does not serve yet
region-3 is missing: connection refused
`},
		{"region show region-1 --type Cart", 0, `REGION    TYPE   SHARDS  ENTITIES   MEMORY  COMMANDS  HANDLERS  WAITING    JOURNAL
region-1  Cart       10       100  3.0 MiB    12.5/s     25.0%      0.5  2.0 KiB/s
all       (all)      10       100  3.0 MiB    12.5/s     25.0%      0.5  2.0 KiB/s
in region-1, 1 command waits for shards that it does not serve yet
region-3 is missing: connection refused
`},
		{"region ls --types --type Cart", 0, `REGION    TYPE   SHARDS  ENTITIES   MEMORY  COMMANDS  HANDLERS  WAITING    JOURNAL
region-1  Cart       10       100  3.0 MiB    12.5/s     25.0%      0.5  2.0 KiB/s
all       (all)      10       100  3.0 MiB    12.5/s     25.0%      0.5  2.0 KiB/s
in region-1, 1 command waits for shards that it does not serve yet
region-3 is missing: connection refused
`},
		{"region show", app.ExitUsage, "roost: one name is needed, 0 are given\nusage: roost region show REGION [flags]\nsee: roost region show --help\n"},
		{"region ls --query-timeout 1ms", 0, "no region is registered\n"},
		{"region ls --query-timeout 31s", app.ExitUsage, "roost: --query-timeout is 31s; it must be 1ms to 30s\n"},
		{"shard ls --entities", 0, `SHARD   REGION    PHASE        ENTITIES   MEMORY  COMMANDS  HANDLERS  WAITING
Cart/4  region-1  serving            12  3.0 MiB    12.5/s     25.0%      1.5
Cart/5  region-3  handing-off         -        -         -         -        -
12 entities are in memory in 1 shard; of 1 shard (-) nothing is known
region-3 has not answered: connection refused
`},
		{"shard ls --entities --limit 1", 0, `SHARD   REGION    PHASE    ENTITIES   MEMORY  COMMANDS  HANDLERS  WAITING
Cart/4  region-1  serving        12  3.0 MiB    12.5/s     25.0%      1.5
12 entities are in memory in 1 shard
region-3 has not answered: connection refused
more are left; go on with --after two
`},
		{"shard ls --limit 5", app.ExitUsage, "roost: --limit is for --entities\n"},
		{"shard ls --entities --limit 0", app.ExitUsage, "roost: --limit is 0; it must be at least 1\n"},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
	if code, out, _ := roost(t, "region", "ls", "-o", "json", "--admin", admin); code != 0 || strings.Count(out, `"region":`) != 3 {
		t.Errorf("exit code %d, %s", code, out)
	}
	if code, out, _ := roost(t, "shard", "ls", "--entities", "-o", "json", "--admin", admin); code != 0 || strings.Count(out, `"shard":`) != 2 {
		t.Errorf("exit code %d, %s", code, out)
	}
}
