package deploy

import (
	"os/exec"
	"strings"
	"testing"
)

// TestAlternatives: RUN= may name alternatives, and each of them is run, whether or not it is in parentheses.
func TestAlternatives(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make")
	}
	for _, target := range []struct{ name, test string }{
		{"attack", "TestAttacks"}, {"e2e-alerts", "TestAlerts"}, {"e2e-upgrade", "TestUpgrades"}, {"e2e", "TestRepairs)"},
	} {
		for run, want := range map[string][]string{
			"S4": {"/S4"}, "S4|S5": {"/S4|", "/S5'"}, "a/sqlite|b": {"/a/sqlite|", "/b'"}, "(a|b)/sqlite": {"/(a|b)/sqlite'"},
		} { // order-free: independent findings
			out, err := exec.Command("make", "-n", "-C", root, target.name, "RUN="+run).CombinedOutput()
			if err != nil {
				t.Fatalf("make: %v\n%s", err, out)
			}
			for _, w := range want {
				if !strings.Contains(string(out), target.test+w) {
					t.Errorf("make %s RUN='%s' runs %s", target.name, run, out)
				}
			}
		}
	}
	if strings.Contains(fileText(t, "Makefile"), "/$(RUN)'") {
		t.Error("a target gives RUN to go test as it is: use scenarios")
	}
}
