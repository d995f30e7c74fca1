//go:build mutants

package outbox_test

import (
	"runtime"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// failureCatcher takes the failures of a test that is run with a mutant.
type failureCatcher struct {
	testing.TB
	failed bool
}

func (p *failureCatcher) Helper()               {}
func (p *failureCatcher) Errorf(string, ...any) { p.failed = true }
func (p *failureCatcher) Fatal(...any)          { p.failed = true; runtime.Goexit() }
func (p *failureCatcher) Fatalf(string, ...any) { p.failed = true; runtime.Goexit() }

// TestMutants checks that the comparison with the model fails without a guard.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"pair-order", "send-key", "max-age", "silent-refusal", "send-ack", "send-back-off", "unsure", "stored-sends", "sends-meanwhile", "evicted", "crowded", "ready-again", "ack-apart", "ack-back-off", "ack-deposed", "page-deposed", "send-no-clock",
		"drop-forgets", "drop-waits", "drop-read", "take-grace", "page-full", "page-behind", "ended-durable", "obsolete-counts", "early-retry", "early-limit", "early-in-flight",
		"send-options", "send-age-limit", "ends-in-pause", "early-slow"} {
		mutant.Activate(name)
		p := &failureCatcher{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, test := range []func(testing.TB){atOnce, pairsApart, deadLetters, meanwhile, crowded, unstorable, deposed, deposedPage, tooOldToWait, noClock, givenUp, untaken, fullPage, behindDamage, evictedBehind, endedDurable, obsolete, servedAnew, earlyBounds, inFlight, released, ownOptions, endsInPause, ageLimit, earlySlow} {
				test(p)
			}
			for seed := uint64(0); seed < 200 && !p.failed; seed++ {
				random(p, seed)
			}
		}()
		<-done
		mutant.Activate("")
		if !p.failed {
			t.Errorf("mutant %s: no test fails", name)
		}
	}
}
