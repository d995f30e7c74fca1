package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strings"
	"sync"
	"time"
	"unsafe"

	lib "modernc.org/sqlite/lib"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// markSuffix is appended to the path of the main file for the file with the highest marks.
	markSuffix = "-mark"
	// markEvery is the least time between two commits of a process that raise the mark: what was written
	// for less than this time after a copy was made may be lost unnoticed when the copy is put back. Each raise
	// writes one page more to the log, and syncs nothing that the commit does not sync.
	markEvery = time.Second
	// userVersion is the offset of the mark in the main file: SQLite gives this field to
	// applications.
	userVersion = 60
	// unreadMark is the mark of a page whose checksum does not hold. It says nothing about the age of the file.
	unreadMark = math.MaxUint32
	// markPatience bounds the wait for a process that changes the file of marks; then it is changed without its
	// lock. It is longer than any change takes, and short, because other writers wait meanwhile. Only a process
	// that is paused in the middle of a change has the lock for longer.
	markPatience = 100 * time.Millisecond
)

// mark is a number that only rises, as it was found in three places: in the journal as transactions see it,
// in the main file alone, and, with the highest of both that were ever seen, in a file of its own. A copy
// that is put back over the main file, over its log, or over both takes the mark back.
type mark struct {
	Generation sharding.Generation
	Log        uint32 // as transactions see it, in the log or in the main file
	Main       uint32 // in the main file alone; of the highest marks: as far as it was synced
	// Older: an older main file was found here. It stays refused: SQLite copies the log into the main file
	// when it is closed, and hides the difference. 0 or 1.
	Older int
}

// markForm has one length and ends in a checksum, because readers take no lock and may see half of another process's
// write.
const markForm = "generation %016x log %010d main %010d older %d "

// errOlder is the error for a journal that an older copy was put into.
var errOlder = errors.New("it is older than what was already acknowledged: a copy was put over the file or its log")

// allows returns an error if what was found in a journal is older than the highest marks say.
func (highest mark) allows(found mark) error {
	switch {
	// Invariant: on SQLite, an older copy of the file, of its log or of both is refused if a second of writing or more
	// came after it.
	// Guarded by: `sqlite.mark.allows`: the mark in the file only rises, and the highest ones are in a file of their
	// own. Checkpoints look before they copy pages, because these would hide that the main file is older. What meets
	// damage looks, because old pages between new ones look like it. Changes of the file of marks are made under a lock
	// (`sqlite.marks.change`), a process changes only the marks of the journal that it has open, and the mark of the
	// main file is noted when it is synced, also when the journal is opened (`sqlite.checkpointer.noteMain`). A process
	// that only reads is refused too, and a backup at its end (`sqlite.Reader.refuseOlder`). An older log alone is not
	// noted permanently (`sqlite.marks.check`).
	// Mutants: journal-mark, main-mark-at-open, mark-damaged, marks-lock, marks-of-new, marks-synced, older-backup,
	// older-damage, older-log-only, older-readers, older-reads
	//mutant:true journal-mark
	case highest == mark{}:
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

// raised returns the highest marks after others were seen. Marks of another journal, which was made at the same
// place, are not changed: a process that still has the previous journal open must not cause the new one to be
// refused.
func (highest mark) raised(seen mark) mark {
	if highest != (mark{}) && highest.Generation != seen.Generation { //mutant:false marks-of-new
		return highest
	}
	return mark{Generation: seen.Generation, Log: max(highest.Log, seen.Log), Main: max(highest.Main, seen.Main), Older: max(highest.Older, seen.Older)}
}

// marks keeps the highest marks in their file, for one handle. The file is not synced: after a power cut
// it may have lower marks, which refuse less. For the same reason it is not an error if it cannot be
// read or written; then an older copy may go unnoticed.
type marks struct {
	path string // of the main file
	file *os.File
	mu   sync.Mutex // guards lock
	lock *fileLock  // on the file of marks, while it is changed
	// Of transactions alone:
	look, raise time.Time // the next of each
}

func openMarks(path string) (*marks, error) {
	f, err := os.OpenFile(path+markSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	lock, err := openLock(path + markSuffix)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	m := &marks{path: path, file: f, lock: lock}
	if err := ownLike(path+markSuffix, path); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *marks) close() error { return errors.Join(m.lock.close(), m.file.Close()) }

// read returns the highest marks, zero ones if the file is new or was not written completely.
func (m *marks) read() mark { return readHighest(m.file) }

func readHighest(file *os.File) mark {
	for range 3 { // another process may be writing
		var form [128]byte
		n, _ := file.ReadAt(form[:], 0)
		text, sum, _ := strings.Cut(string(form[:n]), "crc ")
		var highest mark
		if _, err := fmt.Sscanf(text, markForm, &highest.Generation, &highest.Log, &highest.Main, &highest.Older); err == nil && sum == markSum(text) {
			return highest
		}
	}
	return mark{}
}

// change replaces the highest marks by what f makes of them. The lock keeps a change by another handle from being
// overwritten. If the lock does not come, the marks are changed nevertheless: an older copy may then go unnoticed.
func (m *marks) change(f func(highest mark) mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), markPatience)
	defer cancel()
	if m.lock.lock(ctx) == nil { //mutant:false marks-lock
		defer m.lock.unlock()
	}
	before := m.read()
	if after := f(before); after != before {
		m.write(after)
	}
}

func (m *marks) write(highest mark) {
	text := fmt.Sprintf(markForm, uint64(highest.Generation), highest.Log, highest.Main, highest.Older)
	_, _ = m.file.WriteAt([]byte(text+"crc "+markSum(text)), 0)
}

func markSum(text string) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum([]byte(text), castagnoli))
}

