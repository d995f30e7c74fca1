package vectors

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

// runner runs a case, and says in what it comes out otherwise.
type runner func(raw []byte) error

// runnerOf finds what runs a case: by its id, or else by its kind. Without one,
// nothing here can do what the case is about.
func runnerOf(c *archtest.Vector) runner {
	for _, table := range []map[string]runner{shardingCases, singletonCases} {
		if run, ok := table[c.ID]; ok {
			return run
		}
		if run, ok := table[c.Kind]; ok {
			return run
		}
	}
	return nil
}

// deviations reads the ids of the table in testdata/deviations.md. Each row gives
// one of two kinds of reasons.
func deviations(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "deviations.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		why := strings.TrimSpace(cells[2])
		if !strings.HasPrefix(why, "not built: ") && !strings.HasPrefix(why, "differs on purpose: ") {
			t.Errorf("deviations.md says neither that it is not built nor that it differs on purpose: %s", line)
		}
		for i, id := range strings.Split(cells[1], "`") {
			if i%2 == 0 {
				continue
			}
			if _, twice := listed[id]; twice {
				t.Errorf("deviations.md lists %s twice", id)
			}
			listed[id] = false
		}
	}
	return listed
}

// TestVectors: every case holds, or is listed; and what is listed differs, as far
// as that can be decided.
func TestVectors(t *testing.T) {
	listed := deviations(t)
	hold, differ, none := 0, 0, 0
	for _, file := range []string{"sharding.json", "singleton.json"} {
		for _, c := range archtest.Vectors(t, file) {
			t.Run(c.Name, func(t *testing.T) {
				_, excused := listed[c.ID]
				if excused {
					listed[c.ID] = true
				}
				run := runnerOf(&c)
				if run == nil {
					if none++; !excused {
						t.Errorf("nothing here runs cases of kind %q, and deviations.md does not list it", c.Kind)
					}
					return
				}
				switch err := run(c.Raw); {
				case err == nil && excused:
					t.Error("it holds: strike it out of deviations.md")
				case err == nil:
					hold++
				case excused:
					differ++
					t.Log("on purpose: ", err)
				default:
					t.Error(err)
				}
			})
		}
	}
	t.Logf("%d cases hold, %d differ as listed, %d are listed and have nothing here to run", hold, differ, none)
	for _, id := range slices.Sorted(maps.Keys(listed)) {
		if !listed[id] {
			t.Errorf("deviations.md lists %s, which is not a case", id)
		}
	}
}
