// Package house holds up the house rules of Roost, for the tests of its
// modules: who may import whom (floors), what the pure cores may not touch
// (purity), and that every package says what it is (docs). Every module has a
// house_test.go of a few lines with its own rules, and calls [Check]. For the
// fuzz targets of decoders there is a limit on what they allocate, [Memory].
//
// # What this does not do
//
// It judges source text and types, not behaviour: it does not see what a
// function called through an interface does. It reads only the files of the
// module whose test runs, since the go command caches test results by the files
// of that module. Limits on the size of files and functions are habits, and not
// checked.
package house

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Prefix is what the import paths of all our modules start with.
const Prefix = "github.com/roost-cluster/roost/"

// Rules are the house rules of one module. Directories are relative to the
// module's root, with slashes; "." is the root itself.
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
	// directory are pure, patterns that end in ".go". A directory that does not
	// exist is no error: under its new name it has no floor in May.
	Pure []string
}

// Check runs the rules against the module in the current directory, as
// subtests floors, purity and docs.
func Check(t *testing.T, rules Rules) {
	t.Helper()
	dirs, err := packageDirs(".")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("floors", func(t *testing.T) { report(t, floors(dirs, rules)) })
	t.Run("purity", func(t *testing.T) {
		for _, pattern := range rules.Pure {
			_, err := os.Stat(pattern)
			if errors.Is(err, fs.ErrNotExist) && !strings.HasSuffix(pattern, ".go") {
				continue
			}
			report(t, impurities(pattern))
		}
	})
	t.Run("docs", func(t *testing.T) { report(t, undocumented(dirs)) })
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

// floors reports the imports that the rules do not allow.
func floors(dirs []string, rules Rules) []string {
	var findings []string
	for _, dir := range dirs {
		may, ruled := lookup(rules.May, dir)
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
			}
		}
		if code && !ruled {
			findings = append(findings, fmt.Sprintf("package in %s has no floor: add it to house_test.go", dir))
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

func lookup(may map[string][]string, dir string) ([]string, bool) {
	if list, ok := may[dir]; ok {
		return list, true
	}
	for ; ; dir = filepath.ToSlash(filepath.Dir(dir)) {
		if list, ok := may[dir+"/..."]; ok {
			return list, true
		}
		if dir == "." || dir == "/" {
			list, ok := may["..."]
			return list, ok
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
