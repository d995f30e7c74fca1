package server

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestSetTarget: an operator sets the target at a running coordinator, which stores it. Time is
// virtual: a coordinator that the machine holds up for longer than its lease lasts would stand by.
func TestSetTarget(t *testing.T) { synctest.Test(t, setTarget) }

func setTarget(t *testing.T) {
	first := drive(t, coordinator.DefaultConfig(), nil)
	rollout := func(r *rig) *adminv1.RolloutResponse {
		t.Helper()
		res, err := admin{r.console, r.Server}.Rollout(t.Context(), &adminv1.RolloutRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first.registerVersion(1, "1.2.3")
	if r := rollout(first); r.Target != "1.2.3" {
		t.Fatalf("the first version is not a target: %v", r)
	}
	first.registerVersion(1, "2")
	if r := rollout(first); r.Target != "2" || !slices.Equal(r.Seen, []string{"1.2.3"}) {
		t.Fatalf("the second version is not a target: %v", r)
	}
	set := func(version string) (*adminv1.SetTargetResponse, error) {
		return admin{first.console, first.Server}.SetTarget(t.Context(), &adminv1.SetTargetRequest{Version: version, By: "a test"})
	}
	for version, code := range map[string]twirp.ErrorCode{
		"3": twirp.NotFound, "": twirp.InvalidArgument, "a\u202eb": twirp.InvalidArgument,
	} { // order-free
		_, err := set(version)
		if e, ok := err.(twirp.Error); !ok || e.Code() != code {
			t.Errorf("%q: %v, want %s", version, err, code)
		}
	}
	if res, err := set("1.2.3"); err != nil || res.Before != "2" {
		t.Errorf("the target is set: %v, %v", res, err)
	}
	res, err := set("1.2.3")
	if err != nil {
		t.Fatalf("the target is not stored: %v, %v", res, err)
	}
	if res.Target != "1.2.3" || len(res.Regions) > 0 || res.NextTarget != "2" || res.NextTargetMs == 0 {
		t.Errorf("no region runs it, and the answer is %v", res)
	}
	first.keeper.SetRank(9)
	first.store.turn(true) // it loses the lease, and cannot have it again
	time.Sleep(time.Minute)
	second := launchOn(t, coordinator.DefaultConfig(), first.backend.Backend, &quiet{Backend: first.store.Backend})
	second.elected()
	if r := rollout(second); r.Target != "1.2.3" {
		t.Errorf("the next term has another target: %v", r)
	}
}

// registerVersion lets a region register with a version of the application.
func (r *rig) registerVersion(n int, version string) {
	r.t.Helper()
	r.member(n, true)
	reg := control.Register{Name: fmt.Sprint("r", n), Types: []sharding.TypeDesc{{Type: "T0", Shards: 1}}, Version: version}
	answer, err := service{r.Server}.Answer(r.ctx, region1(n), reg, 100)
	if ack, is := answer.(control.RegisterAck); err != nil || !is || ack.Refusal != "" {
		r.t.Fatalf("region %d is not registered: %v, %v", n, answer, err)
	}
}
