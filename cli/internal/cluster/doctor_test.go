package cluster

import (
	"testing"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// TestNothingToSay: a cluster without a finding is said to be one.
func TestNothingToSay(t *testing.T) {
	if got := describeAdvice(&adminv1.ExamineResponse{Processes: 1}); len(got) != 1 || got[0] != "1 process asked, nothing to say" {
		t.Errorf("%q", got)
	}
}
