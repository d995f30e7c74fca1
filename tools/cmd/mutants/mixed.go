package main

import (
	"go/ast"
	"go/token"
	"path"
	"strconv"
)

// readSwitches adds the mutants of calls of mutant.On in the code, which become comments.
func (r *repository) readSwitches(f *file) {
	if !f.importsSwitch() || path.Dir(f.name) == switchDir {
		return
	}
	for _, d := range f.ast.Decls {
		var names []*ast.BasicLit
		computed := false
		ast.Inspect(d, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				if s, is := x.Fun.(*ast.SelectorExpr); is && s.Sel.Name == "On" && len(x.Args) == 1 && string(f.text(s.X.Pos(), s.X.End())) == "mutant" {
					if lit, is := x.Args[0].(*ast.BasicLit); is {
						r.add(f, lit)
					} else {
						computed = true
					}
				}
			case *ast.BasicLit:
				if x.Kind == token.STRING {
					names = append(names, x)
				}
			}
			return true
		})
		for _, lit := range names {
			if s, _ := strconv.Unquote(lit.Value); computed && nameForm.MatchString(s) {
				r.add(f, lit)
			}
		}
	}
}

func (r *repository) add(f *file, lit *ast.BasicLit) {
	name, _ := strconv.Unquote(lit.Value)
	r.mutants = append(r.mutants, mutant{name: name, guard: f.guard(lit.Pos()), at: f.fset.Position(lit.Pos())})
	r.mixed = true
}
