//go:build linux && !race

package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Wrap returns a connection like nc, and nc itself if it is not a TCP connection or a Unix stream of package net.
func Wrap(nc net.Conn) net.Conn {
	switch c := nc.(type) {
	case *net.TCPConn:
		if raw, err := c.SyscallConn(); err == nil {
			return &tcpConn{c, newHalf("read", syscall.SYS_READ, c, raw.Read), newHalf("write", syscall.SYS_WRITE, c, raw.Write)}
		}
	case *net.UnixConn:
		if raw, err := c.SyscallConn(); err == nil && c.LocalAddr().Network() == "unix" {
			return &unixConn{c, newHalf("read", syscall.SYS_READ, c, raw.Read), newHalf("write", syscall.SYS_WRITE, c, raw.Write)}
		}
	}
	return nc
}

// Write calls write(2) on a socket that does not block.
func Write(fd uintptr, b []byte) (n int, err error) { return call(syscall.SYS_WRITE, fd, b) }

func call(number, fd uintptr, b []byte) (n int, err error) {
	for {
		n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

type tcpConn struct {
	*net.TCPConn
	r, w *half
}

func (c *tcpConn) plain() *net.TCPConn { return c.TCPConn }

// Read implements [net.Conn].
func (c *tcpConn) Read(b []byte) (int, error) { return c.r.read(b) }

// Write implements [net.Conn].
func (c *tcpConn) Write(b []byte) (int, error) { return c.w.write(b) }

type unixConn struct {
	*net.UnixConn
	r, w *half
}

// Read implements [net.Conn].
func (c *unixConn) Read(b []byte) (int, error) { return c.r.read(b) }

// Write implements [net.Conn].
func (c *unixConn) Write(b []byte) (int, error) { return c.w.write(b) }

// half is one direction of a connection.
type half struct {
	name  string // of the system call
	nc    net.Conn
	await func(try func(fd uintptr) (done bool)) error // calls try, and again whenever the socket is ready, until it is done
	try   func(fd uintptr) (done bool)                 // made once, so that a call allocates nothing

	mu  sync.Mutex
	buf []byte
	n   int
	err error
}

func newHalf(name string, number uintptr, nc net.Conn, await func(func(fd uintptr) bool) error) *half {
	h := &half{name: name, nc: nc, await: await}
	h.try = func(fd uintptr) bool {
		h.n, h.err = call(number, fd, h.buf)
		return h.err != syscall.EAGAIN
	}
	return h
}

// call waits until the system gives or takes at least one byte.
func (h *half) call(b []byte) (int, error) {
	h.buf = b
	err := h.await(h.try)
	h.buf = nil
	if err != nil || h.err != nil {
		return 0, h.failed(err)
	}
	return h.n, nil
}

// failed returns the error that package net would return. await is the error that ended the wait, nil if the call has
// failed.
func (h *half) failed(await error) error {
	err := await
	var waiting *net.OpError
	switch {
	case await == nil:
		err = os.NewSyscallError(h.name, h.err)
	case errors.As(await, &waiting):
		err = waiting.Err
	}
	return &net.OpError{Op: h.name, Net: h.nc.LocalAddr().Network(), Source: h.nc.LocalAddr(), Addr: h.nc.RemoteAddr(), Err: err}
}

func (h *half) read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.call(b)
	if n == 0 && err == nil && len(b) > 0 {
		err = io.EOF
	}
	return n, err
}

func (h *half) write(b []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n < len(b) && err == nil {
		var some int
		some, err = h.call(b[n:])
		n += some
	}
	return n, err
}
