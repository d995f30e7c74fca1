// Package tracked reads the files that git tracks, for the tools that measure the repository.
package tracked

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// GeneratedPages are written from code, where their words are counted.
var GeneratedPages = []string{"docs/running/settings.md", "docs/using/errors.md", "docs/inside/invariants.md"}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// Generated reports whether a Go file was generated.
func Generated(src []byte) bool { return generated.Match(src) }

// Each calls f with the name and the content of each tracked file that matches one of git's patterns; without
// patterns, of all files. It skips files that are deleted and whose deletion is not committed.
func Each(root string, f func(name string, content []byte), patterns ...string) error {
	cmd := exec.Command("git", append([]string{"ls-files", "-z", "--deduplicate", "--"}, patterns...)...)
	cmd.Dir = root
	list, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if name == "" { // there are none
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		f(name, b)
	}
	return nil
}
