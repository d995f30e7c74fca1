package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/cli/internal/app"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

var freezeEnd = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// record keeps a request about placement. A standby takes none.
func (f *fakeAdmin) record(req proto.Message) error {
	if err := f.check(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	req = proto.Clone(req)
	m := req.ProtoReflect()
	m.Clear(m.Descriptor().Fields().ByName("timeout_ms")) // the time that is left differs
	f.steers = append(f.steers, req)
	return nil
}

// recorded returns the requests since it was called last.
func (f *fakeAdmin) recorded() []proto.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.steers
	f.steers = nil
	return list
}

// steered answers a request about placement.
func (f *fakeAdmin) steered(by string, res *adminv1.SteerResponse) (*adminv1.SteerResponse, error) {
	if by == "" {
		return nil, twirp.NewError(twirp.InvalidArgument, "no operator asks")
	}
	return res, nil
}

func (f *fakeAdmin) Cordon(_ context.Context, req *adminv1.CordonRequest) (*adminv1.SteerResponse, error) {
	if err := f.record(req); err != nil {
		return nil, err
	}
	if req.Region == "region-9" && !req.Ahead {
		return nil, twirp.NewError(twirp.NotFound, "no region is called region-9; here are region-1. To name a region that is not here yet, set ahead")
	}
	return f.steered(req.By, &adminv1.SteerResponse{Region: req.Region, Changes: 1, Remarks: []string{"because of " + req.Reason}})
}

func (f *fakeAdmin) Freeze(_ context.Context, req *adminv1.FreezeRequest) (*adminv1.SteerResponse, error) {
	if err := f.record(req); err != nil {
		return nil, err
	}
	res := &adminv1.SteerResponse{Changes: 1, UntilUnixMs: req.UntilUnixMs}
	if req.ForMs != 0 {
		res.UntilUnixMs = freezeEnd.UnixMilli()
	}
	return f.steered(req.By, res)
}

func (f *fakeAdmin) Pin(_ context.Context, req *adminv1.PinRequest) (*adminv1.SteerResponse, error) {
	if err := f.record(req); err != nil {
		return nil, err
	}
	return f.steered(req.By, &adminv1.SteerResponse{Region: req.Pins[0].Region, Changes: uint32(len(req.Pins))})
}

func (f *fakeAdmin) Move(_ context.Context, req *adminv1.MoveRequest) (*adminv1.SteerResponse, error) {
	if err := f.record(req); err != nil {
		return nil, err
	}
	if req.Index == 9 {
		return nil, twirp.NewError(twirp.Aborted, "Cart/9 is about to move already")
	}
	return f.steered(req.By, &adminv1.SteerResponse{Region: req.Region, Changes: 2})
}

