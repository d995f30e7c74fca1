//go:build unix

package sqlite

import (
	"context"
	"errors"
	"os"
	"syscall"
)

// turn is the queue of the writers: an advisory lock on a file of its own. The
// kernel frees it when its holder dies.
type turn struct{ file *os.File }

func openTurn(path string) (*turn, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &turn{file: f}, nil
}

// take waits for the turn.
func (t *turn) take(ctx context.Context) error {
	for {
		err := syscall.Flock(int(t.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return &os.PathError{Op: "flock", Path: t.file.Name(), Err: err}
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// give lets the next one have the turn.
func (t *turn) give() { _ = syscall.Flock(int(t.file.Fd()), syscall.LOCK_UN) }

func (t *turn) close() error { return t.file.Close() }
