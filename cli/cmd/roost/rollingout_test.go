package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/libs/test/testbin"
)

// TestRollingOut does what docs/running/rolling-out.md says, with real processes. Every command
// prints what the page shows; what names a region may differ in numbers, addresses and the
// width of columns.
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
	_, consoles := fences(readFile(t, filepath.Join(root, "docs/running/rolling-out.md")))
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
				if strings.Contains(command, "journal check") { // 1: something cannot be read, as the page shows
					command += " || test $? = 1"
				}
				if d != nil {
					command = strings.ReplaceAll(command, "localhost:8080", d.API)
					command = strings.Replace(command, "curl ", "curl -s -H 'Roost-Timeout: 20s' ", 1)
					command = strings.Replace(command, "bin/shop ", "bin/shop -gateway "+d.API+" ", 1)
				}
				got := shell(t, dir, command)
				if exact := !strings.Contains(step.prints, "region-"); exact && stripped(got) != step.prints || normal(got) != normal(step.prints) {
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
	plurals   = strings.NewReplacer("shards", "shard") // how many a region has differs too
)

// stripped is a text without empty lines and the spaces around lines, as consoleSteps
// returns it.
func stripped(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// normal is a text without what differs from run to run.
func normal(text string) string {
	text = addresses.ReplaceAllString(plurals.Replace(strings.ReplaceAll(stripped(text), ", active", "")), "ADDRESS")
	return strings.TrimSpace(spaces.ReplaceAllString(numbers.ReplaceAllString(text, "N"), " "))
}
