package link

import (
	"net"
	"syscall"
	"unsafe"

	"github.com/roost-cluster/roost/libs/conn"
)

// outQueue returns how many written bytes the other side has not acknowledged, 0 if
// that is not known. While a write is blocked nothing is added, so any change is
// progress. The write itself says too little: the system unblocks it only when much
// has been acknowledged, which can take minutes with a slow reader.
func outQueue(nc net.Conn) int {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	tcp := conn.Plain(nc)
	if tcp == nil {
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
