package archtest

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Vector is one case of the published test vectors.
type Vector struct {
	// Name is the ID; for a case from the folder that ROOST_VECTORS names,
	// "ROOST_VECTORS/" and the ID.
	Name     string
	ID, Kind string
	Raw      json.RawMessage
}

// Decode decodes the case into a value; unknown fields are ignored.
func (v *Vector) Decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(v.Raw, into); err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
}

// vectorsEnv names a folder with more vectors.
const vectorsEnv = "ROOST_VECTORS"

// Vectors returns the cases of testdata/file, and the cases of the file of the same name in the
// folder that ROOST_VECTORS names. That folder must exist, but need not hold every file; the test
// logs which files were read.
func Vectors(t *testing.T, file string) []Vector {
	t.Helper()
	all := readVectors(t, filepath.Join("testdata", file), "")
	dir := os.Getenv(vectorsEnv)
	if dir == "" {
		return all
	}
	if _, err := os.ReadDir(dir); err != nil {
		t.Fatalf("%s: %v", vectorsEnv, err)
	}
	more := filepath.Join(dir, file)
	if _, err := os.Stat(more); errors.Is(err, fs.ErrNotExist) {
		t.Logf("%s has no %s", vectorsEnv, file)
		return all
	}
	return append(all, readVectors(t, more, vectorsEnv+"/")...)
}

func readVectors(t *testing.T, path, prefix string) []Vector {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Cases []json.RawMessage }
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if len(doc.Cases) == 0 {
		t.Fatalf("%s has no cases", path)
	}
	var out []Vector
	for i, c := range doc.Cases {
		var head struct{ ID, Kind string }
		if err := json.Unmarshal(c, &head); err != nil || head.ID == "" || head.Kind == "" {
			t.Fatalf("%s: case %d has no id and kind: %v", path, i, err)
		}
		out = append(out, Vector{Name: prefix + head.ID, ID: head.ID, Kind: head.Kind, Raw: c})
	}
	t.Logf("%d cases of %s", len(out), path)
	return out
}
