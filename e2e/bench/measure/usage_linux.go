package measure

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit in which the kernel accounts for other processes.
const tick = 10 * time.Millisecond

// Usage returns the processor time that this process and others have used.
func Usage(others []int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	total := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	for _, pid := range others {
		total += UsageOf(pid)
	}
	return total
}

// UsageOf returns the processor time that a process has used.
func UsageOf(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may hold anything; utime and stime are the 12th
	// and 13th field after it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(string(fields[11]))
	system, _ := strconv.Atoi(string(fields[12]))
	return time.Duration(user+system) * tick
}

// Resident returns how many bytes of memory a process has.
func Resident(pid int) int64 { return statusOf(pid, "VmRSS:") }

// ResidentFiles returns how many of these are pages of files, such as the program's, which processes share.
func ResidentFiles(pid int) int64 { return statusOf(pid, "RssFile:") }

// statusOf returns a field of the status of a process that the kernel gives in KiB, in bytes.
func statusOf(pid int, field string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if kib, ok := bytes.CutPrefix(line, []byte(field)); ok {
			n, _ := strconv.ParseInt(string(bytes.Fields(kib)[0]), 10, 64)
			return n << 10
		}
	}
	return 0
}
