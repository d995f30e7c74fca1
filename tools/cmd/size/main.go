// Command size prints the size of this repository, with the budget of each row:
//
//	size -root .
//
// A code line has at least one token that is not a comment. Tests, helpers and generated code are counted with all their
// lines. A test is a _test.go file. A test helper is other code that only tests use: its package imports testing, or its
// directory's name ends in "test". Generated files have Go's comment "Code generated … DO NOT EDIT.". Words of pages are
// counted between white space, tables included.
//
// It only prints; "over" marks the rows that are above their budget. A change that adds to a row names in its message what
// it adds.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/roost-cluster/roost/tools/internal/tracked"
)

func main() {
	root := flag.String("root", ".", "the `directory` of the repository")
	flag.Parse()
	if err := run(*root, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func run(root string, out io.Writer) error {
	files := map[string][]byte{}
	if err := tracked.Each(root, func(name string, b []byte) { files[name] = b }); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "now\tbudget\t")
	for _, r := range measure(files) {
		budget := "-"
		over := ""
		if r.budget >= 0 {
			budget = fmt.Sprint(r.budget)
		}
		if r.budget >= 0 && r.now > r.budget {
			over = ", over"
		}
		fmt.Fprintf(w, "%d\t%s\t  %s%s\n", r.now, budget, r.what, over)
	}
	return w.Flush()
}

// row is one measured size. A budget below 0 means that the row has none.
type row struct {
	what        string
	now, budget int
}

// uncounted are the pages whose words are mostly written by programs.
var uncounted = append([]string{"docs/inside/performance.md"}, tracked.GeneratedPages...)

func measure(files map[string][]byte) []row {
	n := map[string]int{}
	helpers := helperDirs(files)
	for name, b := range files { // order-free: sums
		switch {
		case filepath.Base(name) == "go.mod" && !strings.Contains(name, "testdata/"):
			n["modules"]++
		case strings.HasSuffix(name, ".go"):
			l := countLines(b)
			kind := kindOf(name, b, helpers)
			if strings.HasPrefix(name, "e2e/") {
				n["e2e"] += l.all
			}
			if kind != "code" {
				n[kind] += l.all
			} else {
				n["code"] += l.code
				n["comments"] += l.comments
				if !strings.HasPrefix(name, "tools/") {
					n["mutants"] += bytes.Count(b, []byte("mutant.On("))
				}
			}
		case strings.HasSuffix(name, ".md") && !strings.Contains(name, "testdata/"):
			words := len(bytes.Fields(b))
			if !slices.Contains(uncounted, name) {
				n["words"] += words
			}
			n[name] = words
			if name == "docs/running/settings.md" {
				shown, expert, _ := bytes.Cut(b, []byte("\n## Settings for experts\n"))
				n["settings"], n["expert settings"] = len(settingRow.FindAll(shown, -1)), len(settingRow.FindAll(expert, -1))
			}
		}
	}
	n["glossary rows"], n["glossary words"] = glossary(files)
	return []row{
		{"code lines of sdk, libs, services, cli, tools and examples", n["code"], 88_000},
		{"comment lines there", n["comments"], -1},
		{"lines of tests", n["test"], 102_000},
		{"lines of test helpers", n["helper"], 10_000},
		{"lines of e2e, with its tests", n["e2e"], 47_000},
		{"lines of generated code", n["generated"], 42_700},
		// 1,000 of them came with loads by processor and waiting, shards by number and by murmur2, all settings of Akka,
		// and entities that are one of their kind.
		{"words on pages, without generated pages", n["words"], 63_000},
		{"words of README.md", n["README.md"], 1_500},
		{"words of ARCHITECTURE.md", n["ARCHITECTURE.md"], 5_000},
		{"words of CONTRIBUTING.md", n["CONTRIBUTING.md"], 1_000},
		{"terms in the glossary", n["glossary rows"], 50},
		{"words in the glossary", n["glossary words"], 1_500},
		{"top verbs of the CLI", verbs(files), 12},
		{"settings that people are shown", n["settings"], 90},
		{"settings for experts", n["expert settings"], -1},
		{"switches of mutants in production code", n["mutants"], 0},
		{"modules", n["modules"], -1},
	}
}

var (
	settingRow = regexp.MustCompile("(?m)^\\| `[a-z][a-z_.]*` \\|")
	glossRow   = regexp.MustCompile(`(?m)^\| [^|*-][^|]*\|.*$`)
	verb       = regexp.MustCompile(`\b\w+\.Command\(a\)`)
)

// kindOf returns the row that counts the lines of a Go file.
func kindOf(name string, b []byte, helpers map[string]bool) string {
	switch dir, _, _ := strings.Cut(name, "/"); {
	case tracked.Generated(b):
		return "generated"
	case strings.HasSuffix(name, "_test.go"):
		return "test"
	case dir == "e2e":
		return ""
	case helpers[filepath.Dir(name)]:
		return "helper"
	default:
		return "code"
	}
}

// helperDirs returns the directories whose packages only tests use.
func helperDirs(files map[string][]byte) map[string]bool {
	dirs := map[string]bool{}
	for name, b := range files { // order-free: a set
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		dir := filepath.Dir(name)
		// What users import to test their entities is a part of the product.
		if !strings.HasPrefix(name, "sdk/") && (strings.HasSuffix(dir, "test") || bytes.Contains(b, []byte("\t\"testing\"\n"))) {
			dirs[dir] = true
		}
	}
	return dirs
}

type lines struct{ all, code, comments int }

// countLines counts the lines of a Go file, those that have code, and those that have only a comment.
func countLines(src []byte) lines {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	code, comments := map[int]bool{}, map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // the scanner's own, at the end of a line
		}
		set := code
		if tok == token.COMMENT {
			set = comments
		}
		first := file.Line(pos)
		for i := range 1 + strings.Count(text, "\n") {
			set[first+i] = true
		}
	}
	only := 0
	for l := range comments { // order-free: a count
		if !code[l] {
			only++
		}
	}
	return lines{bytes.Count(src, []byte("\n")), len(code), only}
}

// glossary returns the number of terms and of words in docs/glossary.md.
func glossary(files map[string][]byte) (terms, words int) {
	text := files["docs/glossary.md"]
	for _, r := range glossRow.FindAll(text, -1) {
		if !bytes.HasPrefix(r, []byte("| term ")) {
			terms++
		}
	}
	return terms, len(bytes.Fields(text))
}

// verbs counts the commands that the root command of the CLI adds.
func verbs(files map[string][]byte) int { return len(verb.FindAll(files["cli/cmd/roost/root.go"], -1)) }
