package node

import "golang.org/x/sys/unix"

// Disk returns how many bytes of the disk of a file are free for this process, and how many it has; 0: not known.
func Disk(path string) (free, size uint64) {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil || s.Bsize <= 0 {
		return 0, 0
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize)
}
