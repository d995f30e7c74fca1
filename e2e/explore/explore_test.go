package explore

import (
	"os"
	"strconv"
	"testing"
)

func scopeNamed(name string) func(Bound) *Result {
	return map[string]func(Bound) *Result{"handoff": Handoff, "append": Append, "lease": Lease}[name]
}

// within are the bounds that are searched to their end: small ones always, deep
// ones when EXPLORE_STATES is set.
var within = []struct {
	name string
	b    Bound
	deep bool
}{
	{"handoff", Bound{Timeouts: 2}, false},
	{"handoff", Bound{Faults: 1}, false},
	{"append", Bound{Timeouts: 1}, false},
	{"lease", Bound{Timeouts: 2}, false},
	{"lease", Bound{Faults: 1, Timeouts: 1}, false},
	{"handoff", Bound{Faults: 1, Timeouts: 1}, true},
	{"append", Bound{Faults: 1}, true},
	{"lease", Bound{Faults: 1, Timeouts: 2}, true},
}

// TestScopes searches each scope to its end within some bounds, and then as far
// as a number of states goes within two faults and two timeouts.
// EXPLORE_STATES is that number; 0 is no end.
func TestScopes(t *testing.T) {
	states, deep := 20_000, false
	if text := os.Getenv("EXPLORE_STATES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("EXPLORE_STATES: %v", err)
		}
		states, deep = n, true
	}
	for _, s := range within {
		if s.deep && !deep {
			continue
		}
		if r := explore(t, s.name, s.b); !r.Complete {
			t.Errorf("%s was not searched to its end", s.name)
		}
	}
	for _, name := range []string{"handoff", "append", "lease"} {
		explore(t, name, Bound{Faults: 2, Timeouts: 2, States: states})
	}
}

func explore(t *testing.T, name string, b Bound) *Result {
	r := scopeNamed(name)(b)
	t.Logf("%-8s %d faults, %d timeouts: %v", name, b.Faults, b.Timeouts, r)
	if r.Broken != "" {
		t.Errorf("%s is broken", name)
	}
	return r
}
