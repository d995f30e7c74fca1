package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// pureImports are the packages of the standard library that a pure core may import.
// It is an allow list, so that an impure package cannot be forgotten.
var pureImports = []string{
	"bytes", "cmp", "container/heap", "container/list", "container/ring", "crypto/sha256", "encoding", "encoding/binary", "encoding/hex",
	"encoding/json", "errors", "fmt", "hash", "hash/crc32", "hash/fnv", "io", "iter", "maps", "math", "math/bits", "math/rand",
	"math/rand/v2", "net/netip", "regexp", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
}

// impureNames are the names that a pure core must not mention, of packages that it may import. For
// math/rand see seededRand.
var impureNames = map[string][]string{
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"time": {"After", "AfterFunc", "LoadLocation", "Local", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
}

// seededRand are the package-level functions of math/rand that do not draw from the
// global source.
var seededRand = []string{"New", "NewChaCha8", "NewPCG", "NewSource", "NewZipf"}

// mapOrder are the functions of package maps whose result or effect depends on the
// order of iteration; sorters of package slices make the order fixed again.
var (
	mapOrder = []string{"All", "DeleteFunc", "EqualFunc", "Keys", "Values"}
	sorters  = []string{"Sorted", "SortedFunc", "SortedStableFunc"}
)

// impurities reports what a pure core must not do, in the package of a directory or
// in the files that match a pattern ending in ".go", except the named files. A line
// is exempt if it ends in the comment "pure: reason" or follows such a comment;
// iteration over a map also with "sorted below" or "order-free: reason". A comment
// that exempts nothing is reported too, because it could hide a later violation.
func impurities(pattern string, except ...string) []string {
	dir, only := pattern, ""
	if strings.HasSuffix(pattern, ".go") {
		dir, only = filepath.Split(pattern)
	}
	pkg, err := build.ImportDir(filepath.Clean(dir), 0)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", pattern, err)}
	}
	fset := token.NewFileSet()
	var files []*ast.File
	sources := map[*ast.File][]byte{}
	for _, name := range pkg.GoFiles {
		path := filepath.Join(dir, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return []string{err.Error()}
		}
		file, err := parser.ParseFile(fset, path, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return []string{err.Error()}
		}
		files = append(files, file)
		sources[file] = source
	}
	imports, err := exportData(fset, filepath.Clean(dir))
	if err != nil {
		return []string{err.Error()}
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	if _, err := config.Check(pkg.Name, fset, files, info); err != nil {
		return []string{err.Error()}
	}
	var findings []string
	checked := 0
	for _, file := range files {
		name := filepath.Base(fset.File(file.FileStart).Name())
		if match, err := filepath.Match(only, name); only != "" && (err != nil || !match) || slices.Contains(except, name) {
			continue
		}
		checked++
		inspector := inspector{fset: fset, info: info, exempt: exemptions(fset, file, sources[file])}
		findings = append(findings, inspector.inspect(file)...)
	}
	if checked == 0 {
		findings = append(findings, pattern+": there is nothing to check")
	}
	return findings
}

// exportData returns an importer for the dependencies of the package in dir,
// from the compiler's own export data.
func exportData(fset *token.FileSet, dir string) (types.Importer, error) {
	if !filepath.IsAbs(dir) {
		dir = "./" + dir
	}
	list := exec.Command("go", "list", "-deps", "-export", "-f", "{{.ImportPath}}\t{{.Export}}", dir)
	var problems bytes.Buffer
	list.Stderr = &problems
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w\n%s", dir, err, problems.String())
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			exports[path] = file
		}
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	}), nil
}

// exemption is a comment that exempts a line.
type exemption struct {
	pure, order bool
	position    token.Position
	used        bool
}

// exemptions returns the exempt lines, by line number.
func exemptions(fset *token.FileSet, file *ast.File, source []byte) map[int]*exemption {
	exempt := map[int]*exemption{}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			text := strings.TrimSpace(strings.TrimPrefix(comment.Text, "//"))
			e := &exemption{position: fset.Position(comment.Pos())}
			switch {
			case reasoned(text, "pure:"):
				e.pure, e.order = true, true
			case reasoned(text, "order-free:"), strings.HasPrefix(text, "sorted below"):
				e.order = true
			default:
				continue
			}
			line := e.position.Line
			if blankLine(source[:e.position.Offset]) {
				line++
			}
			exempt[line] = e
		}
	}
	return exempt
}

// blankLine reports whether the last line of before holds only white space.
func blankLine(before []byte) bool {
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return len(bytes.TrimSpace(line)) == 0
}

func reasoned(text, word string) bool {
	reason, ok := strings.CutPrefix(text, word)
	return ok && strings.TrimSpace(reason) != ""
}

