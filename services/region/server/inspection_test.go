package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// pupil is an entity whose reminders fail, whose sends are not taken, and which cannot be started
// again.
type pupil struct{ started *atomic.Bool }

type woke struct{}

func (p *pupil) OnStart(ctx *entity.Ctx) error {
	if ctx.ID() == "tired" && !p.started.Load() {
		return errors.New("too \x1btired")
	}
	return nil
}

var (
	pupilRing = entity.Command[string, int]("Pupil", "Ring", entity.Stored())
	pupilHear = entity.Command[string, int]("Pupil", "Hear", entity.Stored())
)

func pupils(started *atomic.Bool) entity.Definition {
	return entity.Define("Pupil", func(string) *pupil { return &pupil{started} },
		entity.On(entity.Command[string, int]("Pupil", "Wake"), func(_ *pupil, ctx *entity.Ctx, other string) (int, error) {
			pupilRing.Remind(ctx, ctx.Now(), "bell", "now")
			pupilHear.Send(ctx, other, "first")
			pupilHear.Send(ctx, other, "second")
			pupilHear.Send(ctx, "deaf", "third")
			ctx.Persist(woke{})
			return 0, nil
		}),
		entity.On(pupilRing, func(*pupil, *entity.Ctx, string) (int, error) {
			return 0, errors.New("no bell")
		}),
		entity.On(pupilHear, func(_ *pupil, ctx *entity.Ctx, _ string) (int, error) {
			if ctx.ID() == "deaf" {
				return 0, entity.Errorf(entity.FailedPrecondition, "deaf")
			}
			return 0, errors.New("loud")
		}),
		entity.Event("woke", func(*pupil, woke) {}),
		entity.With[pupil](entity.Shards(4), entity.Remember()),
	)
}

// TestFailing: a region lists what keeps failing: by name, or what has failed for longest.
func TestFailing(t *testing.T) {
	for _, cores := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) { failing(t, cores) })
	}
}

