package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/cli/internal/app"
	"github.com/roost-cluster/roost/libs/errornumber"
	"github.com/roost-cluster/roost/libs/sharding"
)

// writeErrors is the environment variable that makes [TestErrorsPage] write the page instead of
// comparing it: make errors.
const writeErrors = "WRITE_ERRORS"

const errorsIntro = `# Errors

The numbers of Roost's own errors. This page is written by ` + "`make errors`" + ` from
` + "`libs/errornumber`" + `, which the services use, and a test compares it with them.
` + "`roost errors NUMBER`" + ` prints the same.

An error is ` + "`{\"code\",\"msg\",\"meta\"}`" + ` ([HTTP](http.md#errors)). The number is in ` + "`meta.error`" + `. In an AskMany it is
in the field ` + "`number`" + ` of an item's error. The message says more than this page: it names what was wrong this time.
An error without a number is the entity's own answer, or comes from something other than Roost, such as a proxy, if it has no
` + "`meta.outcome`" + ` either.

| ` + "`meta.outcome`" + ` | the command's outcome |
|---|---|
`

// errorsPage writes the page from the table of numbers.
func errorsPage() string {
	var page strings.Builder
	page.WriteString(errorsIntro)
	for _, e := range []sharding.Outcome{sharding.Executed, sharding.NotApplied, sharding.Unknown} {
		fmt.Fprintf(&page, "| `%s` | %s |\n", e, errornumber.Meaning(e))
	}
	page.WriteString("\n| repeat | whether sending the same command again helps |\n|---|---|\n")
	for _, r := range []errornumber.Repeat{errornumber.Useless, errornumber.Later, errornumber.WithKey, errornumber.IfAborted} {
		fmt.Fprintf(&page, "| %s | %s |\n", r, r.Text())
	}
	page.WriteString(`
The Go client and gateways repeat by themselves what may be repeated, until the time of the command is over. ` + "`not_applied`" + ` holds
for the attempt that is answered: if the outcome of an earlier attempt under the same key is unknown, a refused repeat does not end
that doubt. If a command has asked other entities to change something and then fails, its outcome is ` + "`unknown`" + `
([calls.md](calls.md#asks-that-change-something)). The services for operators at the management address answer with some
of these numbers too, for requests that they refuse. A call of the Go client whose context was canceled ends with the code
` + "`canceled`" + `, without a number.

| number | code | HTTP | outcome | repeat | meaning |
|---|---|---|---|---|---|
`)
	for _, e := range errornumber.All() {
		fmt.Fprintf(&page, "| [%s](#%s) | %s | %s | `%s` | %s | %s |\n", e.Number, strings.ToLower(string(e.Number)), e.Codes(), e.Statuses(), e.Outcome, e.Repeat, e.Meaning)
	}
	for _, e := range errornumber.All() {
		fmt.Fprintf(&page, "\n## %s\n\n*%s.* %s\n\nWhat to do: %s\n", e.Number, strings.ToUpper(e.Meaning[:1])+e.Meaning[1:], e.Causes, e.Action)
	}
	return page.String()
}

// TestErrorsPage: the page has every number with its texts.
func TestErrorsPage(t *testing.T) {
	file, want := filepath.Join(root, "docs", "using", "errors.md"), errorsPage()
	if os.Getenv(writeErrors) != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if readFile(t, file) != want {
		t.Error("docs/using/errors.md is not what libs/errornumber says; run make errors")
	}
}

// TestErrorNumbersAreUsed: no text names a number that the table lacks, the code takes numbers from the table, with a code and a
// status that the table has, and nothing is in the table that no service answers with.
func TestErrorNumbersAreUsed(t *testing.T) {
	w := numberWalk{t: t, files: token.NewFileSet(), constants: map[string]errornumber.Number{}, used: map[string]bool{}}
	entries := filepath.Join(root, "libs", "errornumber", "entries.go")
	w.declare(w.parse(entries))
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && file != root || entry.Name() == "bin"):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		switch path.Ext(file) {
		case ".go":
			w.text(file)
			if !strings.HasSuffix(file, "_test.go") && !strings.HasSuffix(file, ".pb.go") && file != entries {
				w.code(file)
			}
		case ".md", ".proto", ".js", ".yaml", ".html":
			w.text(file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range w.constants { // order-free: independent findings
		if !w.used[name] {
			t.Errorf("%s (errornumber.%s) is in the table, and no service answers with it", n, name)
		}
	}
	if len(w.constants) != len(errornumber.All()) || w.refusals < 8 || w.named < 50 {
		t.Errorf("%d constants for %d entries, %d refusals, and %d numbers in texts were found", len(w.constants), len(errornumber.All()), w.refusals, w.named)
	}
}

// numberWalk looks at the uses of numbers.
type numberWalk struct {
	t               *testing.T
	files           *token.FileSet
	constants       map[string]errornumber.Number // by the name of the constant
	used            map[string]bool
	refusals, named int
}

func (w *numberWalk) parse(file string) *ast.File {
	w.t.Helper()
	f, err := parser.ParseFile(w.files, file, nil, parser.SkipObjectResolution)
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

// declare notes the constants of the table.
func (w *numberWalk) declare(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 {
			if literal, ok := v.Values[0].(*ast.BasicLit); ok {
				number, _ := strconv.Unquote(literal.Value)
				w.constants[v.Names[0].Name] = errornumber.Number(number)
			}
		}
		return true
	})
}

