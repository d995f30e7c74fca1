package sharding

import "testing"

// Every cause is said in words: operators read no names of constants.
func TestCausesHaveWords(t *testing.T) {
	for c := CauseFirstCommand; int(c) < len(causeNames); c++ {
		if causeTexts[c.String()] == "" {
			t.Errorf("the cause %q has no words", c)
		}
	}
	if len(causeTexts) != len(causeNames) {
		t.Errorf("%d causes have words, there are %d", len(causeTexts), len(causeNames))
	}
	if got, want := CauseText("of-tomorrow"), "of of-tomorrow"; got != want {
		t.Errorf("a cause of a later release: %q, want %q", got, want)
	}
}