func failing(t *testing.T, cores int) {
	var started atomic.Bool
	started.Store(true)
	links := link.DefaultConfig()
	links.Cluster, links.Self = "test", sharding.NodeID{Addr: "127.0.0.1:1", UID: 1}
	cfg := DefaultConfig()
	r := runTypes(t, RunnerConfig{
		Log: slog.New(slog.DiscardHandler), Core: coreWith(func(c *region.Config) { c.ShardCores, c.InspectText = cores, 50 }),
		Router: &RouterConfig{Core: cfg.Routed, Link: links, Send: func(sharding.NodeID, control.Message) {}, Call: noCall},
	}, pupils(&started))
	d := sharding.TableDelta{Full: true, Version: sharding.Version{Term: 1, N: 1}, Types: []sharding.TypeDesc{r.Types()[0].Desc}}
	for i := range uint32(4) {
		d.Rows = append(d.Rows, sharding.Row{Shard: sharding.ShardID{Type: "Pupil", Index: i}, Owner: links.Self, Epoch: sharding.MakeEpoch(1, i+1), Phase: sharding.Serving})
	}
	r.Put(region.Coordinators{Addrs: []string{"c:1"}}, region.Replied{From: "c:1", Asked: control.WatchTable{}, Msg: control.TableChanged{Delta: d}})
	a := &answers{got: map[uint64]link.Answer{}}
	for i, id := range []sharding.EntityID{"ann", "bob", "tired"} {
		c := knock(uint64(i+1), id, "Wake")
		c.Envelope.Entity.Type, c.Envelope.Payload, c.Envelope.Deadline = "Pupil", []byte(`"ear"`), time.Now().Add(time.Minute)
		r.Submit(a, []link.Command{c})
		time.Sleep(time.Second)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	for number, got := range a.got { // order-free: checked
		if got.Reply.Outcome != sharding.Executed || got.NotMine != nil {
			t.Fatalf("command %d is answered with %+v", number, got)
		}
	}
	started.Store(false)
	shard := sharding.ShardID{Type: "Pupil", Index: shardingtest.ShardOf("tired", 4)}
	r.Put(region.Received{From: "c:1", Msg: control.HandOff{Term: 1, Shard: shard, Epoch: sharding.MakeEpoch(1, shard.Index+1)}})
	time.Sleep(20 * time.Second)
	r.Put(region.Received{From: "c:1", Msg: control.HostShard{Term: 1, Shard: shard, Epoch: sharding.MakeEpoch(1, 10)}})
	time.Sleep(time.Minute)
	synctest.Wait()

	ask := func(req *inspectionv1.FailingRequest) *inspectionv1.FailingResponse {
		t.Helper()
		res, err := r.failing(t.Context(), req)
		if err != nil {
			t.Fatal(req, err)
		}
		return res
	}
	subject := func(x *inspectionv1.Failing) string {
		s := x.Subject
		return strings.TrimSpace(fmt.Sprintf("%s/%s %s %d %d %s/%s", s.Type, s.Id, s.Name, s.Record, s.Place, s.TargetType, s.TargetId))
	}
	const reminders, sends, remembered = inspectionv1.Kind_KIND_REMINDERS, inspectionv1.Kind_KIND_SENDS, inspectionv1.Kind_KIND_REMEMBERED

	res := ask(&inspectionv1.FailingRequest{Kind: reminders, Limit: 10})
	if len(res.Failing) < 2 || res.More || subject(res.Failing[0]) != "Pupil/ann bell 0 0 /" || subject(res.Failing[1]) != "Pupil/bob bell 0 0 /" {
		t.Fatalf("reminders: %v", res)
	}
	if x := res.Failing[0]; x.Times < 3 || x.Code != "internal" || !strings.HasPrefix(x.Message, "Ring failed") || !strings.Contains(x.Message, "no bell") || len(x.Message) != 50 || x.Command != "Ring" ||
		x.SinceUnixMs > time.Now().Add(-2*time.Minute).UnixMilli() || x.NextUnixMs < time.Now().Add(-time.Second).UnixMilli() || x.DueUnixMs == 0 {
		t.Errorf("a reminder: %v", x)
	}
	if res := ask(&inspectionv1.FailingRequest{Kind: reminders, Limit: 1}); len(res.Failing) != 1 || !res.More || subject(res.Failing[0]) != "Pupil/ann bell 0 0 /" {
		t.Errorf("one reminder: %v", res)
	}
	if res := ask(&inspectionv1.FailingRequest{Kind: reminders, Of: []*inspectionv1.Subject{
		{Type: "Pupil", Id: "bob", Name: []byte("bell")}, {Type: "Pupil", Id: "bob", Name: []byte("none")}, {Type: "Other", Id: "bob", Name: []byte("bell")},
	}}); len(res.Failing) != 1 || res.More || subject(res.Failing[0]) != "Pupil/bob bell 0 0 /" {
		t.Errorf("of some reminders: %v", res)
	}

	res = ask(&inspectionv1.FailingRequest{Kind: sends, Type: "Pupil", Id: "ann", Limit: 10})
	if len(res.Failing) != 1 || res.More || subject(res.Failing[0]) != "Pupil/ann  1 0 Pupil/ear" {
		t.Fatalf("sends: %v", res)
	}
	if x := res.Failing[0]; x.Times < 3 || x.Code != "internal" || !strings.HasPrefix(x.Message, "Hear failed") || !strings.Contains(x.Message, "loud") || x.Command != "Hear" || x.Waiting != 1 || x.SentUnixMs == 0 || x.UntilUnixMs != x.SentUnixMs+(23*time.Hour).Milliseconds() || x.Behind || x.Died {
		t.Errorf("a send: %v", x)
	}
	before := res.Failing[0]
	if n, err := r.retrySends(t.Context(), &inspectionv1.RetrySendsRequest{Type: "Pupil", TargetType: "Pupil", TargetId: "ear"}); err != nil || n.Retried < 2 || time.UnixMilli(before.NextUnixMs).Before(time.Now()) {
		t.Errorf("retried: %v, %v", n, err)
	}
	synctest.Wait()
	if x := ask(&inspectionv1.FailingRequest{Kind: sends, Type: "Pupil", Id: "ann", Limit: 10}).Failing[0]; x.Times != before.Times+1 {
		t.Errorf("a send that is retried at once has failed %d times, %d before", x.Times, before.Times)
	}
	if _, err := r.retrySends(t.Context(), &inspectionv1.RetrySendsRequest{TargetId: "ear"}); err == nil {
		t.Error("a target without type is taken")
	}
	of := func(place uint32, target string) *inspectionv1.Subject {
		return &inspectionv1.Subject{Type: "Pupil", Id: "ann", Record: 1, Place: place, TargetType: "Pupil", TargetId: target}
	}
	res = ask(&inspectionv1.FailingRequest{Kind: sends, Of: []*inspectionv1.Subject{of(0, "ear"), of(1, "ear"), of(2, "deaf"), of(3, "deaf"), of(1<<16, "ear")}})
	if len(res.Failing) != 4 || subject(res.Failing[1]) != "Pupil/ann  1 1 Pupil/ear" {
		t.Fatalf("of some sends: %v", res)
	}
	for i, want := range []struct{ behind, died bool }{{false, false}, {true, false}, {false, true}, {true, false}} {
		if x := res.Failing[i]; x.Behind != want.behind || x.Died != want.died || x.UntilUnixMs > 0 != (i == 0) {
			t.Errorf("send %d: %v", i, x)
		}
	}
	if x := res.Failing[2]; x.Code != "failed_precondition" || x.Message != "deaf" || x.SinceUnixMs == 0 {
		t.Errorf("a dead letter: %v", x)
	}

	res = ask(&inspectionv1.FailingRequest{Kind: remembered, Limit: 10})
	if len(res.Failing) != 1 || subject(res.Failing[0]) != "Pupil/tired  0 0 /" || res.Failing[0].Times < 2 || !strings.Contains(res.Failing[0].Message, "tired") {
		t.Fatalf("remembered: %v", res)
	}
	if again := ask(&inspectionv1.FailingRequest{Kind: remembered, Of: []*inspectionv1.Subject{{Type: "Pupil", Id: "tired"}, {Type: "Pupil", Id: "ann"}}}); len(again.Failing) != 1 {
		t.Errorf("of some remembered: %v", again)
	}

	if c, err := r.counts(t.Context()); err != nil || c.failing.reminders["Pupil"] < 2 || c.failing.sends["Pupil"] < 2 || c.failing.starts["Pupil"] != 1 {
		t.Errorf("counted %+v, %v", c.failing, err)
	}
	for _, req := range []*inspectionv1.FailingRequest{
		{}, {Kind: 4, Limit: 10}, {Kind: -1}, {Kind: sends, Id: "ann"}, {Kind: sends, Of: make([]*inspectionv1.Subject, 1001)},
	} {
		var e twirp.Error
		if _, err := r.failing(t.Context(), req); !errors.As(err, &e) || e.Code() != twirp.InvalidArgument {
			t.Errorf("%v is answered with %v", req, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.cfg.InspectBytes = 50
	if res := ask(&inspectionv1.FailingRequest{Kind: reminders, Limit: 10}); len(res.Failing) > 0 || !res.More {
		t.Errorf("more than there is room for: %v", res)
	}
	_, _ = r.failing(ended, &inspectionv1.FailingRequest{Kind: reminders}) // no caller waits for the shard cores
}

// TestInspectionIsForUs: a question that is meant for another cluster or incarnation is refused,
// and one whose caller has gone takes no time of the shard cores.
func TestInspectionIsForUs(t *testing.T) {
	r := start(t, newFake(t), "memory:", nil)
	defer r.end()
	client := inspectionv1.NewInspectionProtobufClient("http://"+r.node.ServiceAddr(), &http.Client{Transport: r.client.Transport})
	mine := func() *inspectionv1.FailingRequest {
		return &inspectionv1.FailingRequest{Cluster: "dev", To: uint64(r.server.self.UID), Kind: inspectionv1.Kind_KIND_SENDS, Limit: 5}
	}
	if res, err := client.Failing(t.Context(), mine()); err != nil || len(res.Failing) > 0 || res.More {
		t.Errorf("answered with %v, %v", res, err)
	}
	for _, change := range []func(*inspectionv1.FailingRequest){
		func(req *inspectionv1.FailingRequest) { req.Cluster = "other" },
		func(req *inspectionv1.FailingRequest) { req.To++ },
		func(req *inspectionv1.FailingRequest) { req.To = 0 },
	} {
		req := mine()
		change(req)
		var e twirp.Error
		if _, err := client.Failing(t.Context(), req); !errors.As(err, &e) || e.Code() != twirp.FailedPrecondition {
			t.Errorf("%v is answered with %v", req, err)
		}
	}
	i := newInspection(r.server)
	i.slot <- struct{}{}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.Failing(ended, mine()); !errors.Is(err, errBusy) {
		t.Errorf("while another question is answered: %v", err)
	}
}
