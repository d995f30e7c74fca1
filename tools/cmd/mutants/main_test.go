package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// switchedSource returns the body of a function with its switches.
func switchedSource(t *testing.T, body string) (string, error) {
	t.Helper()
	const head, tail = "package p\n\nfunc (m *M) f(a, b, c bool) bool {\n", "\n}\n"
	f, err := parse("p.go", []byte(head+body+tail))
	if err != nil {
		t.Fatal(err)
	}
	_, src, errs := f.switched(map[string][]string{"mutant": {importPath}})
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	if got, want := strings.Count(string(src), "\n"), strings.Count(head+body+tail, "\n"); got != want {
		t.Errorf("%d lines became %d", want, got)
	}
	got, found := strings.CutPrefix(string(src), strings.Replace(head, "package p", `package p; import "`+importPath+`"`, 1))
	if !found {
		t.Errorf("the switched source begins with\n%s", src[:60])
	}
	return strings.TrimSuffix(got, tail), nil
}

// TestSwitched switches the guards of each form.
func TestSwitched(t *testing.T) {
	for name, c := range map[string][2]string{
		"if": {
			"if a && b { //mutant:false x\n}",
			"if (!mutant.On(\"x\") && (a && b)) { //mutant:false x\n}",
		},
		"above, after the reason": {
			"// because\n//mutant:true x\n\n// more\nif a {\n}",
			"// because\n//mutant:true x\n\n// more\nif (mutant.On(\"x\") || (a)) {\n}",
		},
		"else if": {
			"if a {\n} else if b { //mutant:false x\n}",
			"if a {\n} else if (!mutant.On(\"x\") && (b)) { //mutant:false x\n}",
		},
		"operands, one in the other": {
			"//mutant:false x a\n//mutant:true y a&&b\n//mutant:true z\nreturn a && b || c",
			"//mutant:false x a\n//mutant:true y a&&b\n//mutant:true z\nreturn (mutant.On(\"z\") || ((mutant.On(\"y\") || ((!mutant.On(\"x\") && (a)) && b)) || c))",
		},
		"a run of operands": {
			"return a && b && c && a //mutant:false x b && c",
			"return a && (!mutant.On(\"x\") && (b && c)) && a //mutant:false x b && c",
		},
		"the condition comes first": {
			"if a := b; a { //mutant:false x a\n}",
			"if a := b; (!mutant.On(\"x\") && (a)) { //mutant:false x a\n}",
		},
		"a part that is not the condition": {
			"g(a, true) //mutant:false x true",
			"g(a, (!mutant.On(\"x\") && (true))) //mutant:false x true",
		},
		"lines of a statement": {
			"//mutant:true x b\nreturn a ||\n\tb",
			"//mutant:true x b\nreturn a ||\n\t(mutant.On(\"x\") || (b))",
		},
		"cases": {
			"switch {\n//mutant:false x a\ncase a, b:\ncase c: //mutant:true y\n}",
			"switch {\n//mutant:false x a\ncase (!mutant.On(\"x\") && (a)), b:\ncase (mutant.On(\"y\") || (c)): //mutant:true y\n}",
		},
		"loop": {
			"for i := 0; a; i++ { //mutant:false x\n}",
			"for i := 0; (!mutant.On(\"x\") && (a)); i++ { //mutant:false x\n}",
		},
		"assignment": {
			"ok := a //mutant:true x\nvar no = b //mutant:true y\nh(ok, no)",
			"ok := (mutant.On(\"x\") || (a)) //mutant:true x\nvar no = (mutant.On(\"y\") || (b)) //mutant:true y\nh(ok, no)",
		},
		"skip": {
			"//mutant:skip x\nif a {\n\tg()\n} // later\nm.b = c //mutant:skip y",
			"//mutant:skip x\nif !mutant.On(\"x\") { if a {\n\tg()\n} } // later\nif !mutant.On(\"y\") { m.b = c } //mutant:skip y",
		},
		"do": {
			"g()\n//mutant:do x if a { g() }; return b\nreturn c",
			"g()\nif mutant.On(\"x\") { if a { g() }; return b }\nreturn c",
		},
		"do at the end of a block, and of the last case": {
			"if a {\n\tg()\n\t//mutant:do x h()\n}\nswitch {\ncase b:\n\tg()\n\t//mutant:do y h()\n}",
			"if a {\n\tg()\n\tif mutant.On(\"x\") { h() }\n}\nswitch {\ncase b:\n\tg()\n\tif mutant.On(\"y\") { h() }\n}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := switchedSource(t, c[0]); err != nil {
				t.Error(err)
			} else if got != c[1] {
				t.Errorf("got\n%s\nwant\n%s", got, c[1])
			}
		})
	}
}

