// Command words counts phrases that make sentences hard to read or to find, and fails if there are more than a list allows:
//
//	words -root . -list tools/words.txt            # check
//	words -root . -list tools/words.txt -lower     # write the present numbers where they are lower
//	words -root . -list tools/words.txt -find PHRASE   # list where it is found
//
// Each line of the list has seven columns, separated by tabs: a regular expression, one of matches that do not count
// ("-" for none), the better words, and the number that is allowed in each place: comments of source files, strings of source
// files (with help texts), tests (comments and strings, e2e included), and pages. A number of "-" is not set yet; -lower sets it.
// Case does not matter, and a line break in a comment is a space.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/roost-cluster/roost/tools/internal/tracked"
)

func main() {
	root := flag.String("root", ".", "the `directory` of the repository")
	list := flag.String("list", "tools/words.txt", "the `file` with the phrases, below the root")
	lower := flag.Bool("lower", false, "write the present numbers into the list where they are lower")
	find := flag.String("find", "", "print where a `phrase` of the list is found")
	flag.Parse()
	ok, err := run(*root, *list, *lower, *find, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// The places, in the order of the columns.
var places = [...]string{"comments", "strings", "tests", "pages"}

const (
	comments = iota
	stringLiterals
	tests
	pages
)

const unset = -1

// phrase is one line of the list.
type phrase struct {
	text, except, better string
	match, not           *regexp.Regexp // not may be nil
	allowed              [len(places)]int
}

func run(root, list string, lower bool, find string, out io.Writer) (ok bool, err error) {
	path := filepath.Join(root, list)
	b, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	phrases, err := parse(string(b))
	if err != nil {
		return false, fmt.Errorf("%s: %w", list, err)
	}
	texts, err := gather(root)
	if err != nil {
		return false, err
	}
	if find != "" {
		return true, where(phrases, texts, find, out)
	}
	ok = true
	for i := range phrases {
		p := &phrases[i]
		now := p.count(texts)
		for place := range places {
			switch {
			case p.allowed[place] == unset && !lower:
				return false, fmt.Errorf("%s: %q has no number for %s; run make words", list, p.text, places[place])
			case p.allowed[place] == unset, lower && now[place] < p.allowed[place]:
				p.allowed[place] = now[place]
			case now[place] > p.allowed[place]:
				ok = false
				fmt.Fprintf(out, "%q: %d times in %s, at most %d are allowed; better: %s\n", p.text, now[place], places[place], p.allowed[place], p.better)
			}
		}
	}
	if !ok {
		fmt.Fprintln(out, "make words FIND='phrase' prints each line; if what you wrote is among them, use the better words")
	}
	if lower {
		return ok, os.WriteFile(path, []byte(format(string(b), phrases)), 0o644)
	}
	return ok, nil
}

func parse(list string) ([]phrase, error) {
	var phrases []phrase
	for n, line := range strings.Split(list, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 3+len(places) {
			return nil, fmt.Errorf("line %d has %d columns, want %d, separated by tabs", n+1, len(fields), 3+len(places))
		}
		p := phrase{text: fields[0], except: fields[1], better: fields[2]}
		var err error
		if p.match, err = compile(p.text); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		if p.except != "-" {
			if p.not, err = compile(p.except); err != nil {
				return nil, fmt.Errorf("line %d: %w", n+1, err)
			}
		}
		for i, s := range fields[3:] {
			p.allowed[i] = unset
			if s != "-" {
				if p.allowed[i], err = strconv.Atoi(s); err != nil || p.allowed[i] < 0 {
					return nil, fmt.Errorf("line %d: the number for %s is %q", n+1, places[i], s)
				}
			}
		}
		phrases = append(phrases, p)
	}
	return phrases, nil
}

func compile(text string) (*regexp.Regexp, error) {
	return regexp.Compile(`(?i)\b(?:` + strings.ReplaceAll(text, " ", `\s+`) + `)\b`)
}

// format returns the list with the numbers of the phrases; comments and order stay.
func format(list string, phrases []phrase) string {
	lines := strings.Split(list, "\n")
	next := 0
	for i, line := range lines {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p := &phrases[next]
		next++
		fields := []string{p.text, p.except, p.better}
		for _, n := range p.allowed {
			fields = append(fields, strconv.Itoa(n))
		}
		lines[i] = strings.Join(fields, "\t")
	}
	return strings.Join(lines, "\n")
}

// text is one comment, string or page.
type text struct {
	file  string
	line  int
	place int
	text  string
}

func (p *phrase) count(texts []text) (n [len(places)]int) {
	for i := range texts {
		n[texts[i].place] += p.in(texts[i].text)
	}
	return n
}

func (p *phrase) in(s string) int {
	n := len(p.match.FindAllStringIndex(s, -1))
	if n > 0 && p.not != nil {
		n -= len(p.not.FindAllStringIndex(s, -1))
	}
	return max(0, n)
}

func where(phrases []phrase, texts []text, find string, out io.Writer) error {
	i := slices.IndexFunc(phrases, func(p phrase) bool { return p.text == find || p.match.MatchString(find) })
	if i < 0 {
		return fmt.Errorf("no phrase of the list matches %q", find)
	}
	slices.SortStableFunc(texts, func(a, b text) int { return cmp.Or(a.place-b.place, strings.Compare(a.file, b.file), a.line-b.line) })
	found := 0
	for _, t := range texts {
		if n := phrases[i].in(t.text); n > 0 {
			for _, m := range phrases[i].match.FindAllStringIndex(t.text, -1) {
				found++
				from := strings.LastIndexByte(t.text[:m[0]], '\n') + 1
				line, _, _ := strings.Cut(t.text[from:], "\n")
				fmt.Fprintf(out, "%s:%d: %s: %s\n", t.file, t.line+strings.Count(t.text[:m[0]], "\n"), places[t.place], strings.TrimSpace(line))
			}
		}
	}
	if found == 0 {
		fmt.Fprintf(out, "%q is nowhere\n", phrases[i].text)
	}
	return nil
}

// gather reads the texts of the files that git tracks.
func gather(root string) ([]text, error) {
	var texts []text
	err := tracked.Each(root, func(name string, b []byte) {
		switch {
		case strings.Contains(name, "testdata/"), strings.HasPrefix(name, "tools/cmd/words/"), slices.Contains(tracked.GeneratedPages, name):
		case strings.HasSuffix(name, ".md"):
			texts = append(texts, text{name, 1, pages, string(b)})
		case !tracked.Generated(b):
			texts = append(texts, textsOf(name, b)...)
		}
	}, "*.go", "*.md")
	return texts, err
}

// textsOf returns the comments and strings of a Go file. Comments on successive lines are one text.
func textsOf(name string, src []byte) []text {
	inTests := strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "e2e/")
	fset := token.NewFileSet()
	file := fset.AddFile(name, -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	var texts []text
	lastComment := -1 // the line on which the last comment began
	for {
		pos, tok, lit := s.Scan()
		line := file.Line(pos)
		switch {
		case tok == token.EOF:
			return texts
		case tok != token.COMMENT && tok != token.STRING, strings.HasPrefix(lit, "//mutant:"): // names and code
			continue
		}
		place := stringLiterals
		if tok == token.COMMENT {
			place = comments
			lit = strings.TrimPrefix(lit, "//")
		}
		if inTests {
			place = tests
		}
		if tok == token.COMMENT && lastComment == line-1 && bytes.HasPrefix(src[file.Offset(pos):], []byte("//")) {
			last := &texts[len(texts)-1]
			last.text += "\n" + lit
		} else {
			texts = append(texts, text{name, line, place, lit})
		}
		if tok == token.COMMENT {
			lastComment = line
		} else {
			lastComment = -1
		}
	}
}
