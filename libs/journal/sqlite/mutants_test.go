//go:build mutants

package sqlite

import (
	"os"
	"os/exec"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

const mutantVar = "ROOST_SQLITE_TEST_MUTANT"

func init() { mutant.Activate(os.Getenv(mutantVar)) }

// TestMutants runs the test that is about a guard without it: it must fail.
func TestMutants(t *testing.T) {
	for name, test := range map[string]string{
		"cached-number":     "^TestConformance$/^PurgedNumbers$",
		"number-reuse":      "^TestNumbersAreNeverReused$",
		"cache-version":     "^TestCache$",
		"journal-mark":      "^TestOlderCopy$",
		"marks-lock":        "^TestMarksOfSeveral$",
		"marks-synced":      "^TestMainMarkIsSynced$",
		"mark-damaged":      "^TestDamagedMark$",
		"marks-of-new":      "^TestMarksOfANewJournal$",
		"main-mark-at-open": "^TestOlderMainAfterCleanClose$",
		"older-readers":     "^TestOlderCopy$",
		"older-backup":      "^TestOlderCopyDuringABackup$",
		"log-removed":       "^TestRemovedLog$",
		"log-watch":         "^TestRemovedLog$/^both$",
		"log-users-read":    "^TestRemovedLog$/^both$",
		"log-users":         "^TestRemovedLog$/^both$",
		"other-log":         "^TestRemovedLogAfterAnother$",
		"other-log-closed":  "^TestRemovedLogAfterAnother$",
		"join-makes-log":    "^TestJoinMakesNoLog$",
		"older-log-only":    "^TestMarksOfSeveral$",
		"older-damage":      "^TestOlderCopyLooksDamaged$/transaction",
		"older-reads":       "^TestOlderCopyLooksDamaged$/read",
	} {
		cmd := exec.Command(os.Args[0], "-test.run", test)
		cmd.Env = append(os.Environ(), mutantVar+"="+name)
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%s passes without the guard %s:\n%s", test, name, out)
		}
	}
}
