//go:build unix

package link

import (
	"net"
	"syscall"

	"github.com/roost-cluster/roost/libs/conn"
)

// direct writes to a connection without waiting, or waits only until the first bytes
// are taken. It must be used by one goroutine at a time.
type direct struct {
	raw syscall.RawConn
	// Made once, so that a write allocates nothing.
	try, wait func(fd uintptr) (done bool)
	buf       []byte
	n         int
	err       error
}

// newDirect returns nil if nc is not a plain TCP connection, for example if it is a
// tls.Conn or a wrapper that must see all writes.
func newDirect(nc net.Conn) *direct {
	tcp := conn.Plain(nc)
	if tcp == nil {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	d := &direct{raw: raw}
	d.try = func(fd uintptr) bool {
		d.n, d.err = conn.Write(fd, d.buf)
		return true
	}
	d.wait = func(fd uintptr) bool {
		d.n, d.err = conn.Write(fd, d.buf)
		return d.err != syscall.EAGAIN
	}
	return d
}

// write writes what the connection takes at once, which may be nothing.
func (d *direct) write(b []byte) (n int, err error) { return d.do(b, d.try) }

// writeSome writes what the connection takes as soon as it takes anything.
func (d *direct) writeSome(b []byte) (n int, err error) { return d.do(b, d.wait) }

func (d *direct) do(b []byte, call func(fd uintptr) bool) (n int, err error) {
	d.buf = b
	err = d.raw.Write(call)
	d.buf = nil
	switch {
	case err != nil:
		return 0, err
	case d.err == syscall.EAGAIN:
		return 0, nil
	case d.err != nil:
		return 0, d.err
	}
	return d.n, nil
}
