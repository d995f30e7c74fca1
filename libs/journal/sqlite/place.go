package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
)

// placeEvery is the least time between two looks at what is at the path: short, because
// what is committed until then is lost with the file that was replaced, and long compared
// with the microseconds that a look takes.
const placeEvery = time.Second

// place is the path of an open file. If the file is moved, removed or replaced, a process
// continues with the one that it opened, which no other process can find any more. The
// generation does not show that: a copy of a file has the generation of the file.
type place struct {
	path   string
	opened os.FileInfo
	since  time.Time    // when it was opened
	due    atomic.Int64 // the next look, as a time.Duration from since; 0: at once
}

// openPlace returns the place of the file at path, which is about to be opened. Its first
// check, after that, finds out whether the file was replaced in between.
func openPlace(path string) (*place, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &place{path: path, opened: info, since: time.Now()}, nil
}

// check returns an error if the file at the path is not the one that was opened. The error
// wraps ErrBroken and ErrReplaced. It looks at most once in placeEvery, until it finds that.
func (p *place) check() error {
	now, due := time.Since(p.since), p.due.Load()
	if int64(now) < due || !p.due.CompareAndSwap(due, int64(now+placeEvery)) {
		return nil
	}
	info, err := os.Stat(p.path)
	if err == nil && os.SameFile(info, p.opened) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	p.due.Store(0)
	return fmt.Errorf("%w: %w: the file at %s is not the one that this process has open; start this process again; if the file was put there by anything but \"roost journal restore\", stop all regions and coordinators first, and remove %s-wal and %s-shm unless they came with the file (docs/running/repair.md, \"An older copy over the file\")",
		journal.ErrBroken, journal.ErrReplaced, p.path, p.path, p.path)
}
