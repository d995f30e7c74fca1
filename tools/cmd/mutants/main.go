// Command mutants switches single guards off for tests, and writes the page that lists the guards:
//
//	mutants -root .          # write bin/mutants: copies of the source with switches, and what go test needs to use them
//	mutants -root . -check   # check the comments, the names in tests and docs/inside/invariants.md
//	mutants -root . -page    # write docs/inside/invariants.md
//
// A mutant is a comment at a guard. It has a name, and a test must fail while it is on:
//
//	//mutant:false NAME [OPERAND]   the condition is false
//	//mutant:true NAME [OPERAND]    the condition is true
//	//mutant:skip NAME              the statement does not run
//	//mutant:do NAME STATEMENTS     the statements run at this place, too
//
// The comment stands at the end of the guard's line or alone above it, after the sentence about why the guard is needed.
// Several comments may stand above one line, and one name may be used at several places, which are then switched together.
//
// The condition belongs to the if, for or case on the line; or it is the only result of a return, or the only value of an assignment.
// If several statements begin on a line, the outermost counts. OPERAND names a part of the condition by its source text, spaces
// apart, which must be there once. It may be a run of neighbouring operands of && or ||. If the statement has no single
// condition, or the text is not in there, the rest of the statement is searched: of an if, for, switch or case, only the head.
// A condition that is switched is not evaluated. A statement that declares a variable cannot be skipped. A do
// stands alone on its line between statements; STATEMENTS are separated by semicolons. It cannot stand directly before a case.
//
// The copies have the same lines as the source. An overlay (see go help build) puts them in its place, together with a list of the
// names, so that a test cannot switch a mutant that does not exist. A test with the build tag mutants switches by
// mutant.Activate. All mutants are in one build, because each build takes longer than most of the tests.
//
// An invariant is a comment, too. Its last line names its mutants in any order, also those at other guards:
//
//	// Invariant: a late message does not revive a shard that was handed off.
//	// Guarded by: `region.hostShard` refuses orders below the minimum epoch.
//	// Mutants: min-epoch-check, min-epoch-after-drain
//
// Without "Guarded by", the page names the functions with these mutants. Links are relative to the page.
//
// # What this does not do
//
// It does not check types: go vet with the overlay does, in make check.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/build/constraint"
	"go/format"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/roost-cluster/roost/tools/internal/tracked"
)

const (
	switchDir = "libs/mutant" // the package with the switch, which gets the list of names
	page      = "docs/inside/invariants.md"
	target    = "bin/mutants"
)

func main() {
	root := flag.String("root", ".", "the `directory` of the repository")
	check := flag.Bool("check", false, "check comments, names and the page instead of writing the copies")
	write := flag.Bool("page", false, "write the page instead of the copies")
	flag.Parse()
	if err := run(*root, *check, *write); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string, check, write bool) error {
	files := map[string][]byte{}
	err := tracked.Each(root, func(name string, b []byte) { files[name] = b }, "*.go", page)
	if err != nil {
		return err
	}
	r := read(files)
	if err := errors.Join(r.errs...); err != nil {
		return err
	}
	if !check && !write {
		return r.write(root)
	}
	text, err := r.page()
	if err != nil {
		return err
	}
	if write {
		return put(filepath.Join(root, page), text)
	}
	if !bytes.Equal(text, files[page]) {
		return fmt.Errorf("%s is out of date: run make invariants", page)
	}
	return nil
}

// repository has what the files say about mutants.
type repository struct {
	mutants    []mutant
	invariants []invariant
	copies     map[string][]byte // the switched sources by name
	tests      []string          // directories of packages that have tests with the build tag
	errs       []error
}

