//go:build unix

package cluster

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Lock claims a file for this process until it is unlocked or the process ends,
// however it ends. ErrLocked is wrapped if another process has it.
func Lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}
