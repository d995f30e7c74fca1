package journal_test

import (
	"testing"

	"github.com/roost-cluster/roost/libs/test/archtest"
)

func TestHouse(t *testing.T) {
	layer := []string{"libs/setting", "libs/sharding", "libs/mutant", "libs/conn", "libs/test/servertest", "libs/backendurl", "libs/storeclock", "libs/journal/..."}
	archtest.Check(t, archtest.Rules{
		May:   map[string][]string{"...": layer},
		Never: []string{"services/...", "sdk/...", "cli/...", "examples/...", "e2e/..."},
		// The law of the journal, and the memory that the simulation runs on.
		Pure:     []string{".", "memory", "spread/note.go"},
		Undriven: []string{".", "memory", "spread/note.go"}, // what a Driver must do is at the interface
		Impure:   []string{"clock.go", "damage.go", "failure.go", "group.go", "journal.go", "lanes.go", "pages.go", "report.go", "storeclock.go", "memory/driver.go"},
	})
}
