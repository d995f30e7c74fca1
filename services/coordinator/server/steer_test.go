package server

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/journal"
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
	until := time.Now().Add(time.Hour).UnixMilli()
	for what, ask := range map[string]func(dryRun bool) (*adminv1.SteerResponse, error){
		"cordon": func(dry bool) (*adminv1.SteerResponse, error) {
			return admin().Cordon(ctx, &adminv1.CordonRequest{Region: "region-7", Ahead: true, DryRun: dry, By: "ann", Reason: "disk"})
		},
		"freeze": func(dry bool) (*adminv1.SteerResponse, error) {
			return admin().Freeze(ctx, &adminv1.FreezeRequest{UntilUnixMs: until, DryRun: dry, By: "ann", Reason: "party"})
		},
		"pin": func(dry bool) (*adminv1.SteerResponse, error) {
			return admin().Pin(ctx, &adminv1.PinRequest{Pins: []*adminv1.Pin{{Type: "T", Index: 2, Region: "region-7"}}, Ahead: true, DryRun: dry, By: "ann"})
		},
	} { // order-free
		before := list()
		if res, err := ask(true); err != nil || res.Already || res.Changes != 1 || !proto.Equal(before, list()) {
			t.Errorf("%s: the dry run says %v, %v; before %v, then %v", what, res, err, before, list())
		}
		if res, err := ask(false); err != nil || res.Already {
			t.Fatal(what, res, err)
		}
	}
	for _, req := range []*adminv1.FreezeRequest{{ForMs: 1 << 62}, {ForMs: -1}, {ForMs: math.MinInt64 / 8}, {UntilUnixMs: math.MaxInt64}, {UntilUnixMs: -1}} {
		if res, err := admin().Freeze(ctx, req); err == nil || err.(twirp.Error).Code() != twirp.InvalidArgument {
			t.Errorf("freeze %v: %v, %v", req, res, err)
		}
	}
	for code, ask := range map[twirp.ErrorCode]func() (*adminv1.SteerResponse, error){
		twirp.NotFound: func() (*adminv1.SteerResponse, error) {
			return admin().Cordon(ctx, &adminv1.CordonRequest{Region: "region-8"})
		},
		twirp.Aborted: func() (*adminv1.SteerResponse, error) {
			return admin().Move(ctx, &adminv1.MoveRequest{Type: "T", Index: 2, Region: f.self.Addr})
		},
	} { // order-free
		if res, err := ask(); err == nil || err.(twirp.Error).Code() != code {
			t.Errorf("%v, %v, want %s", res, err, code)
		}
	}
	drain := &adminv1.DrainRequest{Region: f.self.Addr, By: "ann", Reason: "a new\u2028disk"}
	if _, err := admin().Drain(ctx, drain); err == nil || err.(twirp.Error).Code() != twirp.InvalidArgument {
		t.Errorf("a drain with a reason of two lines: %v", err)
	}
	drain.Reason = "a new disk"
	for _, already := range []bool{false, true} {
		if res, err := admin().Drain(ctx, drain); err != nil || res.Node != f.self.String() || res.Region != "region-1" || res.Already != already {
			t.Fatal(res, err)
		}
	}
	if d := list().Drains; len(d) != 1 || d[0].By != "ann" || d[0].Reason != "a new disk" || d[0].SinceUnixMs == 0 {
		t.Errorf("listed are the drains %v", d)
	}
	c.end()
	c = start(t, dir, addr, "static://"+addr+","+f.self.Addr, nil)
	await(t, "the next term knows what is wanted", func() bool {
		res, err := admin().Steering(ctx, &adminv1.SteeringRequest{})
		return err == nil && len(res.Cordons) == 1 && res.Cordons[0].By == "ann" && res.Cordons[0].Reason == "disk" && res.Cordons[0].SinceUnixMs > 0 &&
			res.Freeze.GetReason() == "party" && res.Freeze.UntilUnixMs == until && len(res.Pins) == 1 && res.Pins[0].Region == "region-7"
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

// TestRequestNames checks that the log tells the requests apart.
func TestRequestNames(t *testing.T) {
	shard := sharding.ShardID{Type: "Cart", Index: 3}
	for want, r := range map[string]coordinator.Request{
		"cordon": coordinator.CordonRegion{}, "uncordon": coordinator.CordonRegion{Lift: true},
		"drain": coordinator.DrainRegion{}, "end the drain": coordinator.DrainRegion{Resume: true},
		"freeze": coordinator.FreezeMoves{}, "thaw": coordinator.FreezeMoves{Thaw: true},
		"move Cart/3":             coordinator.MoveShard{Shard: shard},
		"pin Cart/3":              coordinator.PinShards{Pins: []coordinator.Pin{{Shard: shard, Region: "r1"}}},
		"unpin Cart/3 and 1 more": coordinator.PinShards{Pins: []coordinator.Pin{{Shard: shard}, {}}},
		"target v2":               coordinator.SetTarget{Version: "v2"},
	} { // order-free
		if got := requestName(r); got != want {
			t.Errorf("%+v is called %q, want %q", r, got, want)
		}
	}
}

// TestAnswerWhenDurable: the answer to a request comes when the request is durable, so no client repeats it: two
// operators who want different things do not undo each other's requests. If it is not durable in time, or if the term
// ends first, the error may be retried and states that the request may still take effect. The repeat finds
// what it did.
func TestAnswerWhenDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drive(t, coordinator.DefaultConfig(), nil)
		freeze := func(by string, ms int64) (*adminv1.SteerResponse, error) {
			return admin{r.console, r.Server}.Freeze(t.Context(), &adminv1.FreezeRequest{By: by, Reason: by, TimeoutMs: ms})
		}
		unknown := func(err error, code twirp.ErrorCode, texts ...string) {
			t.Helper()
			e, ok := err.(twirp.Error)
			if !ok || e.Code() != code || e.Meta("outcome") != "unknown" {
				t.Fatalf("%v, want %s with an unknown outcome", err, code)
			}
			for _, text := range append(texts, "may still take effect, so send it again") {
				if !strings.Contains(e.Msg(), text) {
					t.Errorf("%q does not contain %q", e.Msg(), text)
				}
			}
		}
		for _, by := range []string{"ann", "bob"} {
			if res, err := freeze(by, 0); err != nil || res.Already {
				t.Errorf("the answer to %s is %v, %v", by, res, err)
			}
		}
		for _, ms := range []int64{-1, maxRequestTimeout.Milliseconds() + 1} {
			_, err := freeze("eve", ms)
			wantCode(t, nil, err, twirp.InvalidArgument)
		}
		r.backend.fall(errSilent)
		for ms, want := range map[int64]time.Duration{0: requestTimeout, 700: 700 * time.Millisecond} { // order-free
			begin := time.Now()
			_, err := freeze("ann", ms)
			if took := time.Since(begin); took != want {
				t.Errorf("the journal is silent, and the answer comes after %v, want %v", took, want)
			}
			unknown(err, twirp.DeadlineExceeded, "the journal has not stored it: it does not answer")
			r.backend.recover()
			synctest.Wait()
			time.Sleep(time.Minute) // a silent journal is queried again after a pause
			if res, err := freeze("ann", ms); err != nil || !res.Already {
				t.Errorf("the journal answers again, and the repeat is answered %v, %v", res, err)
			}
			if _, err := freeze("bob", 0); err != nil {
				t.Error(err)
			}
			r.backend.fall(errSilent)
		}
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		begin := time.Now()
		_, err := admin{r.console, r.Server}.Freeze(gone, &adminv1.FreezeRequest{Thaw: true})
		if took := time.Since(begin); err == nil || took != time.Second {
			t.Errorf("the caller has left: %v after %v", err, took)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := freeze("eve", 50_000)
			ended <- err
		}()
		synctest.Wait()
		r.keeper.SetRank(9)
		r.store.turn(true) // it loses the lease, and cannot have it again
		unknown(<-ended, twirp.Unavailable, "this coordinator stepped down before the request was durable (")
		r.in(func() {
			if len(r.asked) > 0 {
				t.Errorf("kept are %d who do not wait any more", len(r.asked))
			}
		})
	})
}

