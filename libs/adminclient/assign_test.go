package adminclient

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// coordinator is an active coordinator.
type coordinator struct {
	adminv1.Admin
	pins     []*adminv1.PinnedShard
	requests []*adminv1.PinRequest
}

func (c *coordinator) Steering(context.Context, *adminv1.SteeringRequest) (*adminv1.SteeringResponse, error) {
	return &adminv1.SteeringResponse{Pins: c.pins}, nil
}

func (c *coordinator) Pin(_ context.Context, req *adminv1.PinRequest) (*adminv1.SteerResponse, error) {
	c.requests = append(c.requests, req)
	return &adminv1.SteerResponse{Changes: uint32(len(req.Pins)), Remarks: []string{"pins wait for the thaw"}}, nil
}

func TestAssign(t *testing.T) {
	c := &coordinator{pins: []*adminv1.PinnedShard{
		{Type: "Cart", Index: 0, Region: "a", By: "placer"}, // wanted so
		{Type: "Cart", Index: 1, Region: "a", By: "placer"}, // wanted elsewhere
		{Type: "Cart", Index: 2, Region: "a", By: "placer"}, // not wanted
		{Type: "Cart", Index: 3, Region: "a", By: "ann"},    // wanted elsewhere, but not ours
		{Type: "Cart", Index: 4, Region: "a", By: "ann"},    // not ours
	}}
	server := httptest.NewServer(adminv1.NewAdminServer(c))
	defer server.Close()
	done, err := New(server.URL).Assign(t.Context(), Assignment{
		Type: "Cart", Regions: map[uint32]string{0: "a", 1: "b", 3: "b", 9: "b"}, By: "placer", Reason: "disks",
	})
	if err != nil || done.Changed != 3 || len(done.Others) != 2 || len(done.Remarks) != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if len(c.requests) != 1 {
		t.Fatalf("%d requests for one batch of pins", len(c.requests))
	}
	var got []string
	for _, p := range c.requests[0].Pins {
		got = append(got, fmt.Sprintf("%s/%d=%s", p.Type, p.Index, p.Region))
	}
	if want := []string{"Cart/1=b", "Cart/2=", "Cart/9=b"}; !slices.Equal(got, want) || c.requests[0].By != "placer" || c.requests[0].Reason != "disks" {
		t.Errorf("asked for %v by %q, want %v", got, c.requests[0].By, want)
	}
}

// TestAssignInParts: a request that is too large is sent in several.
func TestAssignInParts(t *testing.T) {
	c := &coordinator{}
	server := httptest.NewServer(adminv1.NewAdminServer(c))
	defer server.Close()
	want := map[uint32]string{}
	for i := range uint32(MaxPins + 1) {
		want[i] = "a"
	}
	done, err := New(server.URL).Assign(t.Context(), Assignment{Type: "Cart", Regions: want, By: "placer"})
	if err != nil || done.Changed != MaxPins+1 || len(c.requests) != 2 || len(c.requests[0].Pins) != MaxPins || len(c.requests[1].Pins) != 1 {
		t.Errorf("%d changes in %d requests, %v", done.Changed, len(c.requests), err)
	}
}

func TestAssignRefuses(t *testing.T) {
	for _, a := range []Assignment{
		{By: "placer"}, {Type: "Cart"}, {Type: "Cart", By: "placer", Regions: map[uint32]string{1: ""}},
	} {
		if _, err := New("http://127.0.0.1:1").Assign(t.Context(), a); err == nil {
			t.Errorf("%+v is taken", a)
		}
	}
}
