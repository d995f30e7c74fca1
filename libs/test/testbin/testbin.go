//go:build unix

// Package testbin builds the repository's binaries for the tests that run them
// as processes. All tests share one build, in bin of the repository: the
// go command leaves a binary that is up to date as it is, so each is linked
// once, however many packages need it.
//
// # What this does not do
//
// It starts none of them, and needs the workspace: a module alone does not have the
// sources of the other modules.
package testbin

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var (
	mu    sync.Mutex
	built = map[string]result{} // by directory and package, of this process
)

type result struct {
	output string
	err    error
}

// Build builds the main packages, given by their directories in the repository such as
// "cli/cmd/roost", and returns the directory of the binaries. Each has the last part of its
// package's name. The directory has others, too.
func Build(tb testing.TB, packages ...string) (dir string) {
	tb.Helper()
	return buildIn(tb, "test", "", packages)
}

// BuildNext is Build for the programs of the next release, which does not exist: with the build tag nextformat they
// have a made-up format of the journal.
func BuildNext(tb testing.TB, packages ...string) (dir string) {
	tb.Helper()
	return buildIn(tb, "test-next", "nextformat", packages)
}

func buildIn(tb testing.TB, name, tags string, packages []string) (dir string) {
	tb.Helper()
	root, err := root()
	if err != nil {
		tb.Fatal(err)
	}
	dir = filepath.Join(root, "bin", name)
	mu.Lock()
	defer mu.Unlock()
	var missing []string
	for _, p := range packages {
		if _, ok := built[filepath.Join(name, p)]; !ok {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		output, err := build(root, dir, tags, missing)
		for _, p := range missing {
			built[filepath.Join(name, p)] = result{output, err}
		}
	}
	for _, p := range packages {
		if r := built[filepath.Join(name, p)]; r.err != nil {
			tb.Fatalf("go build: %v\n%s", r.err, r.output)
		}
	}
	return dir
}

// build runs the go command, one at a time: two of them would write the same
// file.
func build(root, dir, tags string, packages []string) (output string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	lock, err := os.Create(filepath.Join(dir, ".lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close() // and unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	// Debug information takes a third of the time of linking; traces do without.
	args := []string{"build", "-ldflags=-w", "-tags=" + tags, "-o", dir + string(filepath.Separator)}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	// Always the same build, with the Makefile's flags for compiling, whatever flags
	// the tests run with.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Alive reports whether a process lives. A zombie, which has ended but was not waited for yet, does
// not.
func Alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return runtime.GOOS != "linux"
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// root finds the repository, which the test runs somewhere in.
func root() (string, error) {
	for dir, err := os.Getwd(); ; dir = filepath.Dir(dir) {
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("there is no go.work above the test")
		}
	}
}
