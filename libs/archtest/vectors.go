package archtest

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Vector is one case of the public test vectors.
type Vector struct {
	// Name is the ID, after ROOST_VECTORS/ if it is from the folder so named.
	Name     string
	ID, Kind string
	Raw      json.RawMessage
}

// Decode reads the case into something, unknown fields left out.
func (v *Vector) Decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(v.Raw, into); err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
}

// vectorsEnv names a folder with more vectors.
const vectorsEnv = "ROOST_VECTORS"

// Vectors lists the cases of testdata/file, and those of the file of the same
// name in the folder that ROOST_VECTORS names. That folder has to be there, but
// need not hold every file; which files were read is in the log of the test.
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
