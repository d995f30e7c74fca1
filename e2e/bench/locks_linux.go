package bench

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// locks returns the exclusive locks that a process holds on some files, as the kernel
// lists them.
func locks(pid int, files ...string) ([]string, error) {
	names := map[uint64]string{}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		names[info.Sys().(*syscall.Stat_t).Ino] = file
	}
	list, err := os.Open("/proc/locks")
	if err != nil {
		return nil, err
	}
	defer list.Close()
	var held []string
	for lines := bufio.NewScanner(list); lines.Scan(); {
		// 1: POSIX  ADVISORY  WRITE 4711 fe:01:131077 120 120
		words := strings.Fields(lines.Text())
		if len(words) != 8 || words[3] != "WRITE" || words[4] != strconv.Itoa(pid) {
			continue // not this process, or it only waits for the lock
		}
		inode, err := strconv.ParseUint(words[5][strings.LastIndexByte(words[5], ':')+1:], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/locks: %q: %w", lines.Text(), err)
		}
		if file, ok := names[inode]; ok {
			held = append(held, fmt.Sprintf("%s %s of %s", words[1], strings.Join(words[6:], "-"), file))
		}
	}
	slices.Sort(held)
	return held, nil
}
