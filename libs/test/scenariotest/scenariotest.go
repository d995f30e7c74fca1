// Package scenariotest runs text scenarios of a core: the files testdata/*.txt of
// the package that is tested. A file has blocks with an empty line between them;
// a block has commands, a line of dashes, and the trace that the commands give:
//
//	# A remark.
//	register r1
//	----
//	ack r1
//
// The tested package defines the commands and the trace. With the flag -rewrite the
// traces are written into the files instead of compared.
//
// # What this does not do
//
// It is not github.com/cockroachdb/datadriven: there a block is one directive with parsed
// arguments, which cannot contain a colon as T:4 in "register r1 T:4" does. Here a block
// is any number of commands, and [Differing] compares without failing the test, for
// mutants.
package scenariotest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the traces of the scenarios in testdata; commit only a change that you understand")

// Play runs the commands of a block, without remarks, and returns their trace. It
// belongs to one scenario.
type Play func(commands []string) (trace []string)

// Run runs each scenario as a subtest, and fails those whose traces differ.
func Run(t *testing.T, start func(*testing.T) Play) {
	t.Helper()
	for _, file := range files(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want := read(t, file)
			got := play(want, start(t))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != want {
				t.Errorf("%s differs in %s", file, firstDifference(want, got))
			}
		})
	}
}

// Differing returns how many scenarios have another trace, or panic.
func Differing(t *testing.T, start func(*testing.T) Play) (n int) {
	t.Helper()
	for _, file := range files(t) {
		want := read(t, file)
		func() {
			defer func() {
				if recover() != nil {
					n++
				}
			}()
			if play(want, start(t)) != want {
				n++
			}
		}()
	}
	return n
}

func files(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// play returns the text with the traces that its commands give.
func play(text string, play Play) string {
	var b strings.Builder
	for i, block := range strings.Split(strings.TrimRight(text, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString("\n")
		}
		head, _, _ := strings.Cut(block, "\n----")
		b.WriteString(head + "\n")
		var commands []string
		for line := range strings.Lines(head) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				commands = append(commands, line)
			}
		}
		if len(commands) == 0 {
			continue // remarks alone
		}
		b.WriteString("----\n")
		for _, line := range play(commands) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range g {
		if i >= len(w) || w[i] != g[i] {
			old := "(end)"
			if i < len(w) {
				old = w[i]
			}
			return fmt.Sprintf("line %d\nwant %s\ngot  %s", i+1, old, strings.Join(g[i:min(len(g), i+10)], "\n     "))
		}
	}
	return "its end: the trace is shorter"
}
