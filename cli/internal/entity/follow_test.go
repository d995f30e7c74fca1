package entity

import (
	"context"
	"errors"
	"strings"
	"testing"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
)

// waiting has the findings and the failing sends of entities, by their names.
type waiting struct {
	findings map[string]*diagnosisv1.Finding
	sends    map[string][]*adminv1.Send
}

func (w waiting) Explain(_ context.Context, req *diagnosisv1.ExplainRequest) (*diagnosisv1.ExplainResponse, error) {
	f := w.findings[req.Type+"/"+req.Id]
	if f == nil {
		return nil, errors.New("no entity type " + req.Type)
	}
	return &diagnosisv1.ExplainResponse{Type: req.Type, Id: req.Id, Findings: []*diagnosisv1.Finding{f}}, nil
}

func (w waiting) Sends(_ context.Context, req *adminv1.SendsRequest) (*adminv1.SendsResponse, error) {
	if !req.Failing {
		return nil, errors.New("only failing ones are requested")
	}
	return &adminv1.SendsResponse{Sends: w.sends[req.Type+"/"+req.Id]}, nil
}

// TestFollowExplain: an explanation follows the asks and the failing sends of an entity, and of the entities that it waits for, once each.
func TestFollowExplain(t *testing.T) {
	send := func(id string, answer bool) *adminv1.Send {
		return &adminv1.Send{TargetType: "Item", TargetId: id, Command: "Reserve", Answer: answer, Failure: &adminv1.Failure{Times: 3, Code: "internal", Message: "no shelf"}}
	}
	w := waiting{
		findings: map[string]*diagnosisv1.Finding{
			"Cart/dora": {Name: "waits-for-entity", Text: "it waits", FollowType: "Item", FollowId: "pen"},
			"Item/pen":  {Name: "active", Text: "it is active"},
			"Item/ink":  {Name: "waits-for-entity", Text: "it waits", FollowType: "Cart", FollowId: "dora"},
			"Item/cap":  {Name: "handler-stuck", Text: "it hangs", Next: "look"},
		},
		sends: map[string][]*adminv1.Send{
			"Cart/dora": {send("ink", false), send("gone", false), send("answered", true)},
			"Item/pen":  {send("cap", false), send("ink", false)},
		},
	}
	res, err := w.Explain(t.Context(), &diagnosisv1.ExplainRequest{Type: "Cart", Id: "dora"})
	if err != nil {
		t.Fatal(err)
	}
	follow(t.Context(), w, w, res)
	got := strings.Join(describeExplain(res)[3:], "\n")
	want := `Cart/dora waits for the answer of Item/pen
  Item/pen: active: it is active
Cart/dora sends Reserve to Item/ink, which has failed 3 times: internal: no shelf
  Item/ink: waits-for-entity: it waits
Cart/dora sends Reserve to Item/gone, which has failed 3 times: internal: no shelf
  no entity type Item
Item/pen sends Reserve to Item/cap, which has failed 3 times: internal: no shelf
  Item/cap: handler-stuck: it hangs
    do: look`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	res.Followed = nil
	if follow(t.Context(), w, nil, res); len(res.Followed) != 1 {
		t.Errorf("without a coordinator: %v", res.Followed)
	}
}
