package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/cli/internal/app"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (f *fakeAdmin) Why(_ context.Context, req *adminv1.WhyRequest) (*adminv1.WhyResponse, error) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli()
	given := &adminv1.Decision{
		Term: 2, N: 7, AtUnixMs: at, Kind: "given", Type: "Cart", Index: 3, From: "region-1", To: "region-2", Epoch: "2.9", Cause: "drain", Strategy: "least-shards",
		Chosen: &adminv1.WeighedRegion{Region: "region-2", Shards: 1, Total: 4},
		Others: []*adminv1.WeighedRegion{{Region: "region-3", Shards: 5, Total: 6, Against: "shards"}, {Region: "region-1", Shards: 2, Total: 2, Against: "owner"}},
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	at7 := &adminv1.Shard{Type: "Airport", Index: 7, Region: "region-1", Addr: "10.0.0.2:25520", Epoch: "3.12", Phase: "serving", Cause: "drain"}
	switch {
	case req.Type == "Airline":
		return nil, twirp.NewError(twirp.NotFound, "no entity type Airline")
	case req.Id == "LAX":
		return &adminv1.WhyResponse{Term: 3, Cause: "region-lost", Shard: &adminv1.Shard{Type: "Airport", Index: 9, Region: "10.0.0.9:25520", Addr: "10.0.0.9:25520", Epoch: "2.8", Phase: "serving"}}, nil
	case req.Id == "OLD":
		return &adminv1.WhyResponse{Term: 3, Cause: "unreadable", Shard: &adminv1.Shard{Type: "Airport", Index: 6, Epoch: "3.14", Phase: "starting", Reason: "unreadable"}}, nil
	case req.Id == "NEW":
		return &adminv1.WhyResponse{Term: 3, Shard: &adminv1.Shard{Type: "Airport", Index: 5, Epoch: "0.0", Phase: "unallocated"}}, nil
	case req.Id == "PHX:1":
		return &adminv1.WhyResponse{Term: 3, Cause: "drain", Shard: at7, ShardKey: "PHX"}, nil
	case req.Type == "Airport":
		return &adminv1.WhyResponse{Term: 3, Cause: "drain", Shard: at7}, nil
	case req.Id == "anna":
		return &adminv1.WhyResponse{Term: 2, Shard: &adminv1.Shard{Type: req.Type, Index: 5, Epoch: "0.0", Phase: "unallocated"}}, nil
	case req.Index == 9:
		return nil, twirp.NewError(twirp.NotFound, "type Cart has 8 shards, 0 to 7; roost shard show finds the shard of an entity")
	case req.Type == "":
		return &adminv1.WhyResponse{Term: 2, Unread: "the journal is locked", Dropped: 1, Decisions: []*adminv1.Decision{
			given,
			{Term: 2, N: 6, AtUnixMs: at, Kind: "plan", Moves: 3, Begun: 1},
			{Term: 2, N: 5, AtUnixMs: at, Kind: "request", Request: "move", Type: "Cart", Index: 3, To: "region-1", Epoch: "2.7", By: "ann", Reason: "disk"},
			{Term: 2, N: 3, AtUnixMs: at, Kind: "request", Request: "target version v2", Reason: "region-2 has registered"},
			{Term: 2, N: 4, AtUnixMs: at, Kind: "given", Type: "Cart", Index: 4, Epoch: "2.8", Cause: "unreadable", From: "region-1"},
		}}, nil
	case req.Index == 4:
		return &adminv1.WhyResponse{Term: 2, Shard: &adminv1.Shard{Type: "Cart", Index: 4, Epoch: "0.0", Phase: "unallocated"}}, nil
	}
	return &adminv1.WhyResponse{
		Term: 4, Shard: &adminv1.Shard{Type: "Cart", Index: 3, Region: "region-2", Addr: "10.0.0.3:25520", Epoch: "2.9", Phase: "serving"}, Cause: "drain", SinceUnixMs: at, More: true,
		Pin: &adminv1.PinnedShard{Region: "region-2", By: "ann", Reason: "near", SinceUnixMs: at},
		Decisions: []*adminv1.Decision{given, {
			Term: 2, N: 5, AtUnixMs: at, Kind: "handed-off", Type: "Cart", Index: 3, From: "region-3", To: "region-1", Epoch: "2.4", Cause: "load",
			Loads: &adminv1.DecisionLoads{Shard: 0.0123, From: 2.04, To: 0.1, FromWaiting: 0.3, FromProcessors: 1.5, ToProcessors: 4},
		}, {
			Term: 1, N: 2, AtUnixMs: at, Kind: "handed-off", Type: "Cart", Index: 3, From: "region-1", Epoch: "1.1", Cause: "drain", Dropped: 2,
		}},
	}, nil
}

