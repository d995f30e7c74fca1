//go:build mutants

package memory_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
)

const mutantVar = "ROOST_JOURNAL_TEST_MUTANT"

func TestMain(m *testing.M) {
	mutant.Activate(os.Getenv(mutantVar))
	os.Exit(m.Run())
}

// TestSuiteKillsMutants runs the conformance suite without one guard at a time:
// it must fail, and in the test that is about that guard.
func TestSuiteKillsMutants(t *testing.T) {
	for name, dies := range map[string]string{
		"epoch-check": "AppendByEpoch",
		"seq-check":   "AppendBySequence",
		"dedupe":      "AppendByCommand",
		// What is dropped must be no newer than what was read.
		"drop-snapshot":      "DropSnapshots",
		"drop-trimmed":       "Trim",
		"trim-above":         "Trim",
		"trim-gap":           "Trim",
		"trim-keys":          "Trim",
		"trim-sends":         "Trim",
		"trim-wakes":         "Trim",
		"journal-generation": "Generations",
		"wake-check":         "FiredIsChecked",
		"fired-with-record":  "Fired",
		"fired-fence":        "WakesAreFenced",
		"send-row":           "Sends",
		"delivered-again":    "DeliveredAgain",
		"deliver-once":       "DeliverOnce",
		"deliver-apart":      "DeliverBeside",
		"journal-format":     "Activations",
		// A snapshot of a deleted entity would bring it back.
		"snapshot-of-the-dead": "Delete",
		"delete-wakes":         "DeleteWakes",
		"purge-fence":          "Purge",
		"purge-life":           "Purge",
		"purge-age":            "Purge",
		"purged-keys":          "Purge",
		"purge-sends":          "PurgeLives",
		"purge-looks":          "PurgeReplaced",
		"purge-again":          "PurgeAgain",
		// The owner of the shard must lose it, and there is a line of each repair.
		"repair-fence":  "RepairSkip",
		"repair-audit":  "RepairSkip",
		"repair-forget": "RepairSkip",
		"repair-rows":   "RepairSkip",
		"repair-reply":  "RepairGoBack",
		"repair-expect": "RepairRefused",
		"repair-life":   "RepairRefused",
		"repair-whole":  "RepairRefused",
		"repair-worse":  "RepairSnapshot",
	} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestConformance$")
		cmd.Env = append(os.Environ(), mutantVar+"="+name)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("the suite passes without the guard %s", name)
		}
		if !strings.Contains(string(out), "--- FAIL: TestConformance/"+dies) {
			t.Errorf("without the guard %s, %s passes:\n%s", name, dies, out)
		}
	}
}
