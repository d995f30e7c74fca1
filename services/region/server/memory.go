package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryUse reads how much memory this process uses and may use, in bytes, for the process after it: the kernel ends a
// process that needs more without a word. It works on Linux; elsewhere both are 0, which is unknown.
type memoryUse struct {
	root  string // of the file system
	group string // the directory of the control group; empty: none
	limit uint64
}

// newMemory finds the limit: the limit of the control group, or the memory of the machine.
func newMemory(root string) *memoryUse {
	m := &memoryUse{root: root}
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // without it there is no group
	for line := range strings.Lines(string(groups)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::") // version 2
		if !ok {
			continue
		}
		group := filepath.Join(root, "sys/fs/cgroup", path)
		if limit := number(filepath.Join(group, "memory.max")); limit > 0 {
			m.group, m.limit = group, limit
		}
	}
	if m.limit == 0 {
		m.limit = field(filepath.Join(root, "proc/meminfo"), "MemTotal:") << 10
	}
	return m
}

// read returns the memory use of the process or of its control group, whichever is larger. The group's memory
// for files does not count: the kernel takes that back.
func (m *memoryUse) read() (used, limit uint64) {
	if m.limit == 0 {
		return 0, 0
	}
	used = field(filepath.Join(m.root, "proc/self/status"), "VmRSS:") << 10
	if m.group != "" {
		used = max(used, field(filepath.Join(m.group, "memory.stat"), "anon"))
	}
	return used, m.limit
}

// number returns the number that is the content of a file; 0 if it is none, such as max.
func number(file string) uint64 {
	text, _ := os.ReadFile(file)
	n, _ := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return n
}

// field returns the number behind a name at the beginning of a line; 0: there is none.
func field(file, name string) uint64 {
	text, _ := os.ReadFile(file)
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == name {
			n, _ := strconv.ParseUint(string(f[1]), 10, 64)
			return n
		}
	}
	return 0
}
