package conn

import (
	"os"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h.
const tcpUserTimeout = 18

func userTimeout(c syscall.RawConn, d time.Duration) error {
	var err error
	if control := c.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt TCP_USER_TIMEOUT", syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds())))
	}); control != nil {
		return control
	}
	return err
}
