package server

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestSteering: what operators want of a running coordinator is stored, with who and why, and
// the next one knows it. A dry run changes nothing.
func TestSteering(t *testing.T) {
	noneLeft(t)
	dir, addr := t.TempDir(), freeAddr(t)
	c := start(t, dir, addr, "static://"+addr, nil)
	f := newRegion(t, []string{addr}, sharding.TypeDesc{Type: "T", Shards: 4})
	f.register(t, addr)
	admin := func() adminv1.Admin {
		return adminv1.NewAdminProtobufClient("http://"+c.node.ManagementAddr(), c.client)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	list := func() *adminv1.SteeringResponse {
		t.Helper()
		res, err := admin().Steering(ctx, &adminv1.SteeringRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for what, ask := range map[string]func(dryRun bool) (*adminv1.SteerResponse, error){
		"cordon": func(dry bool) (*adminv1.SteerResponse, error) {
			return admin().Cordon(ctx, &adminv1.CordonRequest{Region: "region-7", Ahead: true, DryRun: dry, By: "ann", Reason: "disk"})
		},
		"freeze": func(dry bool) (*adminv1.SteerResponse, error) {
			return admin().Freeze(ctx, &adminv1.FreezeRequest{UntilUnixMs: 4_000_000_000_000, DryRun: dry, By: "ann", Reason: "party"})
		},
		"pin": func(dry bool) (*adminv1.SteerResponse, error) {
			return admin().Pin(ctx, &adminv1.PinRequest{Pins: []*adminv1.Pin{{Type: "T", Index: 2, Region: "region-7"}}, Ahead: true, DryRun: dry, By: "ann"})
		},
	} { // order-free
		before := list()
		if res, err := ask(true); err != nil || res.Already || res.Stored || res.Changes != 1 || !proto.Equal(before, list()) {
			t.Errorf("%s: the dry run says %v, %v; before %v, then %v", what, res, err, before, list())
		}
		await(t, what+" is stored", func() bool {
			res, err := ask(false)
			if err != nil {
				t.Fatal(err)
			}
			return res.Stored
		})
	}
	for code, ask := range map[twirp.ErrorCode]func() (*adminv1.SteerResponse, error){
		twirp.NotFound: func() (*adminv1.SteerResponse, error) {
			return admin().Cordon(ctx, &adminv1.CordonRequest{Region: "region-8"})
		},
		twirp.InvalidArgument: func() (*adminv1.SteerResponse, error) {
			return admin().Freeze(ctx, &adminv1.FreezeRequest{ForMs: 1 << 62})
		},
		twirp.Aborted: func() (*adminv1.SteerResponse, error) {
			return admin().Move(ctx, &adminv1.MoveRequest{Type: "T", Index: 2, Region: f.self.Addr})
		},
	} { // order-free
		if res, err := ask(); err == nil || err.(twirp.Error).Code() != code {
			t.Errorf("%v, %v, want %s", res, err, code)
		}
	}
	c.end()
	c = start(t, dir, addr, "static://"+addr, nil)
	await(t, "the next term knows what is wanted", func() bool {
		res, err := admin().Steering(ctx, &adminv1.SteeringRequest{})
		return err == nil && len(res.Cordons) == 1 && res.Cordons[0].By == "ann" && res.Cordons[0].Reason == "disk" && res.Cordons[0].SinceUnixMs > 0 &&
			res.Freeze.GetReason() == "party" && res.Freeze.UntilUnixMs == 4_000_000_000_000 && len(res.Pins) == 1 && res.Pins[0].Region == "region-7"
	})
	members, err := admin().Members(ctx, &adminv1.MembersRequest{})
	if err != nil || members.Freeze.GetReason() != "party" {
		t.Errorf("the members do not say that all is frozen: %v, %v", members, err)
	}
	c.end()
}

// TestSteeringFacts: facts are read as they were written.
func TestSteeringFacts(t *testing.T) {
	note := coordinator.Note{By: "ann", Reason: "disk", At: fromUnixMs(1_700_000_000_123)}
	shard := sharding.ShardID{Type: "T", Index: 3}
	for _, f := range []coordinator.Fact{
		coordinator.CordonFact{Region: "r", Lifted: true, After: sharding.MakeEpoch(2, 7), Note: note},
		coordinator.FreezeFact{Frozen: true, Until: fromUnixMs(1_800_000_000_456), Note: note}, coordinator.FreezeFact{},
		coordinator.PinFact{Shard: shard, Region: "r", Note: note},
		coordinator.MoveFact{Shard: shard, Region: "r", Epoch: sharding.MakeEpoch(1, 5), Note: note},
	} {
		if got, err := decodeFact(encodeFact(f)); err != nil || got != f {
			t.Errorf("%+v is read as %+v, %v", f, got, err)
		}
	}
}

// TestToSteering: what an operator sees, of one type.
func TestToSteering(t *testing.T) {
	shard := func(typ sharding.EntityType) sharding.ShardID { return sharding.ShardID{Type: typ, Index: 1} }
	v := coordinator.SteeringView{
		Cordons: []coordinator.CordonView{{CordonFact: coordinator.CordonFact{Region: "r"}, Here: true, Shards: 5, Since: 2}},
		Pins:    []coordinator.PinView{{PinFact: coordinator.PinFact{Shard: shard("A"), Region: "r"}, Name: "s"}, {PinFact: coordinator.PinFact{Shard: shard("B"), Region: "r"}, Owner: sharding.NodeID{Addr: "h:1"}}},
		Moves:   []coordinator.MoveFact{{Shard: shard("A"), Region: "r"}, {Shard: shard("B"), Region: "r"}},
	}
	got := toSteering(v, "B")
	want := &adminv1.SteeringResponse{
		Cordons: []*adminv1.Cordon{{Region: "r", Here: true, Shards: 5, Given: 2}},
		Pins:    []*adminv1.PinnedShard{{Type: "B", Index: 1, Region: "r", Owner: "h:1"}},
		Moves:   []*adminv1.MovingShard{{Type: "B", Index: 1, Region: "r"}},
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if all := toSteering(v, ""); len(all.Pins) != 2 || all.Pins[0].Owner != "s" || len(all.Moves) != 2 || all.Freeze != nil {
		t.Errorf("of all types: %v", all)
	}
}

// TestMemberIsCordoned: the list of members says which regions are cordoned.
func TestMemberIsCordoned(t *testing.T) {
	w := coordinator.New(coordinator.DefaultConfig())
	n := sharding.NodeID{Addr: "h:1", UID: 1}
	for _, in := range []coordinator.Input{coordinator.Member{Node: n, Name: "r", Reachable: true}, coordinator.Elected{Term: 1}, coordinator.CordonRegion{Region: "r"}} {
		w.Step(time.Unix(1, 0), in, nil)
	}
	if !slices.ContainsFunc(w.View().Regions, func(r coordinator.RegionView) bool { return r.Cordoned }) {
		t.Error("the view does not say it")
	}
	e, err := w.Ask(coordinator.CordonRegion{Region: "r", By: strings.Repeat("x", 300)})
	if err == nil || !strings.Contains(err.Error(), "by") {
		t.Errorf("a name without end is taken: %v, %v", e, err)
	}
}
