//go:build mutants

package outbox_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/mutanttest"
)

// TestMutants checks that the tests fail without a guard.
func TestMutants(t *testing.T) {
	names := []string{"pair-order", "send-key", "max-age", "silent-refusal", "send-ack", "send-back-off", "unsure", "stored-sends", "sends-meanwhile", "evicted", "crowded", "ready-again", "ack-apart", "ack-back-off", "ack-deposed", "page-deposed", "no-clock",
		"drop-forgets", "drop-waits", "drop-read", "take-grace", "page-full", "page-behind", "ended-durable", "obsolete-counts", "early-retry", "early-limit", "early-in-flight",
		"send-options", "send-age-limit", "ends-in-pause", "early-slow"}
	tests := []func(testing.TB){atOnce, pairsApart, deadLetters, meanwhile, crowded, unstorable, deposed, deposedPage, tooOldToWait, noClock, givenUp, untaken, fullPage, behindDamage, evictedBehind, endedDurable, obsolete, servedAnew, earlyBounds, inFlight, released, ownOptions, endsInPause, ageLimit, earlySlow}
	for seed := range uint64(200) {
		tests = append(tests, func(t testing.TB) { random(t, seed) })
	}
	mutanttest.Caught(t, names, tests...)
}