// TestMisfits refuses comments that fit nothing, or more than one thing.
func TestMisfits(t *testing.T) {
	for body, want := range map[string]string{
		"if a { //mutant:maybe x\n}":                         "there is no //mutant:maybe",
		"if a { //mutant:false\n}":                           "a name has words",
		"if a { //mutant:false X_1\n}":                       "a name has words",
		"g() //mutant:false x":                               "name the operand",
		"return a, b //mutant:false x":                       "name the operand",
		"if a { //mutant:false x b\n}":                       "0 times",
		"if a || b && a { //mutant:false x a\n}":             "2 times",
		"if a && b || c { //mutant:false x b || c\n}":        "0 times",
		"//mutant:skip x\nok := a\ng(ok)":                    "a declaration cannot be skipped",
		"//mutant:skip x\nvar ok = a\ng(ok)":                 "cannot be skipped",
		"//mutant:skip x g()\ng()":                           "skip takes only a name",
		"switch {\n//mutant:skip x\ncase a:\n}":              "no statement begins",
		"g() //mutant:do x h()":                              "do stands alone",
		"//mutant:do x":                                      "these are not statements",
		"//mutant:do x if a":                                 "these are not statements",
		"switch {\n//mutant:do x h()\ncase a:\n}":            "directly before a case",
		"switch {\ncase a:\n//mutant:do x h()\ndefault:\n}":  "directly before a default",
		"g(\n//mutant:do x h()\na)":                          "between statements",
		"var t struct {\n//mutant:do x h()\na bool }\ng(t)":  "between statements",
		"//mutant:do x h()\n//mutant:do x time.Sleep(\nh(a)": "these are not statements",
	} {
		if got, err := switchedSource(t, body); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v\n%s\nwant an error with %q", body, err, got, want)
		}
	}
}

const (
	guardSource = `// Package guard is small.
package guard

// Open opens.
func Open(locked bool) string {
	// The lock is needed.
	//
	// Invariant: a locked door stays closed, even if a
	// guest knocks.
	// Guarded by: ` + "`guard.Open`" + ` looks at the lock.
	// Mutants: lock, chain.
	if locked { //mutant:false lock
		return ""
	}
	// Invariant: a door has a chain
	// Mutants: chain
	//mutant:do chain return strings.ToUpper("open")
	bell() //mutant:skip bell
	return "open"
}

func bell() {}

func closed(wind bool) bool { return !wind } //mutant:true wind
`
	guardTest = `//go:build mutants && linux

package guard

func TestMutants(t *testing.T) { names("lock", "chain", "bell", "wind") }
`
	otherSource = "package other\n\nimport \"strings\"\n\nvar _ = strings.Fields\n"
)

func repositoryFiles() map[string][]byte {
	return map[string][]byte{
		"libs/guard/guard.go":        []byte(guardSource),
		"libs/guard/mutants_test.go": []byte(guardTest),
		"libs/guard/other_test.go":   []byte("package guard\n"),
		"libs/other/other.go":        []byte(otherSource),
	}
}

// TestPage writes the page of a small repository.
func TestPage(t *testing.T) {
	r := read(repositoryFiles())
	if err := errors.Join(r.errs...); err != nil {
		t.Fatal(err)
	}
	got, err := r.page()
	if err != nil {
		t.Fatal(err)
	}
	want := intro + "| a locked door stays closed, even if a guest knocks | `guard.Open` looks at the lock | lock, chain |\n" +
		"| a door has a chain | `guard.Open` | chain |\n" + more + "| `guard.Open` | bell |\n| `guard.closed` | wind |\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestNames finds names that only a comment or only an invariant has, and an invariant that nothing guards.
func TestNames(t *testing.T) {
	for want, change := range map[string][3]string{
		"no test names the mutant lock":                {"libs/guard/mutants_test.go", `"lock"`, `"lost"`},
		"the mutant lock, which does not exist":        {"libs/guard/guard.go", " //mutant:false lock", ""},
		"an invariant without mutants names its guard": {"libs/guard/guard.go", "	// Mutants: chain\n", ""},
		"in this order":                     {"libs/guard/guard.go", "	// Mutants: chain\n", "	// Mutants: chain\n	// Guarded by: it\n"},
		"which may be a/strings or strings": {"libs/other/other.go", "import \"strings\"", "import (\n\t\"a/strings\"\n\t\"strings\"\n)"},
	} {
		files := repositoryFiles()
		files[change[0]] = []byte(strings.Replace(string(files[change[0]]), change[1], change[2], 1))
		if err := errors.Join(read(files).errs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestRun writes copies into a repository, and builds them with the overlay.
func TestRun(t *testing.T) {
	root := t.TempDir()
	for name, b := range repositoryFiles() {
		if err := put(filepath.Join(root, name), b); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range [][2]string{
		{"go.mod", "module github.com/roost-cluster/roost\n\ngo 1.26\n"},
		{"libs/mutant/on.go", "package mutant\n\nvar names map[string]bool\n\nfunc On(name string) bool { return names[name] && name == \"chain\" }\n"},
		{"main.go", "package main\n\nimport \"github.com/roost-cluster/roost/libs/guard\"\n\nfunc main() { println(guard.Open(false)) }\n"},
	} {
		if err := put(filepath.Join(root, f[0]), []byte(f[1])); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	in("git", "init", "-q")
	in("git", "add", ".")
	if err := run(root, true, false); err == nil || !strings.Contains(err.Error(), "run make invariants") {
		t.Errorf("without the page: %v", err)
	}
	for _, write := range []bool{true, false} {
		if err := run(root, false, write); err != nil {
			t.Fatal(err)
		}
	}
	in("git", "add", "docs") // not the copies in bin
	if err := run(root, true, false); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(filepath.Join(root, target, "overlay.json"))
	var overlay struct{ Replace map[string]string }
	if err != nil || json.Unmarshal(b, &overlay) != nil || len(overlay.Replace) != 2 {
		t.Errorf("overlay: %v\n%s", err, b)
	}
	if b, _ := os.ReadFile(filepath.Join(root, target, "packages")); string(b) != "./libs/guard\n" {
		t.Errorf("packages: %q", b)
	}
	if got := in("go", "run", "."); got != "open" {
		t.Errorf("without the overlay: %q", got)
	}
	if got := in("go", "run", "-overlay", filepath.Join(root, target, "overlay.json"), "."); got != "OPEN" {
		t.Errorf("with a mutant: %q", got)
	}
}
