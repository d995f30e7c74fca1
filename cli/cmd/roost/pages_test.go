package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPagesNameRealCode: a page that explains the code by its names must not lag behind
// a rename.
func TestPagesNameRealCode(t *testing.T) {
	keys := map[string]bool{}
	for _, list := range keysOf(t) {
		for _, key := range list {
			keys[key] = true
		}
	}
	code := declared(t)
	span := regexp.MustCompile("`[^`\n]+`")
	name := regexp.MustCompile(`^([A-Za-z]\w*)\.([A-Za-z]\w*)(?:\.([A-Za-z]\w*))?(?:\(\))?$`)
	names := 0
	for _, page := range pages(t) {
		for _, text := range span.FindAllString(readFile(t, page), -1) {
			m := name.FindStringSubmatch(strings.Trim(text, "`"))
			if m == nil || keys[strings.Trim(text, "`")] || notKeys[m[1]+"."+m[2]] {
				continue
			}
			whole := m[1] + "." + m[2]
			switch {
			case code.packages[m[1]] == nil && !code.types[m[1]], m[1] == "roost", m[2] == "go":
				continue // a metric, a file, a host, something of another project
			case code.packages[m[1]] == nil && code.members[whole]:
			case code.packages[m[1]] != nil && code.packages[m[1]][m[2]] && (m[3] == "" || code.members[m[2]+"."+m[3]]):
			default:
				t.Errorf("%s names %s, which is not in the code", filepath.Base(page), text)
			}
			names++
		}
	}
	if names < 50 {
		t.Errorf("only %d names were found", names)
	}
}

// pages returns the paths of the pages in docs and of those at the root.
func pages(t *testing.T) []string {
	t.Helper()
	pages := []string{filepath.Join(root, "ARCHITECTURE.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "README.md")}
	found := map[string]int{}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			pages = append(pages, path)
			found[filepath.Base(filepath.Dir(path))]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder, least := range map[string]int{"docs": 2, "using": 10, "running": 15, "inside": 6, "decisions": 10} {
		if found[folder] < least {
			t.Errorf("only %d pages are in the folder %s", found[folder], folder)
		}
	}
	return pages
}

// TestLinks: what a page links to within the project is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s":]+)(#[^)\s]*)?\)`)
	code := regexp.MustCompile("(?ms)^ *```.*?^ *```") // in Go, f[T](x) is not a link
	links := 0
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(readFile(t, page), ""), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if links < 300 {
		t.Errorf("only %d links were found", links)
	}
}

// TestPagesNameCommands: the list of folders names every command of roost, and no other.
func TestPagesNameCommands(t *testing.T) {
	var row string
	for line := range strings.Lines(readFile(t, filepath.Join(root, "docs", "README.md"))) {
		if after, ok := strings.CutPrefix(line, "| `cli/` | `roost`:"); ok {
			row = after
		}
	}
	var named, real []string
	for _, m := range regexp.MustCompile("`([a-z]+)`").FindAllStringSubmatch(row, -1) {
		named = append(named, m[1])
	}
	_, help, _ := roost(t, "--help")
	_, help, _ = strings.Cut(help, "Available Commands:\n")
	help, _, _ = strings.Cut(help, "\n\n")
	for line := range strings.Lines(help) {
		if name := strings.Fields(line)[0]; name != "help" && name != "version" {
			real = append(real, name)
		}
	}
	slices.Sort(named)
	slices.Sort(real)
	if !slices.Equal(named, real) {
		t.Errorf("docs/README.md names the commands\n%s\nthere are\n%s", named, real)
	}
}

// TestPagesShowExamples: the Go code of these pages matches the examples.
func TestPagesShowExamples(t *testing.T) {
	var code []string
	for _, dir := range []string{"shop/v1", "shop/v2", "shop/orders", "bank", "pack", "pack/cmd/pack-coordinator", "placer"} {
		files, _ := filepath.Glob(filepath.Join(root, "examples", dir, "*.go"))
		for _, file := range files {
			code = append(code, unindented(readFile(t, file)))
		}
	}
	code = append(code, unindented(readFile(t, filepath.Join(root, "sdk", "entity", "example_test.go")))) // go test runs them
	for _, page := range []string{"using/testing.md", "using/singleton.md", "running/rolling-out.md", "running/placement.md"} {
		shown := 0
		for i, part := range strings.Split(readFile(t, filepath.Join(root, "docs", page)), "```") {
			text, ok := strings.CutPrefix(part, "go\n")
			if !ok || i%2 == 0 {
				continue
			}
			shown++
			if !slices.ContainsFunc(code, func(file string) bool { return strings.Contains(file, unindented(text)) }) {
				t.Errorf("%s shows what is not in the examples:\n%s", page, text)
			}
		}
		if shown == 0 {
			t.Errorf("%s shows no code", page)
		}
	}
}

// unindented is a text without the tabs before its lines.
func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}

// declarations are the declarations of the project's packages.
type declarations struct {
	packages map[string]map[string]bool // by name of the package
	types    map[string]bool
	members  map[string]bool // Type.Member, of any package
}

func declared(t *testing.T) declarations {
	t.Helper()
	d := declarations{packages: map[string]map[string]bool{}, types: map[string]bool{}, members: map[string]bool{}}
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != root || entry.Name() == "testdata" || entry.Name() == "bin"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := strings.TrimSuffix(file.Name.Name, "_test")
		if d.packages[pkg] == nil {
			d.packages[pkg] = map[string]bool{}
		}
		for _, decl := range file.Decls {
			d.declare(d.packages[pkg], decl)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *declarations) declare(pkg map[string]bool, decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		pkg[decl.Name.Name] = true // methods too: pages leave out the type where it is clear
		if decl.Recv != nil {
			d.members[receiver(decl.Recv.List[0].Type)+"."+decl.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					pkg[n.Name] = true
				}
			case *ast.TypeSpec:
				pkg[spec.Name.Name], d.types[spec.Name.Name] = true, true
				var fields *ast.FieldList
				switch body := spec.Type.(type) {
				case *ast.StructType:
					fields = body.Fields
				case *ast.InterfaceType:
					fields = body.Methods
				}
				if fields == nil {
					continue
				}
				for _, f := range fields.List {
					for _, n := range f.Names {
						d.members[spec.Name.Name+"."+n.Name] = true
					}
				}
			}
		}
	}
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
