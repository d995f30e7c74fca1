//go:build mutants

package explore

import (
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// mutants are guards without which a scope must break, and the bound within
// which it does.
var mutants = []struct {
	name, scope string
	b           Bound
}{
	{"claim", "handoff", Bound{Faults: 1}},
	{"persist-before-send", "handoff", Bound{}},
	{"min-epoch-after-drain", "handoff", Bound{Faults: 1}},
	{"min-epoch-check", "handoff", Bound{Faults: 1}},
	{"next-counted", "direct", Bound{}},
	{"claim", "direct", Bound{}},
	{"min-epoch-check", "direct", Bound{}},
	{"min-epoch-after-drain", "direct", Bound{Faults: 1}},
	{"drain-settles", "append", Bound{Faults: 1}},
	{"epoch-check", "append", Bound{}},
	{"output-gate", "append", Bound{}},
	{"seq-check", "append", Bound{Faults: 1}},
	{"settle-by-write", "append", Bound{Faults: 1}},
	{"claim-check", "append", Bound{Faults: 1}},
	{"term-per-incarnation", "lease", Bound{Faults: 1, Timeouts: 1}},
	{"late-confirm", "lease", Bound{Timeouts: 1}},
	{"lease-time", "lease", Bound{Timeouts: 2}},
	{"lease-nonce", "lease", Bound{Faults: 1, Timeouts: 1}},
	{"held-until-durable", "tenure", Bound{}},
	{"persist-before-send", "tenure", Bound{}},
	{"lapse", "tenure", Bound{Timeouts: 1}},
	{"lapse-at-once", "tenure", Bound{Timeouts: 1}},
	{"fact-unknown", "tenure", Bound{Faults: 1}},
	{"checkpoint-first", "tenure", Bound{Faults: 1}},
	{"epoch-check", "tenure", Bound{Timeouts: 1}},
	{"claim-check", "tenure", Bound{Faults: 1, Timeouts: 1}},
	// A read that is late by a whole term is far away.
	{"stale-fold", "tenure", Bound{Faults: 1, Timeouts: 1, States: 600_000}},
}

// TestMutants removes one guard after the other: the search must find how the
// promise breaks.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, m := range mutants {
		mutant.Activate(m.name)
		if m.b.States == 0 {
			m.b.States = 100_000
		}
		r := scopeNamed(m.scope)(m.b)
		if r.Broken == "" {
			t.Errorf("%-21s SURVIVES %s: %v", m.name, m.scope, r)
			continue
		}
		last := "the beginning"
		if n := len(r.Path); n > 0 {
			last = r.Path[n-1]
		}
		t.Logf("%-21s %-8s state %6d  %s, after %d moves, the last: %s", m.name, m.scope, r.States, r.Broken, len(r.Path), last)
	}
}
