package bench

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestLocks(t *testing.T) {
	dir := t.TempDir()
	whole, part, free := filepath.Join(dir, "whole"), filepath.Join(dir, "part"), filepath.Join(dir, "free")
	open := func(name string) uintptr {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f.Fd()
	}
	_ = open(free)
	if err := syscall.Flock(int(open(whole)), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	fd := open(part)
	if err := syscall.FcntlFlock(fd, syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK, Start: 120, Len: 1}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.FcntlFlock(fd, syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_RDLCK, Start: 123, Len: 1}); err != nil {
		t.Fatal(err)
	}
	got, err := locks(os.Getpid(), whole, part, free)
	if err != nil {
		t.Fatal(err)
	}
	want := "FLOCK 0-EOF of " + whole + "; POSIX 120-120 of " + part
	if strings.Join(got, "; ") != want {
		t.Errorf("locks: %q, want %q", got, want)
	}
	if got, err = locks(os.Getppid(), whole, part, free); err != nil || len(got) > 0 {
		t.Errorf("locks of another process: %q, %v", got, err)
	}
}
