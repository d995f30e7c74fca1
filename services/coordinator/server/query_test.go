package server

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
	"github.com/roost-cluster/roost/services/coordinator/console"
)

// inspected answers questions as a region does.
type inspected struct {
	mu      sync.Mutex
	answer  func(context.Context, *inspectionv1.FailingRequest) (*inspectionv1.FailingResponse, error)
	asked   []*inspectionv1.FailingRequest
	hot     *inspectionv1.HotResponse // nil: it does not know the question
	asksHot *inspectionv1.HotRequest  // the last one
	// entities answers for entities in memory; nil: it does not know the question.
	entities func(*inspectionv1.EntitiesRequest) *inspectionv1.EntitiesResponse
	// What is not set here is not known.
	shards func(*inspectionv1.ShardsRequest) (*inspectionv1.ShardsResponse, error)
	entity func(*inspectionv1.EntityRequest) (*inspectionv1.EntityResponse, error)
	state  func(*inspectionv1.StateRequest) (*inspectionv1.StateResponse, error)
	slow   func(*inspectionv1.SlowRequest) (*inspectionv1.SlowResponse, error)
	retry  func(*inspectionv1.RetrySendsRequest) (*inspectionv1.RetrySendsResponse, error)
}

// answerOf answers a question if the region knows it and is meant.
func answerOf[Q interface {
	GetTo() uint64
	GetCluster() string
}, A any](i *inspected, known *func(Q) (*A, error), req Q) (*A, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if *known == nil || req.GetTo() != 55 || req.GetCluster() != "dev" {
		return nil, twirp.NewError(twirp.BadRoute, "no handler")
	}
	return (*known)(req)
}

func (i *inspected) Shards(_ context.Context, req *inspectionv1.ShardsRequest) (*inspectionv1.ShardsResponse, error) {
	return answerOf(i, &i.shards, req)
}

func (i *inspected) Entity(_ context.Context, req *inspectionv1.EntityRequest) (*inspectionv1.EntityResponse, error) {
	return answerOf(i, &i.entity, req)
}

func (i *inspected) State(_ context.Context, req *inspectionv1.StateRequest) (*inspectionv1.StateResponse, error) {
	return answerOf(i, &i.state, req)
}

func (i *inspected) RetrySends(_ context.Context, req *inspectionv1.RetrySendsRequest) (*inspectionv1.RetrySendsResponse, error) {
	return answerOf(i, &i.retry, req)
}

func (i *inspected) Slow(_ context.Context, req *inspectionv1.SlowRequest) (*inspectionv1.SlowResponse, error) {
	return answerOf(i, &i.slow, req)
}

func (i *inspected) Entities(_ context.Context, req *inspectionv1.EntitiesRequest) (*inspectionv1.EntitiesResponse, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.entities == nil || req.To != 55 || req.Cluster != "dev" {
		return nil, twirp.NewError(twirp.BadRoute, "no handler")
	}
	return i.entities(req), nil
}

func (i *inspected) Hot(_ context.Context, req *inspectionv1.HotRequest) (*inspectionv1.HotResponse, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.hot == nil || req.To != 55 || req.Cluster != "dev" {
		return nil, twirp.NewError(twirp.BadRoute, "no handler")
	}
	i.asksHot = req
	return i.hot, nil
}

func (i *inspected) Failing(ctx context.Context, req *inspectionv1.FailingRequest) (*inspectionv1.FailingResponse, error) {
	i.mu.Lock()
	i.asked = append(i.asked, req)
	answer := i.answer
	i.mu.Unlock()
	return answer(ctx, req)
}

// set determines the region's answers from now on, and returns its queries until now.
func (i *inspected) set(answer func(context.Context, *inspectionv1.FailingRequest) (*inspectionv1.FailingResponse, error)) []*inspectionv1.FailingRequest {
	i.mu.Lock()
	defer i.mu.Unlock()
	asked := i.asked
	i.answer, i.asked = answer, nil
	return asked
}