func read(files map[string][]byte) *repository {
	r := &repository{copies: map[string][]byte{}}
	literals := map[string]bool{}                          // the strings in tests
	imports := map[string][]string{"mutant": {importPath}} // of the code, by the last part of the path
	var sources []*file
	for _, name := range slices.Sorted(maps.Keys(files)) {
		src := files[name]
		switch {
		case !strings.HasSuffix(name, ".go"), strings.Contains(name, "testdata/"), strings.HasPrefix(name, "tools/"):
		case strings.HasSuffix(name, "_test.go"):
			r.readTest(name, src, literals)
		case path.Dir(name) != switchDir:
			f, err := parse(name, src)
			if err != nil {
				r.errs = append(r.errs, err)
				continue
			}
			sources = append(sources, f)
			for _, i := range f.ast.Imports {
				p, _ := strconv.Unquote(i.Path.Value)
				if base := path.Base(p); i.Name == nil && !slices.Contains(imports[base], p) {
					imports[base] = append(imports[base], p)
				}
			}
		}
	}
	for _, f := range sources {
		r.readSource(f, imports)
	}
	names := map[string]bool{}
	for _, m := range r.mutants {
		if names[m.name] = true; !literals[m.name] {
			r.errs = append(r.errs, fmt.Errorf("%s: no test names the mutant %s", m.at, m.name))
		}
	}
	for _, in := range r.invariants {
		for _, name := range in.mutants {
			if !names[name] {
				r.errs = append(r.errs, fmt.Errorf("%s: the invariant names the mutant %s, which does not exist", in.at, name))
			}
		}
	}
	return r
}

func (r *repository) readSource(f *file, imports map[string][]string) {
	mutants, copied, errs := f.switched(imports)
	r.errs = append(r.errs, errs...)
	r.mutants = append(r.mutants, mutants...)
	if len(mutants) > 0 && len(errs) == 0 {
		r.copies[f.name] = copied
	}
	invariants, errs := f.invariants()
	r.errs = append(r.errs, errs...)
	r.invariants = append(r.invariants, invariants...)
}

// readTest adds the strings of a test, and its package if the test has the build tag.
func (r *repository) readTest(name string, src []byte, literals map[string]bool) {
	for _, t := range scan(src) {
		if s, err := strconv.Unquote(t.text); err == nil {
			literals[s] = true
		}
	}
	if dir := path.Dir(name); tagged(src) && !slices.Contains(r.tests, dir) {
		r.tests = append(r.tests, dir)
	}
}

// tagged reports whether a file is built only with the build tag mutants.
func tagged(src []byte) bool {
	for line := range bytes.Lines(src) {
		if bytes.HasPrefix(line, []byte("package ")) {
			return false
		}
		if expr, err := constraint.Parse(strings.TrimSpace(string(line))); err == nil {
			with := expr.Eval(func(string) bool { return true })
			return with && !expr.Eval(func(tag string) bool { return tag != "mutants" })
		}
	}
	return false
}

// write writes the copies, the overlay and the list of packages. The directory is always the same, and so are unchanged files:
// the build cache knows them.
func (r *repository) write(root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	files := maps.Clone(r.copies)
	files[switchDir+"/names.go"] = r.names()
	overlay := map[string]string{}
	for name, b := range files { // order-free: JSON sorts the keys
		to := filepath.Join(root, target, name)
		if err := put(to, b); err != nil {
			return err
		}
		overlay[filepath.Join(root, name)] = to
	}
	b, err := json.MarshalIndent(map[string]any{"Replace": overlay}, "", "\t")
	if err != nil {
		return err
	}
	if err := put(filepath.Join(root, target, "overlay.json"), b); err != nil {
		return err
	}
	return put(filepath.Join(root, target, "packages"), []byte("./"+strings.Join(r.tests, " ./")+"\n"))
}

// names returns a file of the package mutant that lists all names.
func (r *repository) names() []byte {
	var b bytes.Buffer
	b.WriteString("package mutant\n\nfunc init() {\nnames = map[string]bool{\n")
	known := map[string]bool{}
	for _, m := range r.mutants {
		known[m.name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		fmt.Fprintf(&b, "%q: true,\n", name)
	}
	b.WriteString("}\n}\n")
	src, err := format.Source(b.Bytes())
	if err != nil {
		panic(err) // it depends on names alone, which are words
	}
	return src
}

func put(name string, b []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, b) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o644)
}
