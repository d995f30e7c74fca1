package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	prefix     = "//mutant:"
	importPath = "github.com/roost-cluster/roost/libs/mutant"
)

// mutant is one comment.
type mutant struct {
	name  string
	guard string // the function with the comment, such as turn.advance
	at    token.Position
}

// file is a parsed source.
type file struct {
	name   string
	src    []byte
	fset   *token.FileSet
	ast    *ast.File
	tokens []lexeme
	heads  []head
	edits  []edit
	needs  map[string]bool // the packages that statements of mutants may need
}

// lexeme is a token of the source. Comments and semicolons that the scanner adds are left out.
type lexeme struct {
	offset, line int
	text         string
}

// head is a statement, or the part of it before its block.
type head struct {
	from, to token.Pos
	nodes    []ast.Node
	cond     ast.Expr // nil: an operand must be named
}

// edit puts two texts around a part of the source. The part of a do is its comment, which is replaced.
type edit struct {
	from, to      int
	before, after string
	replaces      bool
}

func parse(name string, src []byte) (*file, error) {
	f := &file{name: name, src: src, fset: token.NewFileSet()}
	var err error
	f.ast, err = parser.ParseFile(f.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

func scan(src []byte) []lexeme {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	var all []lexeme
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return all
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue
		}
		if text == "" {
			text = tok.String()
		}
		all = append(all, lexeme{file.Offset(pos), file.Line(pos), text})
	}
}

// normal returns source without the white space that means nothing.
func normal(src []byte) string {
	var b strings.Builder
	for _, t := range scan(src) {
		b.WriteString(t.text)
		b.WriteByte(' ')
	}
	return b.String()
}

func (f *file) offset(p token.Pos) int { return f.fset.Position(p).Offset }
func (f *file) line(p token.Pos) int   { return f.fset.Position(p).Line }
func (f *file) text(from, to token.Pos) []byte {
	return f.src[f.offset(from):f.offset(to)]
}

// switched returns the mutants of a file, and its source with their switches. Statements of mutants may use packages that the
// file does not import; imports has the paths that the repository imports, by the name of the package.
func (f *file) switched(imports map[string][]string) (mutants []mutant, src []byte, errs []error) {
	if !bytes.Contains(f.src, []byte(prefix)) {
		return nil, f.src, nil
	}
	f.tokens, f.heads, f.needs = scan(f.src), headsOf(f.ast), map[string]bool{}
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			rest, found := strings.CutPrefix(c.Text, prefix)
			if !found {
				continue
			}
			verb, rest, _ := strings.Cut(rest, " ")
			name, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
			m := mutant{name: name, at: f.fset.Position(c.Pos()), guard: f.guard(c.Pos())}
			if err := f.fit(c, verb, name, strings.TrimSpace(rest)); err != nil {
				errs = append(errs, fmt.Errorf("%s: the mutant %q: %w", m.at, name, err))
				continue
			}
			mutants = append(mutants, m)
		}
	}
	if len(errs) > 0 {
		return mutants, nil, errs
	}
	if !f.importsSwitch() {
		f.needs["mutant"] = true
	}
	// Imports on the line of the package clause keep the numbers of all lines.
	at := f.offset(f.ast.Name.End())
	for _, name := range slices.Sorted(maps.Keys(f.needs)) {
		switch paths := imports[name]; len(paths) {
		case 0:
		case 1:
			f.edits = append(f.edits, edit{from: at, to: at, before: `; import "` + paths[0] + `"`})
		default:
			return mutants, nil, []error{fmt.Errorf("%s: a mutant uses %s, which may be %s: import one of them", f.name, name, strings.Join(paths, " or "))}
		}
	}
	src = apply(f.src, f.edits)
	if _, err := parser.ParseFile(token.NewFileSet(), f.name, src, parser.SkipObjectResolution); err != nil {
		return mutants, nil, []error{fmt.Errorf("with the mutants of this file: %w", err)}
	}
	return mutants, src, nil
}

func (f *file) importsSwitch() bool {
	return slices.ContainsFunc(f.ast.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+importPath+`"` })
}

var nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// fit adds the edit for a comment.
func (f *file) fit(c *ast.Comment, verb, name, rest string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("a name has words of small letters with hyphens between")
	}
	// The first token after the comment, and whether there is one before it on its line.
	next, _ := slices.BinarySearchFunc(f.tokens, f.offset(c.Pos()), func(t lexeme, at int) int { return cmp.Compare(t.offset, at) })
	alone := next == 0 || f.tokens[next-1].line < f.line(c.Pos())
	line := f.line(c.Pos())
	if alone {
		if next == len(f.tokens) {
			return fmt.Errorf("nothing follows")
		}
		line = f.tokens[next].line
	}
	on := fmt.Sprintf("mutant.On(%q)", name)
	switch verb {
	case "false", "true":
		return f.fitCondition(line, verb, on, rest)
	case "skip":
		if rest != "" {
			return fmt.Errorf("skip takes only a name")
		}
		return f.fitSkip(line, on)
	case "do":
		if !alone {
			return fmt.Errorf("do stands alone on its line")
		}
		return f.fitDo(c, f.tokens[next].text, on, rest)
	default:
		return fmt.Errorf("there is no %s%s", prefix, verb)
	}
}

func (f *file) fitCondition(line int, verb, on, operand string) error {
	h := f.headAt(line)
	if h == nil {
		return fmt.Errorf("there is no statement on line %d", line)
	}
	e := edit{before: "(!" + on + " && (", after: "))"}
	if verb == "true" {
		e.before = "(" + on + " || ("
	}
	switch {
	case operand != "":
		from, to, n := f.find(h, normal([]byte(operand)))
		if n != 1 {
			return fmt.Errorf("%q is %d times in the statement on line %d, want once", operand, n, line)
		}
		e.from, e.to = f.offset(from), f.offset(to)
	case h.cond == nil:
		return fmt.Errorf("the statement on line %d is not a single condition: name the operand", line)
	default:
		e.from, e.to = f.offset(h.cond.Pos()), f.offset(h.cond.End())
	}
	f.edits = append(f.edits, e)
	return nil
}

// find returns where an operand is in a statement, and how often.
func (f *file) find(h *head, operand string) (from, to token.Pos, n int) {
	found := map[[2]token.Pos]bool{}
	look := func(a, b token.Pos) {
		if normal(f.text(a, b)) == operand {
			from, to = a, b
			found[[2]token.Pos{a, b}] = true
		}
	}
	walk := func(node ast.Node) bool {
		e, is := node.(ast.Expr)
		if !is {
			return true
		}
		look(e.Pos(), e.End())
		if b, is := e.(*ast.BinaryExpr); is && (b.Op == token.LAND || b.Op == token.LOR) {
			for _, x := range operands(b, b.Op) { // runs that end with this operator's right side
				look(x.Pos(), b.End())
			}
		}
		return true
	}
	if h.cond != nil {
		ast.Inspect(h.cond, walk)
	}
	if len(found) == 0 {
		for _, node := range h.nodes {
			ast.Inspect(node, walk)
		}
	}
	return from, to, len(found)
}

func operands(e ast.Expr, op token.Token) []ast.Expr {
	if b, is := e.(*ast.BinaryExpr); is && b.Op == op {
		return append(operands(b.X, op), operands(b.Y, op)...)
	}
	return []ast.Expr{e}
}

// headAt returns the outermost statement that begins on a line; if there is none, the innermost one that has the line.
func (f *file) headAt(line int) *head {
	var covers *head
	for i := range f.heads {
		h := &f.heads[i]
		if f.line(h.from) == line {
			return h
		}
		if f.line(h.from) < line && line <= f.line(h.to) {
			covers = h
		}
	}
	return covers
}

// headsOf returns the statements of a file, outer ones first.
func headsOf(root *ast.File) []head {
	var all []head
	add := func(from, to token.Pos, cond ast.Expr, nodes ...ast.Node) {
		nodes = slices.DeleteFunc(nodes, func(n ast.Node) bool { return n == nil })
		all = append(all, head{from, to, nodes, cond})
	}
	ast.Inspect(root, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.IfStmt:
			add(s.If, s.Body.Lbrace, s.Cond, s.Init, s.Cond)
		case *ast.ForStmt:
			add(s.For, s.Body.Lbrace, s.Cond, s.Init, s.Cond, s.Post)
		case *ast.RangeStmt:
			add(s.For, s.Body.Lbrace, nil, s.X)
		case *ast.SwitchStmt:
			add(s.Switch, s.Body.Lbrace, nil, s.Init, s.Tag)
		case *ast.TypeSwitchStmt:
			add(s.Switch, s.Body.Lbrace, nil, s.Init, s.Assign)
		case *ast.CommClause:
			add(s.Case, s.Colon, nil, s.Comm)
		case *ast.CaseClause:
			var nodes []ast.Node
			for _, e := range s.List {
				nodes = append(nodes, e)
			}
			add(s.Case, s.Colon, single(s.List), nodes...)
		case *ast.ReturnStmt:
			add(s.Pos(), s.End(), single(s.Results), s)
		case *ast.AssignStmt:
			add(s.Pos(), s.End(), single(s.Rhs), s)
		case *ast.ValueSpec:
			add(s.Pos(), s.End(), single(s.Values), s)
		case *ast.BlockStmt, *ast.LabeledStmt, *ast.SelectStmt, *ast.DeclStmt:
		case ast.Stmt:
			add(s.Pos(), s.End(), nil, s)
		}
		return true
	})
	return all
}

