//go:build mutants

package router

import (
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/test/scenariotest"
)

// TestMutants: of two keyed commands for one entity, the region refuses the first. If it
// were sent again behind the second, their order would be reversed.
func TestMutants(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "overtaken"} {
		mutant.Activate(name)
		trace := play(t)([]string{
			"coordinators c1", "table c1 1.1 T/0 1.1 serving r1", "up r1 1",
			"submit 1 T/x Do key=a", "submit 2 T/x Do key=b", "answer 1 not_applied unavailable", "wait 300ms",
		})
		again := slices.ContainsFunc(trace, func(line string) bool { return strings.Contains(line, "send 3: a Do") })
		if again != (name != "") {
			t.Errorf("mutant %q: the first command is sent again: %t\n%s", name, again, strings.Join(trace, "\n"))
		}
	}
}

// TestMutantsOfVersions: some scenario differs without a rule for commands that the owner
// of their shard does not have.
func TestMutantsOfVersions(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"deferred-once", "deferred-moving", "deferred-share"} {
		mutant.Activate(name)
		if scenariotest.Differing(t, play) == 0 {
			t.Errorf("mutant %s: no scenario differs", name)
		}
	}
}

// TestMutantsOfReads: a command that may change something would be sent for a sender that
// relies on it to change nothing; one from a waiting entity of a shard in handoff would
// wait for the end of that; and one that fails permanently would have dozens of turns, or
// be overtaken meanwhile, or end without its reason.
func TestMutantsOfReads(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"must-read", "route-chained", "resend-back-off", "rest-order", "failure-kept"} {
		mutant.Activate(name)
		if scenariotest.Differing(t, play) == 0 {
			t.Errorf("mutant %s: no scenario differs", name)
		}
	}
}

// TestMutantsOfRules: a command would be sent to another shard than its entity's.
func TestMutantsOfRules(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	mutant.Activate("route-rule")
	if scenariotest.Differing(t, play) == 0 {
		t.Error("mutant route-rule: no scenario differs")
	}
}

// TestMutantsOfAnswers: the last answer of a region would come when the command is in doubt already.
func TestMutantsOfAnswers(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	mutant.Activate("answer-reserve")
	if scenariotest.Differing(t, play) == 0 {
		t.Error("mutant answer-reserve: no scenario differs")
	}
}

// TestMutantsOfFinding: commands would wait for the next coordinator although their shard is served.
func TestMutantsOfFinding(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	mutant.Activate("owner-asked")
	if scenariotest.Differing(t, play) == 0 {
		t.Error("no scenario differs")
	}
}

// TestMutantsOfKeys: a client would be answered that its deadline has passed, not that its key
// has expired.
func TestMutantsOfKeys(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	mutant.Activate("expired-again")
	if scenariotest.Differing(t, play) == 0 {
		t.Error("no scenario differs")
	}
}

// TestMutantsOfForms: a command whose shard no region reads would wait until its deadline.
func TestMutantsOfForms(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for _, name := range []string{"", "unreadable-waits"} {
		mutant.Activate(name)
		trace := play(t)([]string{"coordinators c1", "table c1 1.1 T/0 1.1 starting unreadable", "submit 1 T/x Do key=a"})
		refused := slices.ContainsFunc(trace, func(line string) bool { return strings.Contains(line, "finish 1: not_applied unavailable") })
		if refused != (name == "") {
			t.Errorf("mutant %q: refused at once: %t\n%s", name, refused, strings.Join(trace, "\n"))
		}
	}
}

// TestMutantsOfSender: the Sender needs each of its guards.
func TestMutantsOfSender(t *testing.T) {
	t.Cleanup(func() { mutant.Activate("") })
	for name, broken := range map[string]func() bool{ // order-free: each for itself
		"failed-shard": func() bool { // the second command overtakes the first
			s := NewSender[string]()
			s.Up(LinkUp{Region: senderRegion, Link: 1}, "one")
			s.Failed(sendOn(1, 1, 1))
			return written(s, sendOn(1, 2, 1), "one")
		},
		"link-number": func() bool { // what the core counts as lost is written
			s := NewSender[string]()
			s.Up(LinkUp{Region: senderRegion, Link: 2}, "two")
			return written(s, sendOn(1, 1, 1), "two")
		},
		"link-down": func() bool { // a link that is up is not written to any more
			s := NewSender[string]()
			s.Up(LinkUp{Region: senderRegion, Link: 2}, "two")
			s.Down(LinkDown{Region: senderRegion, Link: 1}, nil)
			return !written(s, sendOn(2, 1, 1), "two")
		},
	} {
		mutant.Activate("")
		if broken() {
			t.Errorf("%s: broken without the mutant", name)
		}
		if mutant.Activate(name); !broken() {
			t.Errorf("mutant %s is not noticed", name)
		}
	}
}
