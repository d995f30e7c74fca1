package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"time"
	"unsafe"

	lib "modernc.org/sqlite/lib"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// markSuffix is appended to the path of the main file for the file with the highest marks.
	markSuffix = "-mark"
	// markEvery is the least time between two commits of a process that raise the mark: what was written
	// for less than this time after a copy was made may be lost unnoticed when the copy is put back. Each raise
	// writes one page more to the log, and syncs nothing that the commit does not sync.
	markEvery = time.Second
	// userVersion is where the main file has the mark: SQLite gives this field to applications.
	userVersion = 60
)

// mark is a number that only rises, as it was found in three places: in the journal as transactions see it,
// in the main file alone, and, with the highest of both that were ever seen, in a file of its own. A copy
// that is put back over the main file, over its log, or over both takes the mark back.
type mark struct {
	Generation sharding.Generation
	Log        uint32 // as transactions see it, in the log or in the main file
	Main       uint32 // in the main file alone
	// Older: an older file was found here. It stays refused: SQLite copies the log into the main file
	// when it is closed, and hides the difference. 0 or 1.
	Older int
}

// markForm has one length, and a checksum behind it, because a reader may see half of what another process writes.
const markForm = "generation %016x log %010d main %010d older %d "

// errOlder is why a journal is refused that an older copy was put into.
var errOlder = errors.New("it is older than what was already acknowledged: a copy was put over the file or its log")

// allows returns an error if what was found in a journal is older than the highest marks say.
func (highest mark) allows(found mark) error {
	switch {
	case highest == mark{} || mutant.On("journal-mark"):
		return nil // the file of marks is new
	case highest.Older > 0, highest.Generation != found.Generation:
		return errOlder
	case found.Log < highest.Log:
		return fmt.Errorf("%w (its mark is %d, and was %d)", errOlder, found.Log, highest.Log)
	case found.Main < highest.Main:
		return fmt.Errorf("%w (the mark of the main file without the log is %d, and was %d)", errOlder, found.Main, highest.Main)
	}
	return nil
}

// raised returns the highest marks after others were seen.
func (highest mark) raised(seen mark) mark {
	return mark{Generation: seen.Generation, Log: max(highest.Log, seen.Log), Main: max(highest.Main, seen.Main), Older: max(highest.Older, seen.Older)}
}

// marks keeps the highest marks in their file, for one handle. The file is not synced: after a power cut
// it may have lower marks, which refuse less. For the same reason it is no error if it cannot be read or
// written; what it then costs is that an older copy may go unnoticed.
type marks struct {
	path string // of the main file
	file *os.File
	// Of transactions alone:
	look, raise time.Time // the next of each
	log         uint32    // after the last look
}

func openMarks(path string) (*marks, error) {
	f, err := os.OpenFile(path+markSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := ownLike(path+markSuffix, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &marks{path: path, file: f}, nil
}

// read returns the highest marks, zero ones if the file is new or was not written completely.
func (m *marks) read() mark {
	for range 3 { // another process may be writing
		var form [128]byte
		n, _ := m.file.ReadAt(form[:], 0)
		text, sum, _ := strings.Cut(string(form[:n]), "crc ")
		var highest mark
		if _, err := fmt.Sscanf(text, markForm, &highest.Generation, &highest.Log, &highest.Main, &highest.Older); err == nil && sum == markSum(text) {
			return highest
		}
	}
	return mark{}
}

func (m *marks) write(highest mark) {
	text := fmt.Sprintf(markForm, uint64(highest.Generation), highest.Log, highest.Main, highest.Older)
	_, _ = m.file.WriteAt([]byte(text+"crc "+markSum(text)), 0)
}

func markSum(text string) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum([]byte(text), castagnoli))
}

// check compares the journal with the highest marks, and raises those. found is called after they were
// read, because others may raise them meanwhile. Errors wrap ErrReplaced if the journal is older.
func (m *marks) check(found func() (mark, error)) (seen mark, err error) {
	highest := m.read()
	if seen, err = found(); err != nil {
		return seen, err
	}
	if err = highest.allows(seen); err != nil {
		highest.Older = 1
		m.write(highest)
		_ = m.file.Sync()
		return seen, fmt.Errorf("%w: %w; stop all regions and coordinators, and restore a backup with \"roost restore\"; or put the newest %s back with its -wal and without a -shm, and remove %s%s (docs/repair.md, \"An older copy over the file\")",
			journal.ErrReplaced, err, m.path, m.path, markSuffix)
	}
	m.write(highest.raised(seen))
	return seen, nil
}

// readMark reads the mark by a connection, whose handle h is.
func readMark(ctx context.Context, conn *sql.Conn, h *handle, g sharding.Generation) (found mark, err error) {
	found.Generation = g
	if err = conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found.Log); err == nil {
		found.Main, err = h.mainMark()
	}
	return found, err
}

// checkMark compares the journal with the highest marks.
func (d *Driver) checkMark(ctx context.Context) (mark, error) {
	return d.marks.check(func() (mark, error) { return readMark(ctx, d.conn, &d.handle, d.generation) })
}

// raiseMark compares the journal with the highest marks, and raises the mark in the transaction that is
// about to be committed, if that is due. wrote: the transaction has changed something. So a process that only
// reads never syncs. After the commit, noteMark must be called with the result.
func (d *Driver) raiseMark(wrote bool) (raised mark, err error) {
	m, now := d.marks, time.Now()
	raise := wrote && now.After(m.raise)
	if !raise && now.Before(m.look) {
		return mark{}, nil
	}
	ctx := context.Background() // a transaction is not interrupted
	seen, err := d.checkMark(ctx)
	if errors.Is(err, journal.ErrReplaced) {
		return mark{}, fmt.Errorf("%w: %w", journal.ErrBroken, err)
	}
	if err != nil {
		return mark{}, err
	}
	m.look = now.Add(markEvery)
	if !raise {
		return mark{}, nil
	}
	before := m.log
	m.raise, m.log = m.look, seen.Log
	if seen.Log > before { // another process has raised it
		return mark{}, nil
	}
	m.log++
	_, err = d.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", m.log))
	return mark{Generation: d.generation, Log: m.log}, err
}

// noteMark stores a mark that was committed.
func (d *Driver) noteMark(raised mark) {
	if raised != (mark{}) {
		d.marks.write(d.marks.read().raised(raised))
	}
}

// mainMark reads the mark of the main file past the log, which SQLite does not do. The file is not opened
// for that, because closing it would drop the locks that this process has on it.
func (h *handle) mainMark() (uint32, error) {
	const pointerSize = int(unsafe.Sizeof(uintptr(0)))
	to := h.tls.Alloc(pointerSize)
	defer h.tls.Free(pointerSize)
	if rc := lib.Xsqlite3_file_control(h.tls, h.db, 0, lib.SQLITE_FCNTL_FILE_POINTER, to); rc != lib.SQLITE_OK {
		return 0, h.error(rc)
	}
	buf := h.tls.Alloc(4)
	defer h.tls.Free(4)
	if rc := shim.main.read(h.tls, *at[uintptr](to), buf, 4, userVersion); rc != lib.SQLITE_OK {
		return 0, &sqliteError{code: int(rc), text: fmt.Sprintf("the first page of the main file cannot be read (%d)", rc)}
	}
	return binary.BigEndian.Uint32(at[[4]byte](buf)[:]), nil
}