var numberPattern = regexp.MustCompile(`ROOST-[0-9]{4}\b`)

// text checks the numbers that a text names.
func (w *numberWalk) text(file string) {
	for _, n := range numberPattern.FindAllString(readFile(w.t, file), -1) {
		w.named++
		if _, ok := errornumber.Find(errornumber.Number(n)); !ok {
			w.t.Errorf("%s names %s, which is not in libs/errornumber", file, n)
		}
	}
}

// code notes which constants a file uses. Who only recognizes a number, such as the Go client, does not use it.
func (w *numberWalk) code(file string) {
	answers := strings.HasPrefix(file, filepath.Join(root, "services")) || strings.HasPrefix(file, filepath.Join(root, "libs"))
	ast.Inspect(w.parse(file), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if s, _ := strconv.Unquote(n.Value); n.Kind == token.STRING && numberPattern.FindString(s) == s && s != "" {
				w.t.Errorf("%s: take %s from libs/errornumber", w.files.Position(n.Pos()), s)
			}
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "errornumber" && answers {
				w.used[n.Sel.Name] = true
			}
		case *ast.CallExpr:
			w.refusal(n)
		}
		return true
	})
}

// refusal checks the arguments of [bounded.Refuse].
func (w *numberWalk) refusal(call *ast.CallExpr) {
	if name := selected(call.Fun); name != "Refuse" || len(call.Args) != 5 {
		return
	}
	w.refusals++
	status := 400
	for status < 600 && "Status"+strings.ReplaceAll(http.StatusText(status), " ", "") != selected(call.Args[1]) {
		status++
	}
	code := ""
	if literal, ok := call.Args[2].(*ast.BasicLit); ok {
		code, _ = strconv.Unquote(literal.Value)
	}
	e, ok := errornumber.Find(w.constants[selected(call.Args[3])])
	if !ok || !e.Comes(code, status) || e.Outcome != sharding.NotApplied {
		w.t.Errorf("%s: refused with %s, status %d, code %q; the table says %+v", w.files.Position(call.Pos()), e.Number, status, code, e)
	}
}

// selected is the name of an identifier, or the name selected from a package.
func selected(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func TestErrors(t *testing.T) {
	ranges := errornumber.Ranges()
	quarantined := `ROOST-1019  the entity is quarantined: its commands ended regions
code        failed_precondition, HTTP status 412
outcome     not_applied: the command was definitely not applied
repeat      no: the answer stays the same until something is changed
causes      Regions ended one after the other while the entity ran, or an operator has put it into
            quarantine.
what to do  See roost entity quarantine, find the cause, and release the entity with roost entity
            quarantine --undo. See docs/running/repair.md.
`
	for _, c := range []struct {
		command string
		code    int
		want    string
	}{
		{"errors 1019", 0, quarantined},
		{"errors ROOST-1019", 0, quarantined},
		{"errors roost-1019", 0, quarantined},
		{"errors 1999", app.ExitNotFound, "roost: there is no " + errornumber.Prefix + "1999 in this release; there are " + ranges + "\n"},
		{"errors ROOST-", app.ExitUsage, `roost: "ROOST-" is not the number of an error; write it like 1014 or ROOST-1014. There are ` + ranges + "\n"},
		{"errors 101", app.ExitUsage, `roost: "101" is not the number of an error; write it like 1014 or ROOST-1014. There are ` + ranges + "\n"},
		{"errors 1103 -o json", 0, `{"number":"ROOST-1103","answers":[{"code":"aborted","status":409}],"outcome":"unknown","repeat":"no",`},
		{"errors 1102 -o json", 0, `{"number":"ROOST-1102","answers":[],"outcome":"unknown","repeat":"with its key",`},
		{"errors -o json", 0, `{"errors":[{"number":"ROOST-1001",`},
		{"errors", 0, "NUMBER      CODE                         HTTP      OUTCOME      REPEAT        MEANING\nROOST-1001  invalid_argument, malformed  400       not_applied  no            a name,"},
	} {
		code, out, errOut := roost(t, strings.Fields(c.command)...)
		if code != c.code || !strings.HasPrefix(out+errOut, c.want) {
			t.Errorf("roost %s: exit code %d, want %d\n%s%s\nwant:\n%s", c.command, code, c.code, out, errOut, c.want)
		}
	}
	_, whole, _ := roost(t, "--help")
	for _, e := range errornumber.All() {
		for _, m := range regexp.MustCompile(`\broost ([a-z]+)|\bdocs/[a-z/-]+\.md`).FindAllStringSubmatch(e.Causes+" "+e.Action, -1) {
			if m[1] == "" {
				readFile(t, filepath.Join(root, m[0]))
			} else if code, out, _ := roost(t, m[1], "--help"); code != 0 || out == whole {
				t.Errorf("%s names the command %s, which there is not", e.Number, m[0])
			}
		}
	}
	if _, out, _ := roost(t, "errors"); strings.Count(out, "\n") != 1+len(errornumber.All()) {
		t.Errorf("not a line per number:\n%s", out)
	}
}