// TestPinsAreOneRecord: the largest request to pin shards, with the longest names and reasons, is one record
// of the journal.
func TestPinsAreOneRecord(t *testing.T) {
	noneLeft(t)
	addr := freeAddr(t)
	c := start(t, t.TempDir(), addr, "static://"+addr, nil)
	defer c.end()
	most := coordinator.DefaultConfig().MaxPins
	typ := sharding.EntityType(strings.Repeat("T", sharding.MaxTypeLen))
	newRegion(t, []string{addr}, sharding.TypeDesc{Type: typ, Shards: uint32(most)}).register(t, addr)
	req := &adminv1.PinRequest{Ahead: true, By: strings.Repeat("b", 256), Reason: strings.Repeat("r", 256)}
	for i := range most {
		req.Pins = append(req.Pins, &adminv1.Pin{Type: string(typ), Index: uint32(i), Region: strings.Repeat("n", sharding.MaxTypeLen)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := adminv1.NewAdminProtobufClient("http://"+c.node.ManagementAddr(), c.client).Pin(ctx, req); err != nil {
		t.Fatal(err)
	}
	stream, err := c.server.journal.Load(ctx, journal.LoadRequest{Entity: streamEntity, Shard: streamShard})
	if err != nil {
		t.Fatal(err)
	}
	var records []int
	for _, r := range stream.Records {
		pins := 0
		for _, e := range r.Events {
			if e.Name == "pin" {
				pins++
			}
		}
		if pins > 0 {
			records = append(records, pins)
		}
	}
	// A checkpoint may repeat pins in records after that.
	if len(records) == 0 || records[0] < most {
		t.Errorf("records with pins have %v of them", records)
	}
}
