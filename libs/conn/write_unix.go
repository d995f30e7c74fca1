//go:build unix && (!linux || race)

package conn

import "syscall"

// Write calls write(2) on a socket that does not block.
func Write(fd uintptr, b []byte) (n int, err error) {
	for {
		if n, err = syscall.Write(int(fd), b); err != syscall.EINTR {
			return n, err
		}
	}
}
