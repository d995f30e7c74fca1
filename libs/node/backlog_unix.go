//go:build unix

package node

import (
	"net"

	"golang.org/x/sys/unix"
)

// backlogKnown reports whether pending knows.
const backlogKnown = true

// pending reports whether a listener has connections that are not accepted yet.
func pending(l net.Listener) bool {
	t, ok := l.(*net.TCPListener)
	if !ok {
		return false
	}
	c, err := t.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = c.Control(func(fd uintptr) {
		n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	})
	return err == nil && n > 0
}