// serveT has the fake region serve the shards of T.
func (f *fakeRegion) serveT(t *testing.T, at string, admin adminv1.Admin) {
	t.Helper()
	await(t, "the shards are served", func() bool {
		var homes []control.Message
		for i := range uint32(3) {
			homes = append(homes, control.GetShardHome{Shard: sharding.ShardID{Type: "T", Index: i}})
		}
		if err := f.api.Send(t.Context(), sharding.NodeID{Addr: at}, homes); err != nil {
			return false
		}
		res, err := admin.Shards(t.Context(), &adminv1.ShardsRequest{Type: "T"})
		return err == nil && len(res.Shards) == 3 && !slices.ContainsFunc(res.Shards, func(s *adminv1.Shard) bool { return s.Phase != "serving" })
	})
}

// within serves the admin API with another coordinator.query_timeout.
func (r *running) within(timeout time.Duration) adminv1.Admin {
	cfg := r.server.consoleConfig()
	cfg.QueryTimeout = timeout
	s := httptest.NewServer(adminv1.NewAdminServer(admin{console.New(cfg), r.server}))
	r.t.Cleanup(s.Close)
	return adminv1.NewAdminProtobufClient(s.URL, r.client)
}

// TestFailing: the lists say what fails as the regions that have the shards know it. A region that
// does not know, or does not answer, is named, and one that answers what it was not asked is
// not believed.
func TestFailing(t *testing.T) {
	r, f, impatient := standing(t)
	defer r.end()
	admin := r.within(time.Minute) // a slow machine takes its time for a large answer
	ctx := t.Context()
	if res, err := admin.Reminders(ctx, &adminv1.RemindersRequest{}); err != nil || len(res.Reminders) != 10 || len(res.Silent) != 1 || res.Silent[0].Region != "" || !strings.HasPrefix(res.Silent[0].Reason, "3 shards have no region") {
		t.Errorf("no region has the shards: %v, %v", res, err)
	}
	f.serveT(t, r.addr, admin)
	silent := func(list []*adminv1.Silent, want string) bool {
		return len(list) == 1 && list[0].Region == "region-1" && strings.Contains(list[0].Reason, want)
	}
	for _, only := range []bool{false, true} {
		rem, err := admin.Reminders(ctx, &adminv1.RemindersRequest{Failing: only})
		if err != nil || !silent(rem.Silent, "a release of Roost that cannot be queried") || len(rem.Reminders) == 10 == only {
			t.Errorf("of an old region: %v, %v", rem, err)
		}
	}
	region := &inspected{}
	f.mux.Handle(inspectionv1.InspectionPathPrefix, inspectionv1.NewInspectionServer(region))
	some := func(_ context.Context, req *inspectionv1.FailingRequest) (*inspectionv1.FailingResponse, error) {
		res := &inspectionv1.FailingResponse{}
		add := func(x *inspectionv1.Subject) {
			n := &inspectionv1.Failing{Subject: x, SinceUnixMs: 1000 - int64(x.Id[1]), Times: 3, NextUnixMs: 2000, Code: "unavailable", Message: "away", Command: "Ring", DueUnixMs: 5, PeriodMs: 7, SentUnixMs: 9, ReplyTo: "Told", Waiting: 4, UntilUnixMs: 8}
			n.Behind, n.Died = x.Id == "e5", x.Place == 3
			res.Failing = append(res.Failing, n)
		}
		for _, x := range req.Of {
			if x.Id == "e4" || x.Id == "e5" {
				add(x)
			}
		}
		if len(req.Of) == 0 {
			for _, id := range []string{"e4", "e5"} {
				x := &inspectionv1.Subject{Type: "T", Id: id}
				switch req.Kind {
				case inspectionv1.Kind_KIND_REMINDERS:
					x.Name = []byte("w\xff")
				case inspectionv1.Kind_KIND_SENDS:
					x.Record, x.Place, x.TargetType, x.TargetId = 1, 2, "U", "to"
				}
				add(x)
			}
		}
		return res, nil
	}
	region.set(some)
	failed := func(f *adminv1.Failure) bool {
		return f != nil && f.Times == 3 && f.NextUnixMs == 2000 && f.Code == "unavailable" && f.Message == "away" && f.Region == "region-1" && f.SinceUnixMs > 0
	}

	if res, err := admin.RetrySends(ctx, &adminv1.RetrySendsRequest{}); err != nil || res.Retried != 0 || !silent(res.Silent, "a release of Roost that cannot be queried") {
		t.Errorf("sends of a region of an earlier release are retried: %v, %v", res, err)
	}
	region.retry = func(req *inspectionv1.RetrySendsRequest) (*inspectionv1.RetrySendsResponse, error) {
		if req.Type != "T" || req.Id != "e4" || req.TargetType != "U" || req.TargetId != "" {
			t.Errorf("the region receives %v", req)
		}
		return &inspectionv1.RetrySendsResponse{Retried: 3}, nil
	}
	if res, err := admin.RetrySends(ctx, &adminv1.RetrySendsRequest{Type: "T", Id: "e4", TargetType: "U"}); err != nil || res.Retried != 3 || len(res.Silent) > 0 {
		t.Errorf("sends are retried: %v, %v", res, err)
	}

	rem, err := admin.Reminders(ctx, &adminv1.RemindersRequest{Limit: 5000})
	if err != nil || len(rem.Reminders) != 10 || len(rem.Silent) > 0 {
		t.Fatal(rem, err)
	}
	for _, x := range rem.Reminders {
		if fails := x.Id == "e4" || x.Id == "e5"; failed(x.Failure) != fails || !fails && x.Failure != nil {
			t.Errorf("listed is %v", x)
		}
	}
	if asked := region.set(some); len(asked) != 1 || len(asked[0].Of) != 10 || asked[0].To != 55 || asked[0].Cluster != "dev" || string(asked[0].Of[0].Name) != "w\xff" {
		t.Errorf("asked is %v", asked)
	}
	rem, err = admin.Reminders(ctx, &adminv1.RemindersRequest{Failing: true})
	if err != nil || len(rem.Reminders) != 2 || rem.More || rem.Next != "" || len(rem.Silent) > 0 {
		t.Fatal(rem, err)
	}
	if x := rem.Reminders[0]; x.Id != "e5" || x.Name != "w\ufffd" || x.DueUnixMs != 5 || x.PeriodMs != 7 || x.Command != "Ring" || !failed(x.Failure) { // the longest
		t.Errorf("failing is %v", x)
	}
	if rem, err = admin.Reminders(ctx, &adminv1.RemindersRequest{Failing: true, Type: "T", Id: "e4", Limit: 1}); err != nil || len(rem.Reminders) != 1 || rem.Reminders[0].Id != "e4" || !rem.More {
		t.Errorf("of e4: %v, %v", rem, err) // the region has answered more than it was asked
	}

	sends, err := admin.Sends(ctx, &adminv1.SendsRequest{Type: "T", Limit: 1000})
	if err != nil || len(sends.Sends) != 30 {
		t.Fatal(sends, err)
	}
	for _, x := range sends.Sends {
		fails := (x.Id == "e4" || x.Id == "e5") && (x.Place == 2 || x.Place == 3) // 3 is in doubt; of 1 it is not said that it died
		if failed(x.Failure) != fails || x.Behind != (fails && x.Id == "e5") || x.Waiting > 0 != fails || x.UntilUnixMs > 0 != fails {
			t.Errorf("listed is %v", x)
		}
	}
	sends, err = admin.Sends(ctx, &adminv1.SendsRequest{Failing: true})
	if err != nil || len(sends.Sends) != 2 || sends.Sends[1].Id != "e4" {
		t.Fatal(sends, err)
	}
	if x := sends.Sends[1]; x.Record != 1 || x.Place != 2 || x.TargetType != "U" || x.TargetId != "to" || x.State != "pending" || x.SentUnixMs != 9 || x.ReplyTo != "Told" || !failed(x.Failure) {
		t.Errorf("failing is %v", x)
	}

	known, err := admin.Remembered(ctx, &adminv1.RememberedRequest{Limit: 7})
	if err != nil || len(known.Remembered) != 7 || known.Next == "" {
		t.Fatal(known, err)
	}
	more, err := admin.Remembered(ctx, &adminv1.RememberedRequest{After: known.Next})
	if err != nil || len(more.Remembered) != 3 || more.Next != "" {
		t.Fatal(more, err)
	}
	seen := map[string]bool{}
	for _, x := range append(known.Remembered, more.Remembered...) {
		fails := x.Id == "e4" || x.Id == "e5"
		if seen[x.Id] || x.ActiveUnixMs != 5 || failed(x.Failure) != fails {
			t.Errorf("listed is %v", x)
		}
		seen[x.Id] = true
	}
	if known, err = admin.Remembered(ctx, &adminv1.RememberedRequest{Failing: true}); err != nil || len(known.Remembered) != 2 || !failed(known.Remembered[0].Failure) {
		t.Error(known, err)
	}

	for _, call := range []func() error{
		func() error {
			_, err := admin.Reminders(ctx, &adminv1.RemindersRequest{Failing: true, DueBeforeUnixMs: 5})
			return err
		},
		func() error {
			_, err := admin.Reminders(ctx, &adminv1.RemindersRequest{Failing: true, After: rem.Next + "e30"})
			return err
		},
		func() error {
			_, err := admin.Sends(ctx, &adminv1.SendsRequest{Failing: true, Dead: true})
			return err
		},
		func() error {
			_, err := admin.Remembered(ctx, &adminv1.RememberedRequest{Failing: true, After: "e30"})
			return err
		},
		func() error {
			_, err := admin.Remembered(ctx, &adminv1.RememberedRequest{Type: "T/x"})
			return err
		},
	} {
		if err, ok := call().(twirp.Error); !ok || err.Code() != twirp.InvalidArgument {
			t.Errorf("%v, want invalid_argument", err)
		}
	}

	// A region that answers anything.
	region.set(func(context.Context, *inspectionv1.FailingRequest) (*inspectionv1.FailingResponse, error) {
		res := &inspectionv1.FailingResponse{}
		for i := range 3000 {
			res.Failing = append(res.Failing, &inspectionv1.Failing{Subject: &inspectionv1.Subject{Type: "T", Id: fmt.Sprint("x", i), Name: []byte("w")}, Message: strings.Repeat("m", 700)})
		}
		return res, nil
	})
	if rem, err = admin.Reminders(ctx, &adminv1.RemindersRequest{}); err != nil || len(rem.Reminders) != 10 || slices.ContainsFunc(rem.Reminders, func(x *adminv1.Reminder) bool { return x.Failure != nil }) || !silent(rem.Silent, "no room") {
		t.Errorf("what was not asked: %v, %v", rem, err)
	}
	if rem, err = admin.Reminders(ctx, &adminv1.RemindersRequest{Failing: true, Limit: 20}); err != nil || len(rem.Reminders) != 20 || !rem.More {
		t.Errorf("%d of more than were asked for, %v", len(rem.GetReminders()), err)
	}
	region.set(func(context.Context, *inspectionv1.FailingRequest) (*inspectionv1.FailingResponse, error) {
		return &inspectionv1.FailingResponse{Failing: []*inspectionv1.Failing{
			{}, {Subject: &inspectionv1.Subject{}}, {Subject: &inspectionv1.Subject{Type: "T"}}, {Subject: &inspectionv1.Subject{Type: "W", Id: "e4"}},
			{Subject: &inspectionv1.Subject{Type: "T", Id: strings.Repeat("x", 300)}}, {Subject: &inspectionv1.Subject{Type: "V", Id: "e4"}},
			{Subject: &inspectionv1.Subject{Type: "T", Id: "e4"}, SinceUnixMs: -5, Times: 1, NextUnixMs: -1 << 63, Message: strings.Repeat("\u00fc", 5000), Code: strings.Repeat("c", 5000)},
		}}, nil
	})
	if rem, err = admin.Reminders(ctx, &adminv1.RemindersRequest{Failing: true}); err != nil || len(rem.Reminders) != 1 || len(rem.Reminders[0].Failure.Message) > 1000 || len(rem.Reminders[0].Failure.Code) > 1000 {
		t.Errorf("what cannot be: %v, %v", rem, err)
	}
	region.set(func(ctx context.Context, _ *inspectionv1.FailingRequest) (*inspectionv1.FailingResponse, error) {
		return nil, twirp.NewError(twirp.ResourceExhausted, "busy "+strings.Repeat("!", 5000))
	})
	if sends, err := admin.Sends(ctx, &adminv1.SendsRequest{}); err != nil || len(sends.Sends) != 30 || !silent(sends.Silent, "busy") || len(sends.Silent[0].Reason) > 600 {
		t.Errorf("a region that refuses: %v, %v", sends, err)
	}
	region.set(func(ctx context.Context, _ *inspectionv1.FailingRequest) (*inspectionv1.FailingResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if known, err := impatient.Remembered(ctx, &adminv1.RememberedRequest{}); err != nil || len(known.Remembered) != 10 || !silent(known.Silent, "coordinator.query_timeout") {
		t.Errorf("a region that does not answer: %v, %v", known, err)
	}
}
