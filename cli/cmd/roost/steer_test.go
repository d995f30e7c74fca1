package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// steered answers a request about placement: the first answer is that it is not stored yet.
func (f *fakeAdmin) steered(by string, dryRun bool, res *adminv1.SteerResponse) (*adminv1.SteerResponse, error) {
	switch {
	case f.standby:
		return nil, f.check()
	case by == "":
		return nil, twirp.NewError(twirp.InvalidArgument, "nobody asks")
	}
	if f.remaining.Add(1)%2 == 0 && !dryRun {
		return &adminv1.SteerResponse{Already: true, Stored: true, Region: res.Region, UntilUnixMs: res.UntilUnixMs}, nil
	}
	return res, nil
}

func (f *fakeAdmin) Cordon(_ context.Context, req *adminv1.CordonRequest) (*adminv1.SteerResponse, error) {
	if req.Region == "region-9" && !req.Ahead {
		return nil, twirp.NewError(twirp.NotFound, "no region is called region-9; here are region-1. To name a region that is not here yet, add --ahead")
	}
	return f.steered(req.By, req.DryRun, &adminv1.SteerResponse{Region: req.Region, Changes: 1, Remarks: []string{"because of " + req.Reason}})
}

func (f *fakeAdmin) Freeze(_ context.Context, req *adminv1.FreezeRequest) (*adminv1.SteerResponse, error) {
	if f.remaining.Load()%2 == 1 && req.ForMs != 0 {
		return nil, twirp.NewError(twirp.InvalidArgument, "repeated with another end")
	}
	res := &adminv1.SteerResponse{Changes: 1, UntilUnixMs: req.UntilUnixMs}
	if req.ForMs != 0 {
		res.UntilUnixMs = time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local).UnixMilli()
	}
	return f.steered(req.By, req.DryRun, res)
}

func (f *fakeAdmin) Pin(_ context.Context, req *adminv1.PinRequest) (*adminv1.SteerResponse, error) {
	return f.steered(req.By, req.DryRun, &adminv1.SteerResponse{Region: req.Pins[0].Region, Changes: uint32(len(req.Pins))})
}

func (f *fakeAdmin) Move(_ context.Context, req *adminv1.MoveRequest) (*adminv1.SteerResponse, error) {
	if req.Index == 9 {
		return nil, twirp.NewError(twirp.Aborted, "Cart/9 is about to move already")
	}
	return f.steered(req.By, req.DryRun, &adminv1.SteerResponse{Region: req.Region, Changes: 2})
}

func (f *fakeAdmin) Steering(_ context.Context, req *adminv1.SteeringRequest) (*adminv1.SteeringResponse, error) {
	if req.Type == "None" {
		return &adminv1.SteeringResponse{}, f.check()
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local).UnixMilli()
	return &adminv1.SteeringResponse{
		Freeze:  &adminv1.Freeze{By: "ann", Reason: "party", SinceUnixMs: at},
		Cordons: []*adminv1.Cordon{{Region: "region-1", Here: true, Shards: 12, Given: 2, By: "ben", Reason: "disk", SinceUnixMs: at}, {Region: "region-7", SinceUnixMs: at}},
		Pins:    []*adminv1.PinnedShard{{Type: "Cart", Index: 3, Region: "region-1", Owner: "region-1", By: "ann", SinceUnixMs: at}, {Type: "Cart", Index: 4, Region: "region-1", Owner: "region-2", By: "ann", SinceUnixMs: at}},
		Moves:   []*adminv1.MovingShard{{Type: "Cart", Index: 5, Region: "region-2", By: "ann", SinceUnixMs: at}},
	}, f.check()
}

func TestSteer(t *testing.T) {
	admin := serve(t, &fakeAdmin{standby: true}) + "," + strings.TrimPrefix(serve(t, &fakeAdmin{}), "http://")
	for _, test := range []struct {
		command string
		code    int
		want    string
	}{
		{"cordon region-1 --reason disk", 0, "region-1 is cordoned: it gets no more shards\nbecause of disk\n"},
		{"uncordon region-1", 0, "region-1 is not cordoned\nbecause of \n"},
		{"cordon region-9", exitNotFound, "roost: no region is called region-9; here are region-1. To name a region that is not here yet, add --ahead\n"},
		{"cordon region-9 --ahead --dry-run --reason disk", 0, "would change: region-9 is cordoned: it gets no more shards\nbecause of disk\n"},
		{"uncordon region-1 --dry-run -o json", 0, `{"already":false,"stored":false,"changes":1,"region":"region-1","until_unix_ms":"0","remarks":["because of "]}` + "\n"},
		{"freeze --for 1h", 0, "frozen: nothing moves that need not, until 2030-01-02 03:04:05\n"},
		{"freeze", 0, "frozen: nothing moves that need not, until roost thaw\n"},
		{"freeze --for 0s", exitUsage, "roost: --for is 0s, must be above 0\n"},
		{"thaw", 0, "nothing is frozen\n"},
		{"pin Cart/3 region-1", 0, "Cart/3 is pinned to region-1\n"},
		{"pin Cart/3 Cart/4 region-1", 0, "Cart/3 Cart/4 are pinned to region-1\n"},
		{"pin Cart region-1", exitUsage, "roost: \"Cart\" is no shard: write TYPE/SHARD, such as Airport/17; roost where finds the shard of an entity\n"},
		{"unpin Cart/1 Cart/2 Cart/3 Cart/4 Cart/5", 0, "5 shards are not pinned\n"},
		{"move Cart/3 region-2", 0, "Cart/3 goes to region-2\n"},
		{"move Cart/9 region-2", exitFailed, "roost: Cart/9 is about to move already\n"},
		{"steering --type None", 0, "nothing is cordoned, pinned or moved by an operator\n"},
		{"steering", 0, `WISH    REGION    SHARD   STATE                                               BY   SINCE                REASON
cordon  region-1  -       12 shards, 2 given since: no other region could be  ben  2026-01-02 03:04:05  disk
cordon  region-7  -       not here                                            -    2026-01-02 03:04:05  -
pin     region-1  Cart/3  there                                               ann  2026-01-02 03:04:05  -
pin     region-1  Cart/4  at region-2                                         ann  2026-01-02 03:04:05  -
move    region-2  Cart/5  under way                                           ann  2026-01-02 03:04:05  -
frozen: nothing moves that need not, until roost thaw; ann, 2026-01-02 03:04:05: party
`},
	} {
		code, out, errOut := roost(t, append(strings.Fields(test.command), "--admin", admin)...)
		if code != test.code || out+errOut != test.want {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", test.command, code, test.code, out, errOut, test.want)
		}
	}
	lost := serve(t, &fakeAdmin{standby: true})
	if code, _, errOut := roost(t, "thaw", "--timeout", "50ms", "--admin", lost); code != exitTimedOut || !strings.Contains(errOut, "run it again") {
		t.Errorf("exit code %d, %s", code, errOut)
	}
}
