package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// group is a control group with a memory limit, of version 1 or 2.
type group struct{ dir, limit string }

// newGroup makes a control group for a test. It returns nil if that is not possible here.
func newGroup(t *testing.T, limit int64) *group {
	for _, g := range []group{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "memory.max"},
	} {
		g.dir = filepath.Join(g.dir, fmt.Sprintf("roost-test-%d", os.Getpid()))
		if os.Mkdir(g.dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(g.dir) })
		if os.WriteFile(filepath.Join(g.dir, g.limit), []byte(strconv.FormatInt(limit, 10)), 0o644) == nil {
			return &g
		}
	}
	return nil
}

// script returns a script that runs a program inside the group.
func (g *group) script(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	text := fmt.Sprintf("#!/bin/sh\necho $$ > '%s/cgroup.procs' && exec '%s' \"$@\"\n", g.dir, program)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// holds reports whether a process is in the group.
func (g *group) holds(pid int) bool {
	raw, _ := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	for line := range strings.Lines(string(raw)) {
		if strings.TrimSpace(line) == strconv.Itoa(pid) {
			return true
		}
	}
	return false
}

// processorTime returns the processor time that a process has used, in the ticks of the kernel, 100 per second.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name in parentheses may hold anything
	var ticks int
	for _, f := range fields[11:13] { // in user mode, and in the kernel
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("the processor time of %d: %s", pid, stat)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// resident returns the most memory that a process has had resident, in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("process %d has no VmHWM", pid)
	return 0
}
