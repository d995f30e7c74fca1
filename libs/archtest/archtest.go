// Package archtest checks the architecture of Roost in the tests of its modules: who may import whom (floors), what the pure cores may not touch
// (purity), and that every package says what it is (docs). Every module has a
// house_test.go of a few lines with its own rules, and calls [Check]. For the
// fuzz targets of decoders there is a limit on what they allocate, [Memory].
//
// # What this does not do
//
// It judges source text and types, not behaviour: it does not see what a
// function called through an interface does. It reads only the files of the
// module whose test runs, since the go command caches test results by the files
// of that module (that what is forbidden exists is the one exception, so that a cached
// pass may be stale in this). A pure core may call what is not pure in a package of
// ours that it may import. Limits on the size of files and functions are habits, and not
// checked.
package archtest

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Prefix is what the import paths of all our modules start with.
const Prefix = "github.com/roost-cluster/roost/"

// Rules are the house rules of one module. Directories are relative to the
// module's root, with slashes; "." is the root itself. A line that nothing in the
// module needs, or that names what does not exist, is an error: it would allow, or
// leave unchecked, what comes later.
type Rules struct {
	// May says for each directory which of our packages its package may
	// import, without [Prefix]. "x/..." on either side stands for x and all
	// below it; the longest match decides. A directory without a match is an
	// error: a new package must find its floor. Test files are exempt.
	May map[string][]string

	// Never lists packages of ours, in the form of May, that no file of the
	// module may import, test files included.
	Never []string

	// Outside lists the import path prefixes of other people's modules that
	// files other than tests may import. Nil means any.
	Outside []string

	// Pure lists the directories of pure cores, or, when only some files of a
	// directory are pure, patterns that end in ".go".
	Pure []string

	// Impure lists the files in directories of Pure that are not pure: the
	// drivers that share a package with their core.
	Impure []string
}

// Check runs the rules against the module in the current directory, as
// subtests floors, purity and docs.
func Check(t *testing.T, rules Rules) {
	t.Helper()
	dirs, err := packageDirs(".")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("floors", func(t *testing.T) {
		report(t, floors(dirs, rules))
		report(t, absent(rules.Never))
	})
	t.Run("purity", func(t *testing.T) { report(t, purity(rules)) })
	t.Run("docs", func(t *testing.T) { report(t, undocumented(dirs)) })
}

// purity checks what the rules list as pure, and that the exceptions exist and are
// needed.
func purity(rules Rules) []string {
	var findings []string
	for _, pattern := range rules.Pure {
		var except []string
		for _, impure := range rules.Impure {
			if dir, file := path.Split(impure); path.Clean(dir) == path.Clean(pattern) {
				except = append(except, file)
			}
		}
		findings = append(findings, impurities(pattern, except...)...)
	}
	for _, impure := range rules.Impure {
		if _, err := os.Stat(impure); err != nil {
			findings = append(findings, fmt.Sprintf("an impure file is missing: %v", err))
		} else if !slices.Contains(rules.Pure, path.Dir(impure)) {
			findings = append(findings, fmt.Sprintf("the impure file %s is in no package of Pure", impure))
		} else if len(impurities("./"+impure)) == 0 {
			findings = append(findings, fmt.Sprintf("%s is pure: take it off Impure in house_test.go", impure))
		}
	}
	return findings
}

// absent reports the patterns that no directory of the repository fits.
func absent(patterns []string) []string {
	root := "."
	for {
		if _, err := os.Stat(filepath.Join(root, "go.work")); err == nil {
			break
		}
		if abs, err := filepath.Abs(root); err != nil || abs == filepath.Dir(abs) {
			return []string{"there is no go.work above the module"}
		}
		root = filepath.Join(root, "..")
	}
	var findings []string
	for _, pattern := range patterns {
		dir := strings.TrimSuffix(pattern, "/...")
		if info, err := os.Stat(filepath.Join(root, filepath.FromSlash(dir))); err != nil || !info.IsDir() {
			findings = append(findings, fmt.Sprintf("there is no %s to forbid: mend house_test.go", pattern))
		}
	}
	return findings
}

func report(t *testing.T, findings []string) {
	t.Helper()
	for _, finding := range findings {
		t.Error(finding)
	}
}

// packageDirs lists the directories below root that hold Go files, without
// nested modules and testdata.
func packageDirs(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if path != root {
			name := entry.Name()
			if name == "testdata" || name[0] == '.' || name[0] == '_' {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return filepath.SkipDir
			}
		}
		if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) > 0 {
			dirs = append(dirs, filepath.ToSlash(path))
		}
		return nil
	})
	return dirs, err
}

