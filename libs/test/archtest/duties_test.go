package archtest

import (
	"strings"
	"testing"
)

func TestDuties(t *testing.T) {
	const doc = "Package p is a core.\n\n# How\n\nSo.\n\n# Duties of the driver\n\n 1. Step it.\n\nThe loop to write:\n\n\tstep()\n"
	for name, c := range map[string]struct{ doc, want string }{
		"complete":   {doc, ""},
		"no section": {strings.Replace(doc, "# Duties", "Duties", 1), "has no section"},
		"not last":   {doc + "\n# More\n\n\tx\n", "does not end with"},
		"no numbers": {strings.Replace(doc, " 1. ", " - ", 1), "does not number"},
		"no loop":    {strings.Replace(doc, "\tstep()", "step()", 1), "does not show the loop"},
	} {
		if got := missingDuties(c.doc); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestUndriven: an exemption must be of something pure, and needed.
func TestUndriven(t *testing.T) {
	for _, c := range []struct {
		pure, undriven string
		want           string // a part of the finding; nothing if it is empty
	}{
		{"testdata/mixed", "", "is a core, but its package comment has no section"},
		{"testdata/mixed/core.go", "", "is a core, but its package comment has no section"},
		{"testdata/mixed", "testdata/mixed", ""},
		{"testdata/driven", "", ""},
		{"testdata/driven", "testdata/driven", "take it off Undriven"},
		{"testdata/driven", "testdata/mixed", "is not in Pure"},
		{"testdata/absent", "", "cannot find"},
	} {
		rules := Rules{Pure: []string{c.pure}}
		if c.undriven != "" {
			rules.Undriven = []string{c.undriven}
		}
		if got := strings.Join(duties(rules), "\n"); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%v: %q, want %q", c, got, c.want)
		}
	}
}
