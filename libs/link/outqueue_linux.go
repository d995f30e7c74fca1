package link

import (
	"net"
	"syscall"
	"unsafe"
)

// outQueue is how many bytes of what was written the other side has not
// acknowledged, 0 if that is not known. While a write waits nothing is added, so
// that any change is progress: the system lets a write go on only when much has
// been taken, which a slow reader may need minutes for.
func outQueue(nc net.Conn) int {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	var n int32
	_ = raw.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&n)))
	})
	return int(n)
}
