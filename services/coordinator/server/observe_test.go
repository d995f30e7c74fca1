package server

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/checkup"
	"github.com/roost-cluster/roost/libs/diagnosis"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// TestExplain: a coordinator explains an entity by its row, its fence and its region, which here runs a release that
// cannot be asked.
func TestExplain(t *testing.T) {
	r, f, admin := standing(t)
	defer r.end()
	client := adminv1.NewDiagnosisProtobufClient("http://"+r.node.ManagementAddr(), r.client)
	explain := func(typ, id string) *adminv1.ExplainResponse {
		t.Helper()
		res, err := client.Explain(t.Context(), &adminv1.ExplainRequest{Type: typ, Id: id})
		if err != nil || len(res.Findings) == 0 || len(res.Parties) == 0 {
			t.Fatal(res, err)
		}
		return res
	}
	if res := explain("None", "e1"); res.Findings[0].Cause != string(diagnosis.UnknownType) || res.Index != nil {
		t.Errorf("an unknown type: %v", res)
	}
	await(t, "a shard that was never allocated waits for its first command", func() bool {
		return explain("T", "e1").Findings[0].Cause == string(diagnosis.Unallocated)
	})
	f.serveT(t, r.addr, admin)
	res := explain("T", "e1")
	i := slices.IndexFunc(res.Parties, func(p *adminv1.Party) bool { return p.Role == string(diagnosis.Region) })
	if i < 0 || !strings.Contains(res.Parties[i].Error, "cannot be asked") || res.Findings[0].Cause != string(diagnosis.OwnerFails) {
		t.Errorf("a region that cannot be asked: %v", res)
	}
	facts := strings.Join(res.Parties[0].Facts, "\n")
	for _, want := range []string{"serving at region-1", "the owner is", "the fence is at epoch 0.1", "1 registered regions host the type"} {
		if !strings.Contains(facts, want) {
			t.Errorf("the coordinator does not say %q:\n%s", want, facts)
		}
	}
	var e twirp.Error
	if _, err := client.Explain(t.Context(), &adminv1.ExplainRequest{Type: "T"}); !errors.As(err, &e) || e.Code() != twirp.InvalidArgument {
		t.Errorf("no entity is explained: %v", err)
	}
}

// TestExamine: all members are asked how they are set up, and one that runs a release that cannot be asked is named.
func TestExamine(t *testing.T) {
	r, f, admin := standing(t)
	defer r.end()
	f.serveT(t, r.addr, admin)
	res, err := admin.Examine(t.Context(), &adminv1.ExamineRequest{})
	if err != nil || res.Processes != 1 {
		t.Fatal(res, err)
	}
	said := map[string]*adminv1.Advice{}
	for _, a := range res.Advice {
		said[a.Name] = a
	}
	if a := said["process-silent"]; a == nil || !strings.Contains(a.Text, "region region-1 has not answered: it runs a release of Roost that cannot be asked") {
		t.Errorf("the region: %v", res)
	}
	for _, name := range []string{"tls-off", "one-coordinator", "one-region"} {
		if said[name] == nil {
			t.Errorf("%s is not found: %v", name, res)
		}
	}
	if said["clocks-apart"] != nil || said["journal-warning"] != nil || said["lease-unusable"] != nil {
		t.Errorf("found without reason: %v", res)
	}
}

// TestExaminePlacement: what the coordinator knows of shards and of the rollout is judged too.
func TestExaminePlacement(t *testing.T) {
	r, _, _ := standing(t)
	defer r.end()
	ev := &checkup.Evidence{}
	v := &coordinator.View{
		Unreadable:  []coordinator.UnreadableShards{{Type: "T", Shards: []uint32{1, 2}, Closest: "r9", Version: "v1"}},
		HomelessAll: 7, Homeless: []coordinator.Homeless{{Shard: sharding.ShardID{Type: "T", Index: 5}, For: time.Hour}},
		Rollout: coordinator.RolloutView{On: true, Target: "v2", Still: 2 * time.Hour},
	}
	r.server.addPlacement(ev, v)
	said := map[string]string{}
	for _, a := range checkup.Examine(ev) {
		said[a.Name] = a.Text
	}
	for name, want := range map[string]string{"shard-unreadable": "2 shards of T", "shard-without-region": "7 shards are without a region, T/5 for", "rollout-unfinished": "v2"} { // order-free
		if !strings.Contains(said[name], want) {
			t.Errorf("%s: %q", name, said[name])
		}
	}
	if len(ev.Lost) != 0 {
		t.Errorf("lost are %v", ev.Lost)
	}
}

func TestClockOffset(t *testing.T) {
	from := time.UnixMilli(1_000_000)
	to := from.Add(30 * time.Millisecond)
	for _, c := range []struct{ read, want time.Duration }{
		{-2 * time.Second, -2 * time.Second}, {-time.Millisecond, 0}, {0, 0}, {30 * time.Millisecond, 0}, {40 * time.Millisecond, 10 * time.Millisecond},
	} {
		if got := clockOffset(from.Add(c.read), from, to); got != c.want {
			t.Errorf("read at %s: %s, want %s", c.read, got, c.want)
		}
	}
}
