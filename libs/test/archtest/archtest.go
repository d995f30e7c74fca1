// Package archtest checks the architecture of Roost in the tests of its modules: which packages may
// import which (layers), what pure cores must not use (purity), that every core documents the
// duties of its driver (duties), and that every package has a comment (docs). The house_test.go of
// every module has that module's rules and calls [Check]. [Memory] limits what decoders may
// allocate in their fuzz tests.
//
// # What this does not do
//
// It checks source text and types, not behaviour: it does not see what a function called
// through an interface does. It reads only the files of the module whose test runs,
// because the go command caches test results by the files of that module. The one
// exception is the check that the packages listed in Rules.Never exist, whose cached
// result may be stale. It does not notice when a pure core calls an impure function of
// one of our packages that the core may import. Limits on the size of files and functions
// are habits, and are not checked.
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

// Prefix begins the import paths of all our modules.
const Prefix = "github.com/roost-cluster/roost/"

// Rules are the rules of one module. Directories are relative to the
// module's root, with slashes; "." is the root itself. A line that nothing in the
// module needs, or that names something that does not exist, is an error: it could
// permit a later violation.
type Rules struct {
	// May maps each directory to our packages that its package may import, without [Prefix].
	// "x/..." on either side stands for x and all below it; the longest match decides. A directory
	// without a match is an error: a new package needs a layer. Test files are exempt.
	May map[string][]string

	// Never lists packages of ours, in the form of May, that no file of the
	// module may import, test files included.
	Never []string

	// Outside lists the import path prefixes of third-party modules that
	// files other than tests may import. Nil means any.
	Outside []string

	// Pure lists the directories of pure cores, or, when only some files of a
	// directory are pure, patterns that end in ".go".
	Pure []string

	// Undriven lists the entries of Pure that need no driver: values, functions, and
	// test code that itself drives cores. The package comments of the others end with the
	// duties of their driver.
	Undriven []string

	// Impure lists the files in directories of Pure that are not pure: the
	// drivers that share a package with their core.
	Impure []string
}

// Check checks the module in the current directory against the rules, in the
// subtests layers, purity, duties, docs and logs.
func Check(t *testing.T, rules Rules) {
	t.Helper()
	dirs, err := packageDirs(".")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("layers", func(t *testing.T) {
		report(t, layers(dirs, rules))
		report(t, absent(rules.Never))
	})
	t.Run("purity", func(t *testing.T) { report(t, purity(rules)) })
	t.Run("duties", func(t *testing.T) { report(t, duties(rules)) })
	t.Run("docs", func(t *testing.T) { report(t, undocumented(dirs)) })
	t.Run("logs", func(t *testing.T) { report(t, longMessages(dirs)) })
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
			findings = append(findings, fmt.Sprintf("%s is pure: remove it from Impure in house_test.go", impure))
		}
	}
	return findings
}

// absent reports the patterns that match no directory of the repository.
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
			findings = append(findings, fmt.Sprintf("Never has %s, but there is no such directory: remove it from house_test.go", pattern))
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

// layers reports the imports that the rules do not allow, and the rules that no
// import needs.
func layers(dirs []string, rules Rules) []string {
	var findings []string
	unused := newUnused(rules)
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
					unused.imported(key, path)
				}
			}
		}
		if code {
			delete(unused.keys, key)
			if !ruled {
				findings = append(findings, fmt.Sprintf("package in %s has no layer: add it to house_test.go", dir))
			}
		}
	}
	return append(findings, unused.findings()...)
}

// unused holds the lines of the rules that nothing has needed yet.
type unused struct {
	rules   Rules
	keys    map[string]bool // of May
	allowed map[string]bool // the packages that any line of May allows
	outside map[string]bool
}

func newUnused(rules Rules) unused {
	s := unused{rules, map[string]bool{}, map[string]bool{}, map[string]bool{}}
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

// imported removes what an import needs. key is the line of May for the importing
// package.
func (s unused) imported(key, path string) {
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

func (s unused) findings() []string {
	var findings []string
	for _, list := range []struct {
		lines map[string]bool
		what  string
	}{
		{s.keys, "May has a line for %s, but there is no such package, or a longer line decides"},
		{s.allowed, "May allows %s, but no package that may import it does"},
		{s.outside, "Outside allows %s, but no package imports it"},
	} {
		for _, line := range slices.Sorted(maps.Keys(list.lines)) {
			findings = append(findings, fmt.Sprintf(list.what+": remove it from house_test.go", line))
		}
	}
	return findings
}

// forbidden returns why a file may not import path, or "" if it may.
func forbidden(path string, may []string, test bool, rules Rules) string {
	first, _, _ := strings.Cut(path, "/")
	ours, isOurs := strings.CutPrefix(path, Prefix)
	switch {
	case isOurs && matchAny(rules.Never, ours):
		return "this module never does, not even in tests"
	case test:
		return ""
	case isOurs && !matchAny(may, ours):
		return "its layer may not"
	case !isOurs && strings.Contains(first, ".") && rules.Outside != nil && !hasPrefix(rules.Outside, path):
		return "this module imports no third-party modules except those in house_test.go"
	}
	return ""
}

// lookup returns the key of the line of May that applies to a directory.
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
// packages need none.
func undocumented(dirs []string) []string {
	var findings []string
	for _, dir := range dirs {
		pkg, err := build.ImportDir(dir, 0)
		if err != nil || len(pkg.GoFiles) == 0 {
			continue // only tests; other errors are the compiler's to report
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

// MessageWords is the largest number of words of a log message. An operator searches for messages, so they are short
// and constant; what varies and what to do are attributes.
const MessageWords = 8

// longMessages reports the log messages that have too many words, or that are put together.
func longMessages(dirs []string) []string {
	var findings []string
	for _, dir := range dirs {
		pkg, err := build.ImportDir(dir, 0)
		if err != nil {
			continue // only tests; other errors are the compiler's to report
		}
		for _, name := range pkg.GoFiles {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, filepath.Join(dir, name), nil, 0)
			if err != nil {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if message := logMessage(n); message != nil {
					if lit, ok := message.(*ast.BasicLit); ok && len(strings.Fields(lit.Value)) > MessageWords {
						findings = append(findings, fmt.Sprintf("%s: the log message has more than %d words: put advice into the attribute hint", files.Position(lit.Pos()), MessageWords))
					} else if _, ok := message.(*ast.BinaryExpr); ok {
						findings = append(findings, fmt.Sprintf("%s: the log message is not constant: put what varies into an attribute", files.Position(message.Pos())))
					}
				}
				return true
			})
		}
	}
	return findings
}

// logMessage returns the message if the node is a call of a logger, else nil.
func logMessage(n ast.Node) ast.Expr {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	switch logger := method.X.(type) {
	case *ast.Ident:
		ok = logger.Name == "log" || logger.Name == "slog"
	case *ast.SelectorExpr:
		ok = logger.Sel.Name == "log" || logger.Sel.Name == "Log"
	default:
		ok = false
	}
	at := map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2, "LogAttrs": 2}
	i, level := at[method.Sel.Name]
	if !ok || !level || i >= len(call.Args) {
		return nil
	}
	return call.Args[i]
}
