package placer

import (
	"context"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/adminclient"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		name         string
		now, regions []string
		want         map[uint32]string
	}{
		{"nothing is placed yet", make([]string, 4), []string{"a", "b"}, map[uint32]string{0: "a", 1: "b", 2: "a", 3: "b"}},
		{"what is right stays", []string{"b", "b", "a", "a"}, []string{"a", "b"}, map[uint32]string{0: "b", 1: "b", 2: "a", 3: "a"}},
		{"a region without the label", []string{"c", "b", "c", "a"}, []string{"a", "b"}, map[uint32]string{0: "a", 1: "b", 2: "b", 3: "a"}},
		{"a region has come", []string{"a", "a", "a", "a"}, []string{"a", "b"}, map[uint32]string{0: "a", 1: "a", 2: "b", 3: "b"}},
	} {
		if got := spread(c.now, c.regions); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// labelled is a coordinator of a cluster in which a region has the label disk=ssd, and another one with it is drained.
type labelled struct {
	adminv1.Admin
	pins int
}

func (*labelled) Members(context.Context, *adminv1.MembersRequest) (*adminv1.MembersResponse, error) {
	return &adminv1.MembersResponse{Members: []*adminv1.Member{
		{Name: "a", Status: "up", Reachable: true, Labels: map[string]string{"disk": "ssd"}},
		{Name: "b", Status: "up", Reachable: true, Labels: map[string]string{"disk": "hdd"}, Draining: true},
	}}, nil
}

func (*labelled) Shards(context.Context, *adminv1.ShardsRequest) (*adminv1.ShardsResponse, error) {
	return &adminv1.ShardsResponse{Types: []*adminv1.TypeSummary{{Type: "T", Shards: 2}}}, nil
}

func (*labelled) Steering(context.Context, *adminv1.SteeringRequest) (*adminv1.SteeringResponse, error) {
	return &adminv1.SteeringResponse{Pins: []*adminv1.PinnedShard{{Type: "T", Index: 1, Region: "a", By: "placer", Reason: "disk=ssd"}}}, nil
}

func (l *labelled) Pin(context.Context, *adminv1.PinRequest) (*adminv1.SteerResponse, error) {
	l.pins++
	return &adminv1.SteerResponse{}, nil
}

// TestNoRegion: if no region with the label can be given shards, the pins stay as they are, and the error
// lists the labels.
func TestNoRegion(t *testing.T) {
	coordinator := &labelled{}
	srv := httptest.NewServer(adminv1.NewAdminServer(coordinator))
	defer srv.Close()
	for value, ok := range map[string]bool{"sdd": false, "hdd": false, "ssd": true} { // order-free: each is requested once
		coordinator.pins = 0
		_, err := Place(t.Context(), adminclient.New(srv.URL), "T", "disk", value)
		if ok != (err == nil) || ok != (coordinator.pins > 0) {
			t.Errorf("disk=%s: %v, %d requests to pin", value, err, coordinator.pins)
		}
		if !ok && !strings.Contains(err.Error(), "the labels of regions are disk=hdd, disk=ssd") {
			t.Errorf("disk=%s: %v", value, err)
		}
	}
}