func (f *fakeAdmin) Steering(_ context.Context, req *adminv1.SteeringRequest) (*adminv1.SteeringResponse, error) {
	if req.Type == "None" {
		return &adminv1.SteeringResponse{}, f.check()
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli()
	if req.Type == "Many" {
		res := &adminv1.SteeringResponse{Pins: []*adminv1.PinnedShard{{Type: "Many", Region: "region-2", Owner: "region-2", By: "placer", Reason: "disk=ssd"}}}
		for i := range 6 {
			res.Pins = append(res.Pins, &adminv1.PinnedShard{Type: "Many", Index: uint32(i) + 10, Region: "region-1", Owner: "region-1", By: "placer", Reason: "disk=ssd", SinceUnixMs: at})
		}
		res.Pins[3].Owner, res.Pins[4].SinceUnixMs = "region-2", at+2000
		slices.Reverse(res.Pins)
		res.Pins = append(res.Pins, &adminv1.PinnedShard{Type: "Many", Index: 6, Region: "region-2", Owner: "region-2", By: "ann"})
		return res, f.check()
	}
	return &adminv1.SteeringResponse{
		Freeze: &adminv1.Freeze{By: "ann", Reason: "party", SinceUnixMs: at},
		Drains: []*adminv1.Drain{
			{Region: "region-3", Node: "h3:1#7", Shards: 5, By: "ann", Reason: "new disk", SinceUnixMs: at}, {Region: "h4:1", Node: "h4:1#8"},
		},
		Cordons: []*adminv1.Cordon{{Region: "region-1", Here: true, Shards: 12, Given: 2, By: "ben", Reason: "disk", SinceUnixMs: at}, {Region: "region-7", SinceUnixMs: at}},
		Pins:    []*adminv1.PinnedShard{{Type: "Cart", Index: 3, Region: "region-1", Owner: "region-1", By: "ann", SinceUnixMs: at}, {Type: "Cart", Index: 4, Region: "region-1", Owner: "region-2", By: "ann", SinceUnixMs: at}},
		Moves:   []*adminv1.MovingShard{{Type: "Cart", Index: 5, Region: "region-2", By: "ann", SinceUnixMs: at}},
	}, f.check()
}

func TestSteer(t *testing.T) {
	active := &fakeAdmin{}
	admin := serve(t, &fakeAdmin{standby: true}) + "," + strings.TrimPrefix(serve(t, active), "http://")
	by := app.WhoAmI()
	type shard = adminv1.Pin
	cordon := func(req *adminv1.CordonRequest) proto.Message { req.By = by; return req }
	freeze := func(req *adminv1.FreezeRequest) proto.Message { req.By = by; return req }
	pin := func(reason string, pins ...*adminv1.Pin) proto.Message {
		return &adminv1.PinRequest{Pins: pins, By: by, Reason: reason}
	}
	for _, test := range []struct {
		command string
		asks    proto.Message // nil: nothing
		code    int
		want    string
	}{
		{"region cordon region-1 --reason disk", cordon(&adminv1.CordonRequest{Region: "region-1", Reason: "disk"}), 0, "region-1 is cordoned: it gets no more shards\nbecause of disk\n"},
		{"region cordon region-1 --undo", cordon(&adminv1.CordonRequest{Region: "region-1", Lift: true}), 0, "region-1 is not cordoned\nbecause of \n"},
		{"region cordon region-9", cordon(&adminv1.CordonRequest{Region: "region-9"}), app.ExitNotFound, "roost: no region is called region-9; here are region-1. To name a region that is not here yet, set ahead\n"},
		{"region cordon region-9 --ahead --dry-run --reason disk", cordon(&adminv1.CordonRequest{Region: "region-9", Ahead: true, DryRun: true, Reason: "disk"}), 0, "nothing is changed; without --dry-run it would be so: region-9 is cordoned: it gets no more shards\nbecause of disk\n"},
		{"region cordon region-1 --undo --dry-run -o json", cordon(&adminv1.CordonRequest{Region: "region-1", Lift: true, DryRun: true}), 0, `{"already":false,"changes":1,"region":"region-1","until_unix_ms":"0","remarks":["because of "]}` + "\n"},
		{"placement freeze --for 1h", freeze(&adminv1.FreezeRequest{ForMs: 3_600_000}), 0, "frozen: no shard moves unless it has to, until 2030-01-02T03:04:05Z\n"},
		{"placement freeze --reason party --dry-run", freeze(&adminv1.FreezeRequest{Reason: "party", DryRun: true}), 0, "nothing is changed; without --dry-run it would be so: frozen: no shard moves unless it has to, until roost placement freeze --undo\n"},
		{"placement freeze", freeze(&adminv1.FreezeRequest{}), 0, "frozen: no shard moves unless it has to, until roost placement freeze --undo\n"},
		{"placement freeze --for 0s", nil, app.ExitUsage, "roost: --for is 0s, must be at least 1ms\n"},
		{"placement freeze --for 999us", nil, app.ExitUsage, "roost: --for is 999µs, must be at least 1ms\n"},
		{"placement freeze --undo --reason over", freeze(&adminv1.FreezeRequest{Thaw: true, Reason: "over"}), 0, "nothing is frozen\n"},
		{"shard pin Cart/3 region-1 --reason near", pin("near", &shard{Type: "Cart", Index: 3, Region: "region-1"}), 0, "Cart/3 is pinned to region-1\n"},
		{"shard pin Cart/3 Cart/4 region-1", pin("", &shard{Type: "Cart", Index: 3, Region: "region-1"}, &shard{Type: "Cart", Index: 4, Region: "region-1"}), 0, "Cart/3 Cart/4 are pinned to region-1\n"},
		{"shard pin Cart region-1", nil, app.ExitUsage, "roost: \"Cart\" is not a shard: write TYPE/SHARD, such as Airport/17; roost shard show finds the shard of an entity\n"},
		{"shard pin Cart/1 Cart/2 Cart/3 Cart/4 Cart/5 --undo", pin("", &shard{Type: "Cart", Index: 1}, &shard{Type: "Cart", Index: 2}, &shard{Type: "Cart", Index: 3}, &shard{Type: "Cart", Index: 4}, &shard{Type: "Cart", Index: 5}), 0, "5 shards are not pinned\n"},
		{"shard move Cart/3 region-2 --reason once", &adminv1.MoveRequest{Type: "Cart", Index: 3, Region: "region-2", By: by, Reason: "once"}, 0, "Cart/3 goes to region-2\n"},
		{"shard move Cart/9 region-2", &adminv1.MoveRequest{Type: "Cart", Index: 9, Region: "region-2", By: by}, app.ExitFailed, "roost: Cart/9 is about to move already\n"},
		{"placement status --type Many", nil, 0, `REQUEST  REGION    SHARD   STATE              BY      SINCE                 REASON
pins     region-1  Many    6 shards, 5 there  placer  2026-01-02T03:04:07Z  disk=ssd
pin      region-2  Many/0  there              placer  -                     disk=ssd
pin      region-2  Many/6  there              ann     -                     -
`},
		{"placement status --type Many --region region-2", nil, 0, `REQUEST  REGION    SHARD   STATE  BY      SINCE  REASON
pin      region-2  Many/0  there  placer  -      disk=ssd
pin      region-2  Many/6  there  ann     -      -
`},
		{"placement status --region region-7", nil, 0, `REQUEST  REGION    SHARD  STATE     BY  SINCE                 REASON
cordon   region-7  -      not here  -   2026-01-02T03:04:05Z  -
`},
		{"placement status --type None", nil, 0, "nothing is drained, cordoned, pinned or moved by an operator\n"},
		{"placement status", nil, 0, `REQUEST  REGION    SHARD   STATE                     BY   SINCE                 REASON
drain    region-3  -       5 shards left             ann  2026-01-02T03:04:05Z  new disk
drain    h4:1      -       0 shards left             -    -                     -
cordon   region-1  -       12 shards, 2 given since  ben  2026-01-02T03:04:05Z  disk
cordon   region-7  -       not here                  -    2026-01-02T03:04:05Z  -
pin      region-1  Cart/3  there                     ann  2026-01-02T03:04:05Z  -
pin      region-1  Cart/4  at region-2               ann  2026-01-02T03:04:05Z  -
move     region-2  Cart/5  in progress               ann  2026-01-02T03:04:05Z  -
frozen: no shard moves unless it has to, until roost placement freeze --undo; ann, 2026-01-02T03:04:05Z: party
`},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
		asked := active.recorded()
		if len(asked) > 1 || (len(asked) > 0) != (test.asks != nil) {
			t.Errorf("roost %s asks %v, want %v once", test.command, asked, test.asks)
		}
		for _, req := range asked {
			if !proto.Equal(req, test.asks) {
				t.Errorf("roost %s asks %v, want %v", test.command, req, test.asks)
			}
		}
	}
	code, _, errOut := roost(t, "shard", "pin", "Cart/3", "", "--admin", admin) // such as "$REGION" of a script
	if asked := active.recorded(); code != app.ExitUsage || !strings.Contains(errOut, "use roost shard pin --undo") || len(asked) > 0 {
		t.Errorf("a pin to no region: exit code %d, %s, asks %v", code, errOut, asked)
	}
	lost := serve(t, &fakeAdmin{standby: true})
	if code, _, errOut := roost(t, "placement", "freeze", "--undo", "--timeout", "50ms", "--admin", lost); code != app.ExitTimedOut || !strings.Contains(errOut, "run it again") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
}