func TestWhy(t *testing.T) {
	admin := serve(t, &fakeAdmin{standby: true}) + "," + strings.TrimPrefix(serve(t, &fakeAdmin{}), "http://")
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"shard show Cart/3", 0, `Cart/3 is at region-2 (10.0.0.3:25520) since 2026-01-02T03:04:05Z, serving, epoch 2.9
because its region is drained
pinned to region-2 by ann, 2026-01-02T03:04:05Z: near
decisions, newest first:
  -- terms 2 to 3 ended here; if one of them ended by a crash, decisions of its last second may be missing --
  2026-01-02T03:04:05Z  given from region-1 to region-2, epoch 2.9, because its region is drained
      region-2 had 1 shard, 4 in all, strategy least-shards
      not region-3 (5, 6 in all): has more shards
      not region-1 (2, 2 in all): it was taken from there
  2026-01-02T03:04:05Z  handoff from region-3 to region-1, epoch 2.4, because its region had too much load
      load in processors: the shard 0.0123, region-3 2.04 of 1.5 (0.30 for waiting), region-1 0.10 of 4
  -- another coordinator became active after term 1; if that term ended by a crash, decisions of its last second may be missing --
  2026-01-02T03:04:05Z  handoff from region-1 to a region that is chosen then, epoch 1.1, because its region is drained
  -- 2 decisions dropped here: too many waited to be stored --
there are older ones; see --limit
`},
		{"shard show", 0, `decisions, newest first:
  2026-01-02T03:04:05Z  given Cart/3 from region-1 to region-2, epoch 2.9, because its region is drained
      region-2 had 1 shard, 4 in all, strategy least-shards
      not region-3 (5, 6 in all): has more shards
      not region-1 (2, 2 in all): it was taken from there
  2026-01-02T03:04:05Z  plan: 1 of 3 moves begun
  2026-01-02T03:04:05Z  asked for: move Cart/3 region-1; by ann: disk
  2026-01-02T03:04:05Z  asked for: target version v2: region-2 has registered
  2026-01-02T03:04:05Z  taken Cart/4 from region-1, and given to no region, epoch 2.8, because no region reads what may be stored of it
the stored decisions could not be read: the journal is locked
since it was started, the active coordinator could not keep 1 decision
`},
		{"shard show Airport OLD", 0, "Airport/OLD is in shard Airport/6\nAirport/6 is at no region, epoch 3.14: it is unreadable; see roost shard ls --type Airport\nbecause no region reads what may be stored of it\nno decision is kept\n"},
		{"shard show Airport LAX", 0, "Airport/LAX is in shard Airport/9\nAirport/9 is at 10.0.0.9:25520 (a region that is not registered: it comes back, or another region takes over), serving, epoch 2.8\nbecause its region was lost\nno decision is kept\n"},
		{"shard show Airport PHX", 0, "Airport/PHX is in shard Airport/7\nAirport/7 is at region-1 (10.0.0.2:25520), serving, epoch 3.12\nbecause its region is drained\nno decision is kept\n"},
		{"shard show Airport/PHX:1", 0, "Airport/PHX:1 is in shard Airport/7, by its key \"PHX\"\nAirport/7 is at region-1 (10.0.0.2:25520), serving, epoch 3.12\nbecause its region is drained\nno decision is kept\n"},
		{"shard show Airport/NEW", 0, "Airport/NEW is in shard Airport/5\nAirport/5 is at no region: its first command will place it\nno decision is kept\n"},
		{"shard show Airport a\u202eb", 0, "\"Airport/a\\u202eb\" is in shard Airport/7\nAirport/7 is at region-1 (10.0.0.2:25520), serving, epoch 3.12\nbecause its region is drained\nno decision is kept\n"},
		{"shard show Airport PHX -o json", 0,
			`{"shard":{"type":"Airport","index":7,"region":"region-1","addr":"10.0.0.2:25520","epoch":"3.12","phase":"serving","reason":"","cause":"drain"},` +
				`"cause":"drain","next":"","pin":null,"since_unix_ms":"0","term":3,"decisions":[],"more":false,"dropped":"0","unread":"","shard_key":""}` + "\n"},
		{"shard show Airline PHX", app.ExitNotFound, "roost: no entity type Airline\n"},
		{"shard show Airport/", app.ExitUsage, "roost: \"Airport/\" is not a shard: write TYPE/SHARD, such as Airport/17, or for the shard of an entity TYPE/ID, or TYPE ID if the ID is a number\n"},
		{"shard show a b c", app.ExitUsage, "roost: accepts at most 2 arg(s), received 3\nusage: roost shard show [TYPE/SHARD | TYPE/ID | TYPE ID] [flags]\nsee: roost shard show --help\n"},
		{"shard show Cart/4", 0, "Cart/4 is at no region: its first command will place it\nno decision is kept\n"},
		{"shard show Cart/9", app.ExitNotFound, "roost: type Cart has 8 shards, 0 to 7; roost shard show finds the shard of an entity\n"},
		{"shard show Cart/anna", 0, "Cart/anna is in shard Cart/5\nCart/5 is at no region: its first command will place it\nno decision is kept\n"},
		{"shard show Cart", app.ExitUsage, "roost: \"Cart\" is not a shard: write TYPE/SHARD, such as Airport/17, or for the shard of an entity TYPE/ID, or TYPE ID if the ID is a number\n"},
		{"shard show Cart/99999999999", app.ExitUsage, "roost: \"Cart/99999999999\" is not a shard: write TYPE/SHARD, such as Airport/17, or for the shard of an entity TYPE/ID, or TYPE ID if the ID is a number\n"},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
	if code, out, _ := roost(t, "shard", "show", "Cart", "c1", "-o", "json", "--admin", admin); code != 0 || !strings.Contains(out, `"cause":"drain"`) || !strings.Contains(out, `"against":"owner"`) {
		t.Errorf("exit code %d, %s", code, out)
	}
}
