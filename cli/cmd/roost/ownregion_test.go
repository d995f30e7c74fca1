package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/cli/internal/app"
)

// TestOwnRegion does what docs/using/own-region.md says for a checkout. Its output without one is
// tested by e2e/stranger.
func TestOwnRegion(t *testing.T) {
	bin := binaries(t)
	page := readFile(t, filepath.Join(root, "docs", "using", "own-region.md"))
	files, consoles := fences(page)
	if len(consoles) != 4 {
		t.Fatalf("the page has %d consoles, which this test does not know", len(consoles))
	}
	if !strings.Contains(readFile(t, filepath.Join(root, "README.md")), strings.Split(page, "```")[1]) {
		t.Error("README.md shows another way to your own region than docs/using/own-region.md")
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod "+os.Getenv("GOFLAGS"))
	for _, step := range consoleSteps(consoles[0]) {
		switch command := step.command; {
		case strings.HasPrefix(command, "roost/bin/roost new "):
			command = strings.Replace(command, "roost/bin/", bin+"/", 1)
			shell(t, dir, strings.Replace(command, "--checkout roost", "--checkout "+checkout, 1))
			dir = filepath.Join(dir, "shop")
		case command == "go mod tidy":
			// It would need the network; the sums of the region, whose requirements are
			// all of the module's, spare that.
			write(t, filepath.Join(dir, "go.sum"), readFile(t, filepath.Join(checkout, "services/region/go.sum")))
		case strings.Contains(command, "go "):
			shell(t, dir, command)
		}
	}
	for name, text := range files {
		if got := readFile(t, filepath.Join(dir, name)); got != text {
			t.Errorf("the page shows another %s than is written:\n%s", name, got)
		}
	}

	d := startDev(t, t.TempDir(), "--region", filepath.Join(dir, "bin/shop-region"), "--regions", "2", "--gateways", "1")
	if !slices.Equal(d.Types, []string{"Counter"}) {
		t.Errorf("types %v", d.Types)
	}
	for _, step := range consoleSteps(consoles[1]) {
		// The ports are others, to disturb no other process; and the gateway may take its time
		// on a busy machine.
		command := strings.ReplaceAll(step.command, "localhost:8080", d.API)
		command = strings.Replace(command, "curl ", "curl -s --retry 3 ", 1)
		command = strings.Replace(command, "bin/shop ", "bin/shop -gateway "+d.API+" ", 1)
		if got := strings.TrimSpace(shell(t, dir, command)); got != step.prints {
			t.Errorf("%s prints %q, not %q as the page says", step.command, got, step.prints)
		}
	}
	if code := d.interrupt(1); code != 0 {
		t.Errorf("Ctrl-C: exit code %d\n%s", code, d.err)
	}
}

func TestNewRegionOverwritesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	if code, out, errOut := roost(t, "new", "region", "shop", "--roost-version", "v0.1.0"); code != 0 || !strings.Contains(out, "go mod tidy") {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	write(t, "shop/go.mod", "mine")
	before := tree(t, "shop")
	code, _, errOut := roost(t, "new", "region", "shop", "--roost-version", "v0.1.0")
	if code != app.ExitFailed || !strings.Contains(errOut, "go.mod") {
		t.Errorf("a second time: exit code %d, %s", code, errOut)
	}
	if after := tree(t, "shop"); !slices.Equal(after, before) {
		t.Errorf("files before and after:\n%q\n%q", before, after)
	}
	write(t, "billing/notes.md", "a file of another name does not matter")
	if code, out, errOut := roost(t, "new", "region", "billing", "--roost-version", "v0.1.0", "--module", "github.com/you/billing", "-o", "json"); code != 0 ||
		!strings.Contains(out, `"module":"github.com/you/billing"`) || !strings.Contains(out, `"cmd/billing-region/main.go"`) {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	if text := readFile(t, "billing/cmd/billing-region/main.go"); !strings.Contains(text, `"github.com/you/billing"`) {
		t.Errorf("the region's main:\n%s", text)
	}
}

func TestNewRegionRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"my-shop"}, "small letters"},
		{[]string{"server"}, "small letters"},
		{[]string{"func"}, "small letters"},
		{[]string{"shop", "--module", "my shop"}, "--module"},
		{[]string{"shop", "--roost-version", "newest"}, "--roost-version"},
		{[]string{"shop", "--roost-version", "v0.1.0", "--checkout", "."}, "roost-version"},
		{[]string{"shop", "--checkout", "."}, "not a checkout"},
		{[]string{"shop"}, "--checkout"}, // a test has no version
		{nil, "one name"},
	} {
		code, _, errOut := roost(t, append([]string{"new", "region"}, tc.args...)...)
		if code != app.ExitUsage || !strings.Contains(errOut, tc.says) {
			t.Errorf("roost new region %q: exit code %d, %s", tc.args, code, errOut)
		}
	}
	checkout := t.TempDir()
	write(t, filepath.Join(checkout, "services/region/go.mod"), "module x\n")
	t.Chdir(checkout)
	if code, _, errOut := roost(t, "new", "region", "shop", "--checkout", "."); code != app.ExitUsage || !strings.Contains(errOut, "inside the checkout") {
		t.Errorf("inside the checkout: exit code %d, %s", code, errOut)
	}
	if files := tree(t, "."); len(files) != 1 {
		t.Errorf("files were written: %q", files)
	}
}

// tree lists the files below a directory with their contents.
func tree(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path+": "+readFile(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
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

// A step is a command of a console, and its output by the document.
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
