package archtest

import (
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// dutiesHeading begins the last section of the package comment of a core.
const dutiesHeading = "# Duties of the driver\n"

var (
	numbered = regexp.MustCompile(`(?m)^ *1\. `)
	codeLine = regexp.MustCompile(`(?m)^\t`)
)

// duties reports the cores whose package comment does not end with the duties of the
// driver: a numbered list, and the code to write. Undriven are the entries of Pure that
// are exempt.
func duties(rules Rules) []string {
	var findings []string
	missing := map[string]string{} // by entry of Pure
	for _, pattern := range rules.Pure {
		dir := pattern
		if strings.HasSuffix(pattern, ".go") {
			dir = path.Dir(pattern)
		}
		doc, err := packageComment(dir)
		if err != nil {
			findings = append(findings, err.Error())
			continue
		}
		if what := missingDuties(doc); what != "" {
			missing[pattern] = fmt.Sprintf("%s is a core, but its package comment %s", pattern, what)
		} else {
			missing[pattern] = ""
		}
	}
	for _, pattern := range rules.Undriven {
		if what, ok := missing[pattern]; !ok {
			findings = append(findings, fmt.Sprintf("%s is not in Pure: take it off Undriven in house_test.go", pattern))
		} else if what == "" {
			findings = append(findings, fmt.Sprintf("%s has the duties of its driver: take it off Undriven in house_test.go", pattern))
		}
		delete(missing, pattern)
	}
	for _, pattern := range slices.Sorted(maps.Keys(missing)) {
		if missing[pattern] != "" {
			findings = append(findings, missing[pattern])
		}
	}
	return findings
}

// missingDuties returns the part that a package comment lacks, or nothing.
func missingDuties(doc string) string {
	_, section, ok := strings.Cut(doc, "\n"+dutiesHeading)
	switch {
	case !ok:
		return "has no section " + strings.TrimSpace(dutiesHeading)
	case strings.Contains(section, "\n# "):
		return "does not end with the duties of the driver"
	case !numbered.MatchString(section):
		return "does not number the duties of the driver"
	case !codeLine.MatchString(section):
		return "does not show the loop that the driver is to write"
	}
	return ""
}

func packageComment(dir string) (string, error) {
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		return "", err
	}
	var doc strings.Builder
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return "", err
		}
		doc.WriteString(file.Doc.Text())
	}
	return doc.String(), nil
}
