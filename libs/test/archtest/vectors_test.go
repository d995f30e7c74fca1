package archtest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestVectors: cases of both files run, each told apart from the other.
func TestVectors(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("testdata/x.json", `{"cases": [{"id": "x-001", "kind": "sum", "a": 1}]}`)
	write("testdata/y.json", `{"cases": [{"id": "y-001", "kind": "sum"}]}`)
	write("more/x.json", `{"cases": [{"id": "x-001", "kind": "sum", "a": 2}, {"id": "x-002", "kind": "product"}]}`)
	check := func(file string, names ...string) {
		t.Helper()
		got := Vectors(t, file)
		if len(got) != len(names) {
			t.Fatalf("%s: %v, want %v", file, got, names)
		}
		for i, v := range got {
			if v.Name != names[i] {
				t.Errorf("%s: case %d is %s, want %s", file, i, v.Name, names[i])
			}
		}
	}
	t.Setenv("ROOST_VECTORS", "")
	check("x.json", "x-001")
	t.Setenv("ROOST_VECTORS", filepath.Join(dir, "more"))
	check("x.json", "x-001", "ROOST_VECTORS/x-001", "ROOST_VECTORS/x-002")
	check("y.json", "y-001") // such a folder need not hold every file
	var v struct{ A int }
	if got := Vectors(t, "x.json")[1]; got.Kind != "sum" || got.ID != "x-001" {
		t.Errorf("the case is %+v", got)
	} else if got.Decode(t, &v); v.A != 2 {
		t.Errorf("the case of the folder says %d", v.A)
	}
}