// check compares the journal with the highest marks, and raises the mark of the log. found is called after they
// were read, because other processes may raise them meanwhile. Errors wrap ErrReplaced if the journal is older.
func (m *marks) check(found func() (mark, error)) (seen mark, err error) {
	highest := m.read()
	if seen, err = found(); err != nil {
		return seen, err
	}
	if err = highest.allows(seen); err != nil {
		// An older log stays recognizable without that: a copy of it in the main file has its mark. If the log was
		// removed, processes that still have it open have the only one, and must not be stopped before they have copied it.
		if seen.Main < highest.Main { //mutant:true older-log-only
			m.change(func(highest mark) mark { return highest.raised(mark{Generation: seen.Generation, Older: 1}) })
			_ = m.file.Sync()
		}
		return seen, olderError(m.path, err)
	}
	m.change(func(highest mark) mark {
		return highest.raised(mark{Generation: seen.Generation, Log: seen.Log})
	})
	return seen, nil
}

// olderError returns an error of allows with the remedy.
func olderError(path string, err error) error {
	return fmt.Errorf("%w: %w; stop all regions and coordinators, and restore a backup with \"roost journal restore\"; or put the newest %s back with its -wal and without a -shm, and remove %s%s (docs/running/repair.md, \"An older copy over the file\")",
		journal.ErrReplaced, err, path, path, markSuffix)
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
func (d *Backend) checkMark(ctx context.Context) (mark, error) {
	return d.marks.check(func() (mark, error) { return readMark(ctx, d.conn, &d.handle, d.generation) })
}

// refuseOlder refuses to open a journal that is older.
func (d *Backend) refuseOlder(ctx context.Context) error {
	_, err := d.checkMark(ctx)
	if errors.Is(err, journal.ErrReplaced) {
		err = fmt.Errorf("%w: %w", journal.ErrIdentity, err)
	}
	return err
}

// refuseOlder compares the journal with the highest marks, by a connection that the caller has for itself. It changes
// nothing. Who reads an older journal must not take it for what was acknowledged, in a backup least of all.
func (r *Reader) refuseOlder(ctx context.Context, conn *sql.Conn) error {
	file, err := os.Open(r.file + markSuffix)
	//mutant:true older-readers
	if err != nil {
		return nil // as for marks
	}
	highest := readHighest(file) // before the journal, because processes raise both meanwhile
	if err := file.Close(); err != nil {
		return err
	}
	h, err := handleOf(conn)
	if err != nil {
		return err
	}
	defer h.close()
	seen, err := readMark(ctx, conn, &h, r.generation)
	if err == nil {
		if err = highest.allows(seen); err != nil {
			err = olderError(r.path, err)
		}
	}
	return err
}

// raiseMark compares the journal with the highest marks, and raises the mark in the transaction that is
// about to be committed, if that is due. wrote: the transaction has changed something. So a process that only
// reads never syncs. After the commit, noteMark must be called with the result.
func (d *Backend) raiseMark(wrote bool) (raised mark, err error) {
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
	raised = mark{Generation: d.generation, Log: seen.Log + 1}
	_, err = d.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", raised.Log))
	return raised, err
}

// noteMark stores a mark that was committed.
func (d *Backend) noteMark(raised mark) {
	if raised != (mark{}) {
		d.marks.raise = d.marks.look
		d.marks.change(func(highest mark) mark { return highest.raised(raised) })
	}
}

// mainMark reads the mark of the main file past the log, which SQLite does not do. It is unreadMark if the page is
// damaged, or being written. The file is not opened for that, because closing it would drop the locks that this process
// has on it.
func (h *handle) mainMark() (mark uint32, err error) {
	err = h.mainFile(func(file uintptr) error {
		buf := h.tls.Alloc(pageSize)
		defer h.tls.Free(pageSize)
		if rc := shim.main.read(h.tls, file, buf, pageSize, 0); rc != lib.SQLITE_OK {
			return &sqliteError{code: int(rc), text: fmt.Sprintf("the first page of the main file cannot be read (%d)", rc)}
		}
		page := at[[pageSize]byte](buf)[:]
		if mark = binary.BigEndian.Uint32(page[userVersion:]); !checkPage(page) { //mutant:false mark-damaged
			mark = unreadMark
		}
		return nil
	})
	return mark, err
}

// syncMain syncs the main file.
func (h *handle) syncMain() error {
	return h.mainFile(func(file uintptr) error {
		if rc := shim.main.sync(h.tls, file, lib.SQLITE_SYNC_NORMAL); rc != lib.SQLITE_OK {
			return &sqliteError{code: int(rc), text: fmt.Sprintf("the main file cannot be synced (%d)", rc)}
		}
		return nil
	})
}

// mainFile calls f with SQLite's handle of the main file.
func (h *handle) mainFile(f func(file uintptr) error) error {
	const pointerSize = int(unsafe.Sizeof(uintptr(0)))
	to := h.tls.Alloc(pointerSize)
	defer h.tls.Free(pointerSize)
	if rc := lib.Xsqlite3_file_control(h.tls, h.db, 0, lib.SQLITE_FCNTL_FILE_POINTER, to); rc != lib.SQLITE_OK {
		return h.error(rc)
	}
	return f(*at[uintptr](to))
}
