//go:build unix

package testbin

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BuildRevision builds main packages as they were in a revision of the repository, in a
// copy of that revision under bin/revisions, and returns the directory of the binaries, as
// [Build] does. The test fails if the repository's history does not have the revision.
func BuildRevision(tb testing.TB, revision string, packages ...string) (dir string) {
	tb.Helper()
	root, err := root()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := exec.Command("git", "-C", root, "rev-parse", "--verify", revision+"^{commit}").CombinedOutput()
	if err != nil {
		tb.Fatalf("the history here has no revision %s (a shallow clone has only the newest ones): %s", revision, bytes.TrimSpace(out))
	}
	commit := strings.TrimSpace(string(out))
	source := filepath.Join(root, "bin", "revisions", commit)
	if err := checkOut(root, commit, source); err != nil {
		tb.Fatal(err)
	}
	dir = filepath.Join(source, "bin", "test")
	if output, err := build(source, dir, packages); err != nil {
		tb.Fatalf("go build of %s: %v\n%s", revision, err, output)
	}
	return dir
}

// checkOut copies the files of a commit to a directory, if they are not there.
func checkOut(root, commit, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
		return nil
	}
	unfinished := dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.MkdirAll(unfinished, 0o777); err != nil {
		return err
	}
	archive := exec.Command("git", "-C", root, "archive", "--format=tar", commit)
	extract := exec.Command("tar", "-x", "-C", unfinished)
	var problems bytes.Buffer
	archive.Stderr, extract.Stderr = &problems, &problems
	pipe, err := archive.StdoutPipe()
	if err != nil {
		return err
	}
	extract.Stdin = pipe
	if err := extract.Start(); err != nil {
		return err
	}
	if err := archive.Run(); err != nil {
		return fmt.Errorf("git archive %s: %w: %s", commit, err, problems.Bytes())
	}
	if err := extract.Wait(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, problems.Bytes())
	}
	return os.Rename(unfinished, dir)
}