// floors reports the imports that the rules do not allow, and the rules that no
// import needs.
func floors(dirs []string, rules Rules) []string {
	var findings []string
	spare := needs(rules)
	for _, dir := range dirs {
		key, ruled := lookup(rules.May, dir)
		may := rules.May[key]
		files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		code := false
		for _, file := range files {
			test := strings.HasSuffix(file, "_test.go")
			code = code || !test
			imports, err := importsOf(file)
			if err != nil {
				findings = append(findings, err.Error())
			}
			for _, path := range imports {
				if why := forbidden(path, may, test, rules); why != "" {
					findings = append(findings, fmt.Sprintf("%s imports %s: %s", file, path, why))
				}
				if !test {
					spare.imported(key, path)
				}
			}
		}
		if code {
			delete(spare.keys, key)
			if !ruled {
				findings = append(findings, fmt.Sprintf("package in %s has no floor: add it to house_test.go", dir))
			}
		}
	}
	return append(findings, spare.findings()...)
}

// spare are the lines of the rules that nothing has needed yet.
type spare struct {
	rules   Rules
	keys    map[string]bool // of May
	allowed map[string]bool // the packages that May allows to anybody
	outside map[string]bool
}

func needs(rules Rules) spare {
	s := spare{rules, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for key, may := range rules.May {
		s.keys[key] = true
		for _, pattern := range may {
			s.allowed[pattern] = true
		}
	}
	for _, prefix := range rules.Outside {
		s.outside[prefix] = true
	}
	return s
}

// imported takes notice of an import by a package that the line key of May is about.
func (s spare) imported(key, path string) {
	ours, isOurs := strings.CutPrefix(path, Prefix)
	for _, pattern := range s.rules.May[key] {
		if isOurs && matchAny([]string{pattern}, ours) {
			delete(s.allowed, pattern)
		}
	}
	for _, prefix := range s.rules.Outside {
		if hasPrefix([]string{prefix}, path) {
			delete(s.outside, prefix)
		}
	}
}

func (s spare) findings() []string {
	var findings []string
	for _, list := range []struct {
		lines map[string]bool
		what  string
	}{
		{s.keys, "May has a line for %s, but there is no such package, or a longer line decides"},
		{s.allowed, "May allows %s, but nobody that may import it does"},
		{s.outside, "Outside allows %s, but nobody imports it"},
	} {
		for _, line := range slices.Sorted(maps.Keys(list.lines)) {
			findings = append(findings, fmt.Sprintf(list.what+": take it off house_test.go", line))
		}
	}
	return findings
}

// forbidden says why a file may not import path, or nothing if it may.
func forbidden(path string, may []string, test bool, rules Rules) string {
	first, _, _ := strings.Cut(path, "/")
	ours, isOurs := strings.CutPrefix(path, Prefix)
	switch {
	case isOurs && matchAny(rules.Never, ours):
		return "this module never does, not even in tests"
	case test:
		return ""
	case isOurs && !matchAny(may, ours):
		return "its floor may not"
	case !isOurs && strings.Contains(first, ".") && rules.Outside != nil && !hasPrefix(rules.Outside, path):
		return "this module is kept free of other people's modules, but for those in house_test.go"
	}
	return ""
}

// lookup finds the line of May that is about a directory.
func lookup(may map[string][]string, dir string) (key string, ok bool) {
	if _, ok := may[dir]; ok {
		return dir, true
	}
	for ; ; dir = filepath.ToSlash(filepath.Dir(dir)) {
		if _, ok := may[dir+"/..."]; ok {
			return dir + "/...", true
		}
		if dir == "." || dir == "/" {
			_, ok := may["..."]
			return "...", ok
		}
	}
}

func matchAny(patterns []string, path string) bool {
	for _, pattern := range patterns {
		if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
			if path == tree || strings.HasPrefix(path, tree+"/") {
				return true
			}
		} else if path == pattern {
			return true
		}
	}
	return false
}

func hasPrefix(prefixes []string, path string) bool {
	for _, prefix := range prefixes {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}

func importsOf(file string) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// undocumented reports the packages without a package comment. Generated
// packages speak through their sources.
func undocumented(dirs []string) []string {
	var findings []string
	for _, dir := range dirs {
		pkg, err := build.ImportDir(dir, 0)
		if err != nil || len(pkg.GoFiles) == 0 {
			continue // Tests only; the compiler reports everything else.
		}
		documented, generated := false, true
		for _, name := range pkg.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				continue
			}
			documented = documented || strings.TrimSpace(file.Doc.Text()) != ""
			generated = generated && ast.IsGenerated(file)
		}
		if !documented && !generated {
			findings = append(findings, fmt.Sprintf("package in %s has no package comment", dir))
		}
	}
	return findings
}
