package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestPlantedLinks: in a directory that another user may write to, a link with the name of a file that is about to be
// written leads nowhere: the state has the token of the control.
func TestPlantedLinks(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	file := filepath.Join(dir, "cluster.json")
	for _, name := range []string{file, file + ".new"} {
		if err := os.Symlink(victim, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&State{}).write(file); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(victim); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file elsewhere has %q, %v", content, err)
	}
	if info, err := os.Lstat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the state is %v, %v", info.Mode(), err)
	}
}
