package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/testbin"
)

// TestRollingOut does what docs/rolling-out.md says, with real processes: every command
// prints what the page shows, but for numbers, addresses and the width of columns.
func TestRollingOut(t *testing.T) {
	binaries(t)
	bin := testbin.Build(t, "examples/shop/cmd/shop-region-v1", "examples/shop/cmd/shop-region-v2", "examples/shop/cmd/shop")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"shop-region-v1", "shop-region-v2", "shop", "roost", "coordinator", "gateway"} {
		if err := os.Symlink(filepath.Join(bin, name), filepath.Join(dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	_, consoles := fences(readFile(t, filepath.Join(root, "docs/rolling-out.md")))
	var d *devRun
	state := t.TempDir()
	for _, console := range consoles {
		for _, step := range consoleSteps(console) {
			switch command := step.command; {
			case command == "make shop":
			case strings.HasPrefix(command, "bin/roost dev --region bin/shop-region"):
				d = startDev(t, state, "--region", filepath.Join(dir, "bin/shop-region"), "--data", filepath.Join(dir, "shop-data"))
				t.Setenv("ROOST_DIR", state)
			default:
				if d != nil {
					command = strings.ReplaceAll(command, "localhost:8080", d.API)
					command = strings.Replace(command, "curl ", "curl -s --retry 3 ", 1)
					command = strings.Replace(command, "bin/shop ", "bin/shop -gateway "+d.API+" ", 1)
				}
				got := shell(t, dir, command)
				if exact := strings.HasPrefix(step.command, "bin/shop ") || strings.HasPrefix(step.command, "curl "); exact && strings.TrimSpace(got) != step.prints ||
					normal(got) != normal(step.prints) {
					t.Errorf("%s prints\n%s\nand the page says\n%s", step.command, got, step.prints)
				}
			}
		}
	}
	if code := d.interrupt(1); code != 0 {
		t.Errorf("Ctrl-C: exit code %d\n%s", code, d.err)
	}
}

var (
	addresses = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+:\d+`)
	numbers   = regexp.MustCompile(`\b\d+(\.\d+)?\b`)
	spaces    = regexp.MustCompile(` +`)
)

// normal is a text without what differs from run to run.
func normal(text string) string {
	text = addresses.ReplaceAllString(strings.ReplaceAll(text, ", active", ""), "ADDRESS")
	return strings.TrimSpace(spaces.ReplaceAllString(numbers.ReplaceAllString(text, "N"), " "))
}
