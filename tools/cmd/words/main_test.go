package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWords counts, refuses and lowers in a repository of three files.
func TestWords(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const head = "# a comment\n"
	write("a.go", "package a\n\n// It is how\n// many there are. There is no end, and it is no tick.\nvar x = \"Nobody knows\" // nobody\n")
	write("a_test.go", "package a\n\n// nobody\nvar y = `nobody`\n")
	write("p.md", "Nobody and somebody.\n")
	write("list.txt", head+"(is|are) how many\t-\tis the number of\t-\t-\t-\t-\nis no\tthere is no\tis not a\t-\t-\t-\t-\nnobody\t-\tno caller\t-\t-\t-\t-\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	check := func(lower, ok bool, want string) {
		t.Helper()
		var out bytes.Buffer
		got, err := run(root, "list.txt", lower, "", &out)
		text := out.String()
		if err != nil {
			text += err.Error()
		}
		if got != ok || !strings.Contains(text, want) {
			t.Errorf("%t %s, want %t and %q", got, text, ok, want)
		}
	}
	list := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(root, "list.txt")); err != nil || string(got) != head+want {
			t.Errorf("the list is %q (%v), want %q", got, err, want)
		}
	}
	check(false, false, "has no number for comments")
	check(true, true, "")
	list("(is|are) how many\t-\tis the number of\t1\t0\t0\t0\nis no\tthere is no\tis not a\t1\t0\t0\t0\nnobody\t-\tno caller\t1\t1\t2\t1\n")
	check(false, true, "")
	write("p.md", "Nobody, nobody.\n")
	check(false, false, `"nobody": 2 times in pages, at most 1 are allowed; better: no caller`)
	write("p.md", "Somebody.\n")
	write("a.go", "package a\n")
	check(true, true, "")
	list("(is|are) how many\t-\tis the number of\t0\t0\t0\t0\nis no\tthere is no\tis not a\t0\t0\t0\t0\nnobody\t-\tno caller\t0\t0\t2\t0\n")
	var out bytes.Buffer
	if _, err := run(root, "list.txt", false, "nobody", &out); err != nil || out.String() != "a_test.go:3: tests\na_test.go:4: tests\n" {
		t.Errorf("found %q (%v)", out.String(), err)
	}
	write("list.txt", "nobody\n")
	check(false, false, "line 1 has 1 columns, want 7")
}