func single(list []ast.Expr) ast.Expr {
	if len(list) != 1 {
		return nil
	}
	return list[0]
}

func (f *file) fitSkip(line int, on string) error {
	var s ast.Stmt
	ast.Inspect(f.ast, func(n ast.Node) bool {
		for _, x := range listOf(n) {
			switch x.(type) {
			case *ast.CaseClause, *ast.CommClause:
				continue
			}
			if s == nil && f.line(x.Pos()) == line {
				s = x
			}
		}
		return s == nil
	})
	switch x := s.(type) {
	case nil:
		return fmt.Errorf("no statement begins on line %d", line)
	case *ast.DeclStmt, *ast.LabeledStmt:
		return fmt.Errorf("a declaration or a label cannot be skipped")
	case *ast.AssignStmt:
		if x.Tok == token.DEFINE {
			return fmt.Errorf("a declaration cannot be skipped")
		}
	}
	f.edits = append(f.edits, edit{from: f.offset(s.Pos()), to: f.offset(s.End()), before: "if !" + on + " { ", after: " }"})
	return nil
}

func (f *file) fitDo(c *ast.Comment, next, on, statements string) error {
	body, err := parser.ParseFile(token.NewFileSet(), "", "package p; func f() { for { "+statements+" } }", parser.SkipObjectResolution)
	if statements == "" || err != nil {
		return fmt.Errorf("these are not statements: %q", statements)
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if s, is := n.(*ast.SelectorExpr); is {
			if x, is := s.X.(*ast.Ident); is && !f.uses(x.Name) {
				f.needs[x.Name] = true
			}
		}
		return true
	})
	if next == "case" || next == "default" {
		return fmt.Errorf("do cannot stand directly before a %s", next)
	}
	// The innermost node around the comment must have a list of statements.
	var around ast.Node
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if n == nil || c.Pos() < n.Pos() || n.End() <= c.Pos() {
			return false
		}
		if _, is := n.(*ast.CommentGroup); !is {
			around = n
		}
		return true
	})
	switch around.(type) {
	case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
	default:
		return fmt.Errorf("do must stand between statements")
	}
	f.edits = append(f.edits, edit{from: f.offset(c.Pos()), to: f.offset(c.End()), before: "if " + on + " { " + statements + " }", replaces: true})
	return nil
}

// uses reports whether a name is in the source: then it is not a package that only a mutant needs.
func (f *file) uses(name string) bool {
	return slices.ContainsFunc(f.tokens, func(t lexeme) bool { return t.text == name })
}

// listOf returns the statements of a list.
func listOf(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
}

// apply returns the source with the edits, which may be nested.
func apply(src []byte, edits []edit) []byte {
	type text struct {
		at, order int
		text      string
		skip      int
	}
	var texts []text
	for _, e := range edits {
		if e.replaces {
			texts = append(texts, text{at: e.from, text: e.before, skip: e.to - e.from})
			continue
		}
		size := e.to - e.from
		texts = append(texts, text{at: e.from, order: len(src) - size, text: e.before}) // outer parts open first
		texts = append(texts, text{at: e.to, order: size - len(src), text: e.after})    // and close last, before another opens
	}
	// Those around the same part: the one that opens last closes first.
	slices.SortStableFunc(texts, func(a, b text) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	var out bytes.Buffer
	at := 0
	for _, t := range texts {
		out.Write(src[at:t.at])
		out.WriteString(t.text)
		at = t.at + t.skip
	}
	out.Write(src[at:])
	return out.Bytes()
}

// guard returns the package and function on the line of a position.
func (f *file) guard(p token.Pos) string {
	for _, d := range f.ast.Decls {
		if fn, is := d.(*ast.FuncDecl); is && f.line(fn.Pos()) <= f.line(p) && f.line(p) <= f.line(fn.End()) {
			return f.ast.Name.Name + "." + fn.Name.Name
		}
	}
	return f.ast.Name.Name
}
