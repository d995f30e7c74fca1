package main

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/cli/internal/app"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

func (f *fakeAdmin) Quarantine(_ context.Context, req *adminv1.QuarantineRequest) (*adminv1.SteerResponse, error) {
	if err := f.record(req); err != nil {
		return nil, err
	}
	return f.steered(req.By, &adminv1.SteerResponse{Changes: 1, Remarks: []string{"its shard Cart/17 is at region-2"}})
}

func (f *fakeAdmin) Quarantines(_ context.Context, req *adminv1.QuarantinesRequest) (*adminv1.QuarantinesResponse, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if req.Type == "Other" {
		return &adminv1.QuarantinesResponse{}, nil
	}
	return &adminv1.QuarantinesResponse{Entities: []*adminv1.QuarantinedEntity{{
		Type: "Cart", Id: "dora", Index: 17, Region: "region-3", State: "quarantined", Command: "Checkout", By: "roost",
		Reason: "its command Checkout ended region-1, region-2", Crashes: []*adminv1.Crash{{Region: "region-1"}, {Region: "region-2"}},
	}}}, nil
}

// TestQuarantine: requests reach the coordinator.
func TestQuarantine(t *testing.T) {
	f := &fakeAdmin{}
	url := serve(t, f)
	code, out, _ := roost(t, "--admin", url, "entity", "quarantine")
	if code != app.ExitOK || !strings.Contains(out, "Cart/dora  quarantined  Cart/17  region-3        2  Checkout  roost") {
		t.Errorf("list: %d %s", code, out)
	}
	if _, out, _ = roost(t, "--admin", url, "entity", "quarantine", "--type", "Other"); !strings.Contains(out, "no entity is quarantined") {
		t.Errorf("list of another type: %s", out)
	}
	code, out, _ = roost(t, "--admin", url, "entity", "quarantine", "Cart/dora", "--reason", "it hangs", "--dry-run")
	if code != app.ExitOK || out != "nothing is changed; without --dry-run it would be so: Cart/dora is quarantined: it does not run\nits shard Cart/17 is at region-2\n" {
		t.Errorf("dry run: %d %s", code, out)
	}
	f.recorded()
	if code, out, _ = roost(t, "--admin", url, "entity", "quarantine", "--undo", "Cart", "dora", "--reason", "repaired"); code != app.ExitOK || !strings.HasPrefix(out, "Cart/dora is not quarantined") {
		t.Errorf("release: %d %s", code, out)
	}
	want := &adminv1.QuarantineRequest{Type: "Cart", Id: "dora", Release: true, By: app.WhoAmI(), Reason: "repaired"}
	if got := f.recorded(); len(got) != 1 || !proto.Equal(got[0], want) {
		t.Errorf("the requests are %v", got)
	}
}
