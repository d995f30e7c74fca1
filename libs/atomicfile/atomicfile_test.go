package atomicfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/atomicfile"
)

// TestWrite: a file is replaced with its permissions, a link is not followed, and what cannot be written leaves nothing.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "file")
	if err := os.WriteFile(victim, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	for content, mode := range map[string]os.FileMode{"secret": 0o600, "public": 0o644} {
		if err := atomicfile.Write(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if info, statErr := os.Lstat(path); err != nil || statErr != nil || string(got) != content || info.Mode() != mode {
			t.Errorf("%q, %v, %v, %v", got, info.Mode(), err, statErr)
		}
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != "old" {
		t.Errorf("what a link leads to: %q, %v", got, err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(folder, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(folder, nil, 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("%v, %v", left, err)
	}
}
