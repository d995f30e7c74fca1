//go:build mutants

package replies

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutants shows what each guard is for.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	large, small := &SizeEstimate{size: 4_000}, &SizeEstimate{size: 300}
	for name, broken := range map[string]func() bool{ // order-free: each for itself
		"reply-order": func() bool {
			_, _, ask := testQueue(t)
			ask("a", large, "")
			return ask("a", small, "") == Admitted
		},
		"reply-patience": func() bool {
			b, q, _ := testQueue(t)
			at := time.Unix(1000, 0)
			q.Admit(b, at, &Request{Entity: entityOf("a"), Estimate: large, Deadline: at.Add(time.Second)}, new(""))
			return len(q.Late(b, at.Add(time.Second), small)) == 0
		},
		"entity-share": func() bool {
			b, q := NewBudget(sharedConfig()), &Queue[string]{}
			for range 20 {
				q.Admit(b, time.Time{}, &Request{Entity: entityOf("a"), Estimate: small}, new(""))
			}
			return q.owed > 4_000
		},
		"dropped-stays": func() bool {
			b, q, ask := testQueue(t)
			ask("a", large, "1")
			q.Drop(b)
			return ask("a", large, "2") != Dropped
		},
	} {
		if broken() {
			t.Errorf("%s: broken without the mutant", name)
		}
		mutant.Activate(name)
		if !broken() {
			t.Errorf("mutant %s is not noticed", name)
		}
		mutant.Activate("")
	}
}
