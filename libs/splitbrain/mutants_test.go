//go:build mutants

package splitbrain

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

// mutants are the guards that can be removed, each with its place.
var mutants = []struct{ name, place string }{
	{"split-stable-after", "nothing is decided before the membership is stable"},
	{"split-observations", "what single members observe must be stable too"},
	{"split-leader", "one node decides for its side"},
	{"split-unstable", "what never becomes stable ends"},
	{"split-own-pause", "one's own pause says nothing about others"},
	{"split-indirect", "the indirectly connected go"},
	{"split-seen", "who has seen that it is unreachable is connected indirectly"},
	{"split-old", "what those out of touch observed is old"},
	{"split-quorum-size", "static-quorum: two sides cannot both have the size"},
	{"split-tie", "keep-majority: of two equal sides the lowest address decides"},
	{"split-recount", "the side that stays counts the other pessimistically"},
	{"split-lease-fresh", "a lease that is over says nothing"},
	{"split-lease-given", "a lease that was given up says nothing"},
	{"split-yield-late", "no lease moves when a side may have decided by it"},
}

// TestMutants removes one guard after the other and shows who notices.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	if by, text := notice(t); by != "" {
		t.Fatalf("with all guards: %s: %s", by, text)
	}
	for _, m := range mutants {
		mutant.Activate(m.name)
		by, text := notice(t)
		if by == "" {
			t.Errorf("%-21s SURVIVES  (%s)", m.name, m.place)
			continue
		}
		t.Logf("%-21s %-14s %.150s", m.name, by, text)
	}
}

// notice runs what must hold until something does not.
func notice(t *testing.T) (by, text string) {
	for name, run := range scenarios {
		if err := run(); err != nil {
			return "scenarios", fmt.Sprintf("%s: %v", name, err)
		}
	}
	raw, err := os.ReadFile("testdata/splitbrain.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Cases []json.RawMessage }
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	listed := deviations(t)
	for _, c := range doc.Cases {
		var v vector
		if err := json.Unmarshal(c, &v); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(listed, func(d *deviation) bool { return d.pattern.Match(c) }) {
			continue
		}
		if err := v.check(t); err != nil {
			return "vectors", v.ID + ": " + err.Error()
		}
	}
	for _, name := range names {
		if _, ok := configs(2)[name]; !ok {
			continue
		}
		if c := cleanPartitions(name, 4, false); len(c.broken) > 0 {
			return "partitions", name + ": " + c.broken[0]
		}
		if c := matrices(name, 4, false); len(c.broken) > 0 {
			return "matrices", name + ": " + c.broken[0]
		}
	}
	return "", ""
}
