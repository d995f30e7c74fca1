//go:build !linux

package dial

import (
	"syscall"
	"time"
)

// userTimeout is for Linux alone; keepalive has to do elsewhere.
func userTimeout(syscall.RawConn, time.Duration) error { return nil }