type inspector struct {
	fset   *token.FileSet
	info   *types.Info
	exempt map[int]*exemption

	findings []string
	sorted   map[ast.Expr]bool // map iterators that are the argument of a sorter
}

func (i *inspector) inspect(file *ast.File) []string {
	i.sorted = map[ast.Expr]bool{}
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		first, _, _ := strings.Cut(path, "/")
		if !strings.Contains(first, ".") && !slices.Contains(pureImports, path) {
			i.found(spec, "imports "+path)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		i.node(node)
		return true
	})
	for _, line := range slices.Sorted(maps.Keys(i.exempt)) {
		if e := i.exempt[line]; !e.used {
			i.findings = append(i.findings, fmt.Sprintf("%s: a pure core has a comment that exempts nothing", e.position))
		}
	}
	return i.findings
}

func (i *inspector) node(node ast.Node) {
	switch n := node.(type) {
	case *ast.GoStmt:
		i.found(n, "starts a goroutine")
	case *ast.SelectStmt:
		i.found(n, "selects")
	case *ast.ChanType:
		i.found(n, "uses a channel")
	case *ast.SendStmt:
		i.found(n, "sends on a channel")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			i.found(n, "receives from a channel")
		}
	case *ast.RangeStmt:
		i.ranged(n)
	case *ast.CallExpr:
		i.call(n)
	case *ast.Ident:
		i.use(n)
	}
}

func (i *inspector) ranged(n *ast.RangeStmt) {
	typ := i.info.TypeOf(n.X)
	if typ == nil {
		return
	}
	for _, under := range underlying(typ) {
		switch under.(type) {
		case *types.Map:
			i.foundOrder(n, "ranges over a map")
		case *types.Chan:
			i.found(n, "receives from a channel")
		}
	}
}

// underlying returns the underlying type of typ, or for a type parameter or an interface the
// underlying types of its type set.
func underlying(typ types.Type) []types.Type {
	switch t := typ.(type) {
	case *types.TypeParam:
		return underlying(t.Constraint().Underlying().(*types.Interface))
	case *types.Interface:
		var all []types.Type
		for n := range t.NumEmbeddeds() {
			all = append(all, underlying(t.EmbeddedType(n))...)
		}
		return all
	case *types.Union:
		var all []types.Type
		for n := range t.Len() {
			all = append(all, underlying(t.Term(n).Type())...)
		}
		return all
	}
	if i, ok := typ.Underlying().(*types.Interface); ok {
		return underlying(i)
	}
	return []types.Type{typ.Underlying()}
}

// call reports map iterators, except those whose values are sorted at once.
func (i *inspector) call(n *ast.CallExpr) {
	if i.isFunc(n.Fun, "slices", sorters) && len(n.Args) > 0 {
		if inner, ok := n.Args[0].(*ast.CallExpr); ok {
			i.sorted[inner.Fun] = true
		}
	}
	if i.isFunc(n.Fun, "maps", mapOrder) && !i.sorted[n.Fun] {
		i.foundOrder(n, "iterates over a map")
	}
}

// use reports a mention of an impure function or variable, called or not.
func (i *inspector) use(n *ast.Ident) {
	object := i.info.Uses[n]
	if object == nil {
		return
	}
	if builtin, ok := object.(*types.Builtin); ok && (builtin.Name() == "print" || builtin.Name() == "println") {
		i.found(n, "uses "+builtin.Name())
	}
	if object.Pkg() == nil || object.Parent() != object.Pkg().Scope() {
		return // not declared at package level: a method, a field, a local variable
	}
	path, name := object.Pkg().Path(), object.Name()
	_, function := object.(*types.Func)
	global := function && (path == "math/rand" || path == "math/rand/v2") && !slices.Contains(seededRand, name)
	if global || slices.Contains(impureNames[path], name) {
		i.found(n, "uses "+path+"."+name)
	}
}

func (i *inspector) isFunc(expr ast.Expr, pkg string, names []string) bool {
	selector, ok := expr.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	function, ok := i.info.Uses[selector.Sel].(*types.Func)
	return ok && function.Pkg() != nil && function.Pkg().Path() == pkg && slices.Contains(names, function.Name())
}

func (i *inspector) found(node ast.Node, what string) {
	position := i.fset.Position(node.Pos())
	if e := i.exempt[position.Line]; e != nil && e.pure {
		e.used = true
		return
	}
	i.findings = append(i.findings, fmt.Sprintf("%s: a pure core %s", position, what))
}

func (i *inspector) foundOrder(node ast.Node, what string) {
	position := i.fset.Position(node.Pos())
	if e := i.exempt[position.Line]; e != nil && e.order {
		e.used = true
		return
	}
	i.findings = append(i.findings,
		fmt.Sprintf("%s: a pure core %s: its order is random; sort and say \"sorted below\", or say \"order-free: reason\"", position, what))
}
