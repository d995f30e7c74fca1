package server

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/diagnosis"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
)

// TestExplain: a coordinator explains an entity by its row, its fence and its region, which here runs a release that
// cannot be queried.
func TestExplain(t *testing.T) {
	r, f, admin := standing(t)
	defer r.end()
	client := diagnosisv1.NewDiagnosisProtobufClient("http://"+r.node.ManagementAddr(), r.client)
	explain := func(typ, id string) *diagnosisv1.ExplainResponse {
		t.Helper()
		res, err := client.Explain(t.Context(), &diagnosisv1.ExplainRequest{Type: typ, Id: id})
		if err != nil || len(res.Findings) == 0 || len(res.Parties) == 0 {
			t.Fatal(res, err)
		}
		return res
	}
	if res := explain("None", "e1"); res.Findings[0].Name != string(diagnosis.UnknownType) || res.Index != nil {
		t.Errorf("an unknown type: %v", res)
	}
	await(t, "a shard that was never allocated waits for its first command", func() bool {
		return explain("T", "e1").Findings[0].Name == string(diagnosis.Unallocated)
	})
	f.serveT(t, r.addr, admin)
	res := explain("T", "e1")
	i := slices.IndexFunc(res.Parties, func(p *diagnosisv1.Party) bool { return p.Role == string(diagnosis.Region) })
	if i < 0 || !strings.Contains(res.Parties[i].Error, "cannot be queried") || res.Findings[0].Name != string(diagnosis.OwnerFails) {
		t.Errorf("a region that cannot be queried: %v", res)
	}
	facts := strings.Join(res.Parties[0].Facts, "\n")
	for _, want := range []string{"serving at region-1", "the owner is", "the fence is at epoch 0.1", "1 registered regions host the type"} {
		if !strings.Contains(facts, want) {
			t.Errorf("the coordinator does not say %q:\n%s", want, facts)
		}
	}
	var e twirp.Error
	if _, err := client.Explain(t.Context(), &diagnosisv1.ExplainRequest{Type: "T"}); !errors.As(err, &e) || e.Code() != twirp.InvalidArgument {
		t.Errorf("no entity is explained: %v", err)
	}
}

// TestExamine: all members are queried about their setup, and one that runs a release that cannot be queried is named.
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
	if a := said["process-silent"]; a == nil || !strings.Contains(a.Text, "region region-1 has not answered: it runs a release of Roost that cannot be queried") {
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
