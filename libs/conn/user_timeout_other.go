//go:build !linux

package conn

import (
	"syscall"
	"time"
)

// userTimeout does nothing: the option exists on Linux only, and keepalive remains.
func userTimeout(syscall.RawConn, time.Duration) error { return nil }
