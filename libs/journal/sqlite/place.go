package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
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
	logs   []openedFileInfo // the log and its index
	since  time.Time        // when it was opened
	due    atomic.Int64     // the next look, as a time.Duration from since; 0: at once
}

// openedFileInfo is a file that was at path when it was opened.
type openedFileInfo struct {
	path string
	os.FileInfo
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

// openLog adds the log and its index, which SQLite has opened. It removes them only when the last process closes them.
// file is the path without symbolic links, as SQLite names it.
func (p *place) openLog(file string) error {
	for _, suffix := range []string{logSuffix, sharedSuffix} {
		info, err := os.Stat(file + suffix)
		if err != nil {
			return err
		}
		p.logs = append(p.logs, openedFileInfo{file + suffix, info})
	}
	return nil
}

// lostLog returns an error if the log or its index is not at its path any more. Without that, this process would write
// on to a log that no other process can find, and that is gone when this one is killed. The error wraps ErrBroken and
// ErrReplaced. other: there is another file in its place, so other processes may use the main file with that.
func (p *place) lostLog() (other bool, err error) {
	for _, l := range p.logs {
		info, missing := os.Stat(l.path)
		if missing == nil && os.SameFile(info, l.FileInfo) || missing != nil && !errors.Is(missing, fs.ErrNotExist) {
			continue
		}
		other = other || missing == nil
		if err == nil { //mutant:false log-removed
			err = fmt.Errorf("%w: %w: %s was removed or replaced while this process has it open; processes copy what is in it into %s, and end; end those that remain, without SIGKILL, and start again (docs/running/repair.md, \"A removed log\")",
				journal.ErrBroken, journal.ErrReplaced, l.path, p.path)
		}
	}
	return other, err
}

// otherLogWritten reports whether other processes have written to another log at the path of the log.
func (p *place) otherLogWritten() bool {
	for _, l := range p.logs {
		if info, err := os.Stat(l.path); err == nil && strings.HasSuffix(l.path, logSuffix) && info.Size() > 0 && !os.SameFile(info, l.FileInfo) {
			return true
		}
	}
	return false
}

// check returns an error if the file at the path is not the one that was opened, or its log is not. The error
// wraps ErrBroken and ErrReplaced. It looks at most once in placeEvery, until it finds that.
func (p *place) check() error {
	now, due := time.Since(p.since), p.due.Load()
	if int64(now) < due || !p.due.CompareAndSwap(due, int64(now+placeEvery)) {
		return nil
	}
	err := p.mainReplaced()
	if err == nil {
		_, err = p.lostLog()
	}
	if err != nil {
		p.due.Store(0)
	}
	return err
}

// mainReplaced is check for the main file, whether it is due or not.
func (p *place) mainReplaced() error {
	info, err := os.Stat(p.path)
	if err == nil && os.SameFile(info, p.opened) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%w: %w: the file at %s is not the one that this process has open; start this process again; if the file was put there by anything but \"roost journal restore\", stop all regions and coordinators first, and remove %s-wal and %s-shm unless they came with the file (docs/running/repair.md, \"An older copy over the file\")",
		journal.ErrBroken, journal.ErrReplaced, p.path, p.path, p.path)
}
