package sdk_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestPublicSignatures: authors and callers need no package of libs, which may change with each release.
func TestPublicSignatures(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		libs := map[string]bool{}
		for _, i := range f.Imports {
			if path := strings.Trim(i.Path.Value, `"`); strings.Contains(path, "/libs/") {
				libs[path[strings.LastIndexByte(path, '/')+1:]] = true
			}
		}
		check := func(what string, node ast.Node) {
			ast.Inspect(node, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Field: // of a struct or an interface
					return len(n.Names) == 0 || len(n.Names) > 0 && (n.Names[0].IsExported() || !isMember(node, n))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && libs[x.Name] {
						t.Errorf("%s: %s has %s.%s in its signature", set.Position(n.Pos()), what, x.Name, n.Sel.Name)
					}
				}
				return true
			})
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && ofExported(d.Recv) {
					check(d.Name.Name, d.Type)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							check(s.Name.Name, s.Type)
						}
					case *ast.ValueSpec:
						if s.Names[0].IsExported() {
							for _, v := range s.Values {
								check(s.Names[0].Name, v)
							}
						}
					}
				}
			}
		}
	}
}

// ofExported reports whether a receiver is absent, or of an exported type.
func ofExported(recv *ast.FieldList) bool {
	if recv == nil {
		return true
	}
	name := ""
	ast.Inspect(recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	return ast.IsExported(name)
}

// isMember reports whether a field is one of a struct or interface type, and not a parameter.
func isMember(root ast.Node, field *ast.Field) (member bool) {
	ast.Inspect(root, func(n ast.Node) bool {
		var list *ast.FieldList
		switch n := n.(type) {
		case *ast.StructType:
			list = n.Fields
		case *ast.InterfaceType:
			list = n.Methods
		}
		if list != nil {
			for _, f := range list.List {
				member = member || f == field
			}
		}
		return true
	})
	return member
}
