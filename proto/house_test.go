package proto_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestHouse keeps this module free of anything written by hand, and of imports
// of ours other than its own. It cannot use the rules that the other modules
// share, since those modules stand on this one.
func TestHouse(t *testing.T) {
	const ours = "github.com/roost-cluster/roost/"
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || path == "house_test.go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.ImportsOnly)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			t.Errorf("%s is written by hand: generated code only", path)
		}
		for _, spec := range file.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if strings.HasPrefix(imported, ours) && !strings.HasPrefix(imported, ours+"proto/") {
				t.Errorf("%s imports %s: the wire stands on nothing of ours", path, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
