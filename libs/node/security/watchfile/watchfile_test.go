//go:build unix

package watchfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPipe: a pipe in place of the file blocks no reader, and the old content stays.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said error
	f, err := Open("auth.api_keys", path, func(err error) { said = err }, func(b []byte) (string, error) { return string(b), nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() { got <- f.Get(time.Now().Add(time.Hour)) }()
	select {
	case content := <-got:
		if content != "old" || said == nil || !strings.Contains(said.Error(), "not a regular file") {
			t.Errorf("the content is %q, and the log says %v", content, said)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the pipe blocks")
	}
}
