package entity

import (
	"strings"
	"testing"

	diagnosisv1 "github.com/roost-cluster/roost/proto/roost/admin/v1/diagnosis"
)

func TestDescribeExplain(t *testing.T) {
	index := uint32(7)
	got := strings.Join(describeExplain(&diagnosisv1.ExplainResponse{
		Type: "Cart", Id: "anna", Index: &index, By: "coordinator-1", TookUs: 1500, Stack: "goroutine 7\n",
		Findings: []*diagnosisv1.Finding{{Name: "handler-stuck", Text: "it hangs", Next: "look"}, {Name: "mailbox-full", Text: "no\nroom"}},
		Parties: []*diagnosisv1.Party{
			{Role: "gateway", Name: "g:1", Addr: "g:1", Result: "answered", TookUs: 200, Facts: []string{"a fact"}},
			{Role: "region", Name: "region-1", Addr: "r:1", Result: "error", Error: "why", TookUs: 300},
		},
	}), "\n")
	want := `Cart/anna  shard 7
handler-stuck: it hangs
  do: look
also:
  mailbox-full: no room
asked by coordinator-1, in 1.5 ms:
  gateway g:1  answered after 0.2 ms
    a fact
  region region-1 (r:1)  error after 0.3 ms: why
the turn that runs:
goroutine 7`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
