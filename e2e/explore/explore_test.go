package explore

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"strconv"
	"testing"
)

func scopeNamed(name string) func(Bound) *Result {
	return map[string]func(Bound) *Result{"handoff": Handoff, "direct": DirectHandoff, "append": Append, "lease": Lease, "tenure": Tenure}[name]
}

// TestScopes searches each scope exhaustively within small bounds.
func TestScopes(t *testing.T) {
	for _, s := range []struct {
		name string
		b    Bound
	}{
		{"handoff", Bound{Timeouts: 2}},
		{"handoff", Bound{Faults: 1, Timeouts: 1}},
		{"direct", Bound{Timeouts: 2}},
		{"direct", Bound{Faults: 1}},
		{"append", Bound{Timeouts: 2}},
		{"append", Bound{Faults: 1}},
		{"lease", Bound{Timeouts: 2}},
		{"lease", Bound{Faults: 1, Timeouts: 1}},
		{"tenure", Bound{Timeouts: 1}},
		{"tenure", Bound{Faults: 2}},
	} {
		explore(t, s.name, s.b)
	}
}

// TestWholeBound searches each scope with at most two faults and two timeouts, the
// scopes handoff and tenure within smaller bounds, if EXPLORE is set: to "full", or to a
// number of states to stop at.
func TestWholeBound(t *testing.T) {
	text := os.Getenv("EXPLORE")
	if text == "" {
		t.Skip("takes minutes and gigabytes: make explore")
	}
	states := 0
	if text != "full" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("EXPLORE is %q; set it to full or to a number of states", text)
		}
		states = n
	}
	for _, s := range []struct {
		name             string
		faults, timeouts int
	}{
		{"append", 2, 2}, {"handoff", 2, 1}, {"handoff", 1, 2}, {"direct", 1, 1}, {"direct", 2, 0}, {"lease", 2, 2}, {"tenure", 2, 1}, {"tenure", 0, 2},
	} {
		t.Run(fmt.Sprintf("%s-%d-%d", s.name, s.faults, s.timeouts), func(t *testing.T) {
			t.Parallel()
			explore(t, s.name, Bound{Faults: s.faults, Timeouts: s.timeouts, States: states})
		})
	}
}

func explore(t *testing.T, name string, b Bound) {
	r := scopeNamed(name)(b)
	t.Logf("%-8s %d faults, %d timeouts: %v", name, b.Faults, b.Timeouts, r)
	switch {
	case r.Broken != "":
		t.Errorf("%s is broken", name)
	case !r.Complete && b.States == 0:
		t.Errorf("%s was not searched to its end", name)
	}
}

// TestVoid compares a search that leaves out the messages that are void with one
// that does not: the processes, the journal and the client come into the same
// states. So does the net, but for messages that change nothing.
func TestVoid(t *testing.T) {
	for _, s := range []struct {
		name string
		b    Bound
	}{
		{"handoff", Bound{Timeouts: 2}},
		{"handoff", Bound{Faults: 1}},
		{"direct", Bound{Timeouts: 1}},
		{"direct", Bound{Faults: 1}},
		{"append", Bound{Timeouts: 1}},
		{"append", Bound{Faults: 1}},
		{"tenure", Bound{Timeouts: 1}},
		{"tenure", Bound{Faults: 1}},
	} {
		some, r := visited(s.name, s.b)
		s.b.Whole = true
		all, whole := visited(s.name, s.b)
		if r.Broken != "" || whole.Broken != "" {
			t.Fatalf("%s is broken: %v, %v", s.name, r, whole)
		}
		t.Logf("%-8s %d faults, %d timeouts: %d states instead of %d; the parts come into the same %d",
			s.name, s.b.Faults, s.b.Timeouts, r.States, whole.States, len(all))
		if !maps.Equal(some, all) {
			t.Errorf("%s: without void messages the parts come into %d states, which are others", s.name, len(some))
		}
	}
}

// visited searches and returns the states that all parts together came into.
func visited(name string, b Bound) (map[[32]byte]bool, *Result) {
	all := map[[32]byte]bool{}
	sums := map[part][32]byte{}
	b.visit = func(e *engine, s *state) {
		var together []byte
		for i, n := range s.parts {
			if len(e.parts[i]) == 0 {
				continue // not every world has all parts
			}
			p := e.parts[i][n]
			sum, ok := sums[p]
			if !ok {
				sum = sha256.Sum256(p.appendState(nil))
				sums[p] = sum
			}
			together = append(together, sum[:]...)
		}
		all[sha256.Sum256(together)] = true
	}
	return all, scopeNamed(name)(b)
}
