//go:build unix

package sqlite

import (
	"context"
	"errors"
	"os"
	"syscall"
)

// writeQueue admits one waiting writer at a time: it is an advisory lock on a file of
// its own, which the kernel releases when its holder dies.
type writeQueue struct{ file *os.File }

func openWriteQueue(path string) (*writeQueue, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &writeQueue{file: f}, nil
}

// lock waits for the lock.
func (q *writeQueue) lock(ctx context.Context) error {
	for {
		err := syscall.Flock(int(q.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return &os.PathError{Op: "flock", Path: q.file.Name(), Err: err}
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// unlock lets the next writer have it.
func (q *writeQueue) unlock() { _ = syscall.Flock(int(q.file.Fd()), syscall.LOCK_UN) }

func (q *writeQueue) close() error { return q.file.Close() }
