package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMembershipTable: every row of the table in docs/inside/membership.md names a test,
// or says "not yet", and the tests that it names exist where it says.
func TestMembershipTable(t *testing.T) {
	raw, err := os.ReadFile("../docs/inside/membership.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile("`([^`]+)`")
	rows := 0
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasSuffix(strings.TrimSpace(cells[1]), "Spec`") {
			continue
		}
		rows++
		dir, tests := "", 0
		for _, m := range name.FindAllStringSubmatch(cells[3], -1) {
			if !strings.HasPrefix(m[1], "Test") {
				dir = m[1]
				continue
			}
			tests++
			if !exists(t, dir, m[1]) {
				t.Errorf("%s: there is no %s in %q", strings.TrimSpace(cells[1]), m[1], dir)
			}
		}
		if tests == 0 && !strings.Contains(cells[3], "not yet") {
			t.Errorf("%s: no test is named", strings.TrimSpace(cells[1]))
		}
	}
	if rows == 0 {
		t.Error("there is no table")
	}
}

// exists looks for a test, and for the name of its subtest, in the tests of a
// directory.
func exists(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	function, sub, _ := strings.Cut(test, "/")
	var all strings.Builder
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(raw)
	}
	return strings.Contains(all.String(), "func "+function+"(t *testing.T)") &&
		(sub == "" || strings.Contains(all.String(), `"`+sub+`"`))
}
