package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// build builds this program, and returns the binary and what finds licences.
func build(t *testing.T) (file string, l *licences) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "sbom")
	if out, err := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	// The repository's licence is not in this module: any text that is allowed will do here.
	root := t.TempDir()
	// Only the go command knows which version the workspace selects, and so which directory the build has filled.
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "LICENSE"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "LICENSE"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, &licences{root: root, cache: strings.TrimSpace(string(cache)), known: map[string][]string{}}
}

// TestBill: the bill of a binary names its modules with their checksums and licences, and is the same each time.
func TestBill(t *testing.T) {
	file, l := build(t)
	text, err := l.bill(file)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.bill(file); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the bill differs the second time, %v", err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"github.com/CycloneDX/cyclonedx-go": "Apache-2.0", "golang.org/x/mod": "BSD-3-Clause", "std": "BSD-3-Clause", ours + "tools": "BSD-3-Clause"} {
		i := slices.IndexFunc(*bom.Components, func(c cdx.Component) bool { return c.Name == name })
		if i < 0 {
			t.Errorf("%s is not in the bill:\n%s", name, text)
			continue
		}
		c := (*bom.Components)[i]
		if c.Licenses == nil || len(*c.Licenses) != 1 || (*c.Licenses)[0].License.ID != want {
			t.Errorf("%s has other licences than %s:\n%s", name, want, text)
		}
		if external := strings.Contains(name, ".") && !strings.HasPrefix(name, ours); external != (c.Hashes != nil) {
			t.Errorf("%s has a checksum: %v", name, c.Hashes != nil)
		}
	}
	if d := *bom.Dependencies; len(d) != 1 || len(*d[0].Dependencies) != len(*bom.Components) {
		t.Errorf("the program does not depend on all its components: %+v", d)
	}
}

// TestLicences: a module without licence, with an unknown text, or with a licence that is not allowed is refused.
func TestLicences(t *testing.T) {
	const isc = "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted, provided that the above copyright notice and this permission notice appear in all copies.\n\nTHE SOFTWARE IS PROVIDED \"AS IS\" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.\n"
	const wtfpl = "DO WHAT THE FUCK YOU WANT TO PUBLIC LICENSE\nTERMS AND CONDITIONS FOR COPYING, DISTRIBUTION AND MODIFICATION\n\n0. You just DO WHAT THE FUCK YOU WANT TO.\n"
	for what, c := range map[string]struct {
		files map[string]string
		want  string // of the error; empty: it is allowed
	}{
		"allowed":               {map[string]string{"LICENSE.md": isc, "README": "x"}, ""},
		"nothing":               {map[string]string{"README": isc}, "no file of a licence"},
		"a text of its own":     {map[string]string{"LICENSE": "You may look at it."}, "not a known text"},
		"not allowed":           {map[string]string{"COPYING": wtfpl}, "is not allowed"},
		"one of two is unknown": {map[string]string{"LICENSE": isc, "LICENSE.other": wtfpl}, "is not allowed"},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		found, err := (&licences{known: map[string][]string{}}).of(dir)
		if c.want == "" && (err != nil || !slices.Equal(found, []string{"ISC"})) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, %v; want %q", what, found, err, c.want)
		}
	}
	if err := run(".", t.TempDir(), nil); err == nil {
		t.Error("no binary has a bill")
	}
	if err := run(".", t.TempDir(), []string{"main.go"}); err == nil {
		t.Error("a text has a bill")
	}
}
