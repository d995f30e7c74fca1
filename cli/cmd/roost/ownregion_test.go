package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOwnRegion does what docs/own-region.md says, with its very text.
func TestOwnRegion(t *testing.T) {
	binaries(t)
	doc := readFile(t, "../../docs/own-region.md")
	files, consoles := fences(doc)
	inReadme, _ := fences(readFile(t, filepath.Join(root, "README.md")))
	if inReadme["go.mod"] != files["go.mod"] {
		t.Error("README.md shows another go.mod than docs/own-region.md")
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range files {
		content = strings.ReplaceAll(content, "../roost/", checkout+"/")
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// What go mod tidy would write needs the network; the sums of the region,
	// whose requirements are all of the module's, spare that.
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), []byte(readFile(t, filepath.Join(checkout, "services/region/go.sum"))), 0o644); err != nil {
		t.Fatal(err)
	}
	if len(consoles) != 2 {
		t.Fatalf("the document has %d consoles, not one to build and one to call", len(consoles))
	}
	steps := consoleSteps(consoles[0])
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod "+os.Getenv("GOFLAGS"))
	dev := ""
	for _, step := range steps {
		switch {
		case step.command == "go mod tidy":
		case strings.HasPrefix(step.command, "go "):
			shell(t, dir, step.command)
		default:
			dev = step.command
		}
	}
	if dev != "../roost/bin/roost dev --region ./bin/shop-region" {
		t.Fatalf("the document starts %q, which this test does not", dev)
	}

	d := startDev(t, t.TempDir(), "--region", filepath.Join(dir, "bin/shop-region"), "--regions", "2", "--gateways", "1")
	if len(d.Types) != 1 || d.Types[0] != "Cart" {
		t.Errorf("types %v", d.Types)
	}
	for _, step := range consoleSteps(consoles[1]) {
		// The ports are others, to disturb nobody; and the gateway may take its time
		// on a busy machine.
		command := strings.ReplaceAll(step.command, "localhost:8080", d.API)
		command = strings.Replace(command, "curl ", "curl -s --retry 3 ", 1)
		if command == "bin/shop" {
			command += " " + d.API
		}
		if got := strings.TrimSpace(shell(t, dir, command)); got != step.prints {
			t.Errorf("%s prints %q, not %q as the document says", step.command, got, step.prints)
		}
	}
	if code := d.interrupt(1); code != 0 {
		t.Errorf("Ctrl-C: exit code %d\n%s", code, d.err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// shell runs a line of a document and returns what it prints.
func shell(t *testing.T, dir, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = dir
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", command, err, out, problems.String())
	}
	return string(out)
}

// fences finds the fenced blocks of a document: files by the name behind the
// fence, and consoles in their order.
func fences(doc string) (files map[string]string, consoles []string) {
	files = map[string]string{}
	for i, part := range strings.Split(doc, "```") {
		name, content, ok := strings.Cut(part, "\n")
		switch {
		case !ok || i%2 == 0 || name == "":
		case name == "console":
			consoles = append(consoles, content)
		default:
			files[name] = content
		}
	}
	return files, consoles
}

// A step is a command of a console, and what the document says that it prints.
type step struct{ command, prints string }

func consoleSteps(console string) []step {
	var steps []step
	for line := range strings.Lines(strings.TrimSpace(console)) {
		line = strings.TrimSpace(line)
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			steps = append(steps, step{command: command})
		} else if last := len(steps) - 1; last >= 0 {
			steps[last].prints = strings.TrimSpace(steps[last].prints + "\n" + line)
		}
	}
	return steps
}
