//go:build mutants

package bootstrap_test

import (
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/mutant"
)

// TestMutants removes one guard after the other until a boot goes wrong, and
// prints which seed noticed what.
func TestMutants(t *testing.T) {
	limit := number(t, "BOOT_SEEDS", 4000)
	t.Cleanup(func() { mutant.Activate("") })
	for _, m := range []struct{ name, place string }{
		{"stable-margin", "bootstrap: no cluster is formed while the list of contact points changes"},
		{"required-contacts", "bootstrap: so many contact points must have answered"},
		{"contact-all", "bootstrap: every listed contact point must have answered"},
		{"lowest-address", "bootstrap: only the lowest address forms a cluster"},
		{"stale-observation", "bootstrap: old answers do not count"},
		{"form-new-cluster", "bootstrap: who may not form a cluster does not"},
	} {
		mutant.Activate(m.name)
		began := time.Now()
		var w *world
		seed := 0
		for ; seed < limit; seed++ {
			if w = boot(uint64(seed), nil); w.broken != "" {
				break
			}
		}
		if w.broken == "" {
			t.Errorf("%-21s SURVIVES %d seeds in %v  (%s)", m.name, limit, time.Since(began).Round(time.Millisecond), m.place)
			continue
		}
		t.Logf("%-21s seed %4d  %s", m.name, seed, w.broken)
	}
	// That a process is paused between answers, and these alone mislead it, is too
	// rare for the boots.
	mutant.Activate("question-time")
	if !formsOnLateAnswers(t) {
		t.Error("question-time SURVIVES  (bootstrap: an answer is as old as its question)")
	}
}
