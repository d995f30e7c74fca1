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
	doc, err := os.ReadFile("../../docs/own-region.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if fences(string(readme))["go.mod"] != fences(string(doc))["go.mod"] {
		t.Error("README.md shows another go.mod than docs/own-region.md")
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range fences(string(doc)) {
		if name == "console" {
			continue
		}
		content = strings.ReplaceAll(content, "../roost/", checkout+"/")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// What go mod tidy would write needs the network; the sums of the region,
	// whose requirements are all of the module's, spare that.
	sums, err := os.ReadFile(filepath.Join(checkout, "services/region/go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", "bin/shop-region", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}

	d := startDev(t, t.TempDir(), "--region", filepath.Join(dir, "bin/shop-region"), "--regions", "2", "--gateways", "1")
	if len(d.Types) != 1 || d.Types[0] != "Cart" {
		t.Errorf("types %v", d.Types)
	}
	if !strings.Contains(string(doc), `'{"item":"tea","count":2}' localhost:8080/v1/Cart/anna/Add`) {
		t.Error("the document shows another command than this test")
	}
	want := strings.TrimSpace(lastLine(fences(string(doc))["console"]))
	wantPost(t, d.API, "Cart/anna/Add", `{"item":"tea","count":2}`, want)
	if code := d.interrupt(1); code != 0 {
		t.Errorf("Ctrl-C: exit code %d\n%s", code, d.err)
	}
}

// fences finds the fenced blocks of a document by the word behind the fence;
// the last one of a word counts.
func fences(doc string) map[string]string {
	found := map[string]string{}
	for i, part := range strings.Split(doc, "```") {
		if name, content, ok := strings.Cut(part, "\n"); ok && i%2 == 1 {
			found[name] = content
		}
	}
	return found
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
