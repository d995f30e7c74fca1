//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// fileLock is an advisory lock on a file of its own. The kernel grants it to the waiting handles about
// in their order; a handle that asks at the moment of a release may overtake them. It releases the
// lock when the holder dies. A process that is stopped (SIGSTOP) while it waits is not granted the lock until
// it continues. Two handles exclude each other, also in one process. A handle is used by one caller at a time.
type fileLock struct {
	file *os.File

	mu      sync.Mutex
	waiting chan error // of the goroutine that waits in the kernel; nil: there is none
	wanted  bool       // a caller receives from waiting
}

func openLock(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &fileLock{file: f}, nil
}

// lock waits for the lock until ctx ends. A call of the system cannot be ended, so a goroutine
// waits in it, and continues waiting when ctx has ended: there is at most one for each handle, and
// the next call of lock waits for that one.
func (l *fileLock) lock(ctx context.Context) error {
	l.mu.Lock()
	if l.waiting == nil {
		err := l.flock(syscall.LOCK_EX | syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			l.mu.Unlock()
			return err
		}
		l.waiting = make(chan error, 1)
		go l.wait(l.waiting)
	}
	got := l.waiting
	l.wanted = true
	l.mu.Unlock()
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wanted = false
	select {
	case err := <-got: // the lock came at the same time
		if err == nil {
			l.unlock()
		}
	default:
	}
	return ctx.Err()
}

// wait waits in the kernel. If no caller wants the lock any more, it is released at once.
func (l *fileLock) wait(got chan<- error) {
	err := l.flock(syscall.LOCK_EX)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = nil
	if l.wanted {
		l.wanted = false
		got <- err
	} else if err == nil {
		l.unlock()
	}
}

// waits reports whether a goroutine still waits in the kernel.
func (l *fileLock) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting != nil
}

func (l *fileLock) flock(how int) error {
	conn, err := l.file.SyscallConn()
	if err != nil {
		return err
	}
	// The file stays open for as long as this call lasts, even if it is closed meanwhile.
	controlled := conn.Control(func(fd uintptr) {
		for {
			if err = syscall.Flock(int(fd), how); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	})
	return errors.Join(lockError(l.file.Name(), err), controlled)
}

// lockError is the error of a call of flock, with what to do about it.
func lockError(path string, err error) error {
	if err == nil || errors.Is(err, syscall.EWOULDBLOCK) {
		return err
	}
	failed := &os.PathError{Op: "flock", Path: path, Err: err}
	for _, none := range []error{syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOLCK} {
		if errors.Is(err, none) {
			return fmt.Errorf("%w: this file system has no locks of files; put the journal on a local disk, or into PostgreSQL", failed)
		}
	}
	return failed
}

// unlock lets the next one have it.
func (l *fileLock) unlock() { _ = l.flock(syscall.LOCK_UN) }

func (l *fileLock) close() error { return l.file.Close() }
