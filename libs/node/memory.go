package node

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryShare is the share of a container's memory that the Go runtime may use; the rest
// is for memory that it does not count.
const memoryShare = 0.9

// limitMemory sets the runtime's soft memory limit from the control group, as GOMEMLIMIT
// would, and returns it; 0 if it sets none.
func limitMemory(root string) int64 {
	if os.Getenv("GOMEMLIMIT") != "" {
		return 0
	}
	limit := groupLimit(root)
	if limit <= 0 {
		return 0
	}
	limit = int64(float64(limit) * memoryShare)
	debug.SetMemoryLimit(limit)
	return limit
}

// groupLimit returns the memory limit of this process's control group below root,
// normally "/": for version 2 with the parents' limits, otherwise for version 1. It is 0
// if there is none.
func groupLimit(root string) int64 {
	var lowest int64
	take := func(file string) {
		content, err := os.ReadFile(path.Join(root, file))
		if err != nil {
			return
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		// Version 1 writes "no limit" as a number of pages near the largest.
		if err == nil && limit > 0 && limit < math.MaxInt64>>1 && (lowest == 0 || limit < lowest) {
			lowest = limit
		}
	}
	groups, _ := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(groups)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		for ; ok && strings.HasPrefix(group, "/"); group = path.Dir(group) {
			take(path.Join("sys/fs/cgroup", group, "memory.max"))
			if group == "/" {
				break
			}
		}
	}
	if lowest == 0 {
		take("sys/fs/cgroup/memory/memory.limit_in_bytes")
	}
	return lowest
}
