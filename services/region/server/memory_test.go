package server

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMemory: the limit comes from the control group, or is the memory of the machine.
func TestMemory(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, wantUsed, wantLimit uint64) {
		t.Helper()
		if used, limit := newMemory(root).read(); used != wantUsed || limit != wantLimit {
			t.Errorf("%s: %d of %d, want %d of %d", what, used, limit, wantUsed, wantLimit)
		}
	}
	check("nothing is known", 0, 0)
	put("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 7 kB\n")
	put("proc/self/status", "Name:\tx\nVmRSS:\t  300 kB\n")
	check("a machine", 300<<10, 1000<<10)
	put("proc/self/cgroup", "1:memory:/old\n0::/pod\n")
	put("sys/fs/cgroup/pod/memory.max", "max\n")
	check("a group without a limit", 300<<10, 1000<<10)
	put("sys/fs/cgroup/pod/memory.max", "500000\n")
	put("sys/fs/cgroup/pod/memory.stat", "anon 400000\nfile 90000\n")
	check("a group", 400000, 500000)
}
