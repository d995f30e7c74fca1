package explore

import (
	"os"
	"strconv"
	"testing"
)

func scopeNamed(name string) func(Bound) *Result {
	return map[string]func(Bound) *Result{"handoff": Handoff, "append": Append, "lease": Lease}[name]
}

// TestScopes searches each scope completely within small bounds, and then as
// far as a number of states goes within two faults and two timeouts.
// EXPLORE_STATES is that number; 0 is no end.
func TestScopes(t *testing.T) {
	states := 20_000
	if text := os.Getenv("EXPLORE_STATES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("EXPLORE_STATES: %v", err)
		}
		states = n
	}
	for _, s := range []struct {
		name string
		b    Bound
	}{
		{"handoff", Bound{Timeouts: 2}},
		{"handoff", Bound{Faults: 1}},
		{"append", Bound{Timeouts: 1}},
		{"lease", Bound{Timeouts: 2}},
		{"lease", Bound{Faults: 1, Timeouts: 1}},
		{"handoff", Bound{Faults: 2, Timeouts: 2, States: states}},
		{"append", Bound{Faults: 2, Timeouts: 2, States: states}},
		{"lease", Bound{Faults: 2, Timeouts: 2, States: 2 * states}},
	} {
		r := scopeNamed(s.name)(s.b)
		t.Logf("%-8s %d faults, %d timeouts: %v", s.name, s.b.Faults, s.b.Timeouts, r)
		switch {
		case r.Broken != "":
			t.Errorf("%s is broken", s.name)
		case s.b.States == 0 && !r.Complete:
			t.Errorf("%s was not searched to its end", s.name)
		}
	}
}
