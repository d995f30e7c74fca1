package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// VFS is the name under which journal files are opened: SQLite's own file
// system, with a checksum on every page of the main file. SQLite has none: a
// flipped bit in one of its keys or pointers makes it find nothing where
// something is, which no checksum on the records can notice.
//
// The checksum is in the bytes that every page reserves at its end. It is
// written when a page is copied from the write-ahead log into the main file and
// checked when a page is read from there; a page that does not match is
// SQLITE_CORRUPT. In memory and in the log those bytes are zero, so that a
// program which knows nothing of this may read the file, and copy the log: the
// pages that it copies are not checked. It must not write.
//
// The log has checksums of SQLite's own, which SQLite looks at only when it opens
// a log that was not closed. Here they are checked for each page that is read from
// the log: see log.go.
const VFS = "roost-pages"

const (
	// joinVFS is the file system of further connections of a process that has the journal open. They open at any time,
	// and must not make a new log if that was removed.
	joinVFS = "roost-pages-join"
	// reserved is the number of bytes of each page that hold our mark and checksum.
	reserved = 8
	// pageMark marks a page as having a checksum, which follows.
	pageMark = 0x72737431 // "rst1"
	// maxNamed bounds how many damaged pages of a file are remembered by number.
	maxNamed = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealPage writes mark and checksum to the end of a page.
func sealPage(page []byte) {
	n := len(page)
	binary.BigEndian.PutUint32(page[n-8:], pageMark)
	binary.BigEndian.PutUint32(page[n-4:], crc32.Checksum(page[:n-4], castagnoli))
}

// checkPage reports whether a page has the content that was written. One without a mark was not
// written by this file system, or never.
func checkPage(page []byte) bool {
	n := len(page)
	mark, sum := binary.BigEndian.Uint32(page[n-8:]), binary.BigEndian.Uint32(page[n-4:])
	if mark == 0 && sum == 0 {
		return true
	}
	return mark == pageMark && sum == crc32.Checksum(page[:n-4], castagnoli)
}

// applicationID marks our files, as journal.Mark marks what is in them: "rost".
const applicationID = 0x726f7374

// firstPage is a database without tables, in WAL mode, whose pages reserve bytes, and which
// can give pages back to the file system (auto_vacuum=incremental).
// https://sqlite.org/fileformat2.html
func firstPage() []byte {
	p := make([]byte, pageSize)
	copy(p, "SQLite format 3\x00")
	binary.BigEndian.PutUint16(p[16:], pageSize)
	p[18], p[19] = 2, 2 // write-ahead log
	p[20] = reserved
	p[21], p[22], p[23] = 64, 32, 32      // fixed by the format
	binary.BigEndian.PutUint32(p[24:], 1) // change counter
	binary.BigEndian.PutUint32(p[28:], 1) // pages
	binary.BigEndian.PutUint32(p[52:], 1) // the largest root page: it has a map of pages,
	binary.BigEndian.PutUint32(p[56:], 1) // UTF-8
	binary.BigEndian.PutUint32(p[64:], 1) // and gives them back on request
	binary.BigEndian.PutUint32(p[68:], applicationID)
	binary.BigEndian.PutUint32(p[92:], 1)                  // the change counter at which the number of pages was set
	p[100] = 13                                            // leaf of a table
	binary.BigEndian.PutUint16(p[105:], pageSize-reserved) // where its cells begin
	sealPage(p)
	return p
}

// The types of SQLite's functions, as the transpiled library calls them.
type (
	openFunc  = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	closeFunc = func(tls *libc.TLS, file uintptr) int32
	dataFunc  = func(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32
	syncFunc  = func(tls *libc.TLS, file uintptr, flags int32) int32
)

// shim is the layer between SQLite and its file system.
var shim struct {
	once sync.Once
	err  error
	open openFunc // of SQLite's own file system
	main methods
	log  methods

	mu    sync.Mutex
	files map[uintptr]openedFile         // by handle
	bad   map[string]map[uint32]struct{} // damaged pages, by main file
}

// methods is the method table of one kind of file. It is made when the first such file is
// opened, from the table that the file would otherwise have had.
type methods struct {
	once  sync.Once
	ours  uintptr
	close closeFunc // close, read, write and sync of SQLite's own file system
	read  dataFunc
	write dataFunc
	sync  syncFunc
}

// put puts our methods between a file and SQLite.
func (m *methods) put(tls *libc.TLS, file uintptr, change func(ours *lib.Tsqlite3_io_methods)) {
	f := at[lib.Tsqlite3_file](file)
	m.once.Do(func() {
		own := at[lib.Tsqlite3_io_methods](f.FpMethods)
		m.close, m.read, m.write = function[closeFunc](own.FxClose), function[dataFunc](own.FxRead), function[dataFunc](own.FxWrite)
		m.sync = function[syncFunc](own.FxSync)
		m.ours = libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
		ours := at[lib.Tsqlite3_io_methods](m.ours)
		*ours = *own
		ours.FiVersion = min(own.FiVersion, 2) // without mapping the file: what is mapped is not read
		change(ours)
	})
	f.FpMethods = m.ours
}

// openedFile is a file that SQLite has open.
type openedFile struct {
	main string // the main file, also for its log
	// copies: the file belongs to a connection that copies the log.
	copies bool
}

// RegisterVFS makes VFS known to SQLite, as Open does, for programs that open a
// journal file by themselves.
func RegisterVFS() error {
	shim.once.Do(func() {
		tls := libc.NewTLS() // SQLite keeps what is made with it
		own := lib.Xsqlite3_vfs_find(tls, 0)
		if own == 0 {
			shim.err = fmt.Errorf("SQLite has no file system here")
			return
		}
		shim.files, shim.bad = map[uintptr]openedFile{}, map[string]map[uint32]struct{}{}
		shim.open = function[openFunc](at[lib.Tsqlite3_vfs](own).FxOpen)
		shim.err = errors.Join(register(tls, own, VFS, openFile), register(tls, own, joinVFS, openToJoin), register(tls, own, copyVFS, openToCopy))
	})
	return shim.err
}

// register makes a file system known that is SQLite's own one, but for the way it
// opens files.
func register(tls *libc.TLS, own uintptr, name string, open openFunc) error {
	v := libc.Xcalloc(tls, 1, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	cname, err := libc.CString(name)
	if v == 0 || err != nil {
		return fmt.Errorf("no memory for SQLite's file system")
	}
	vfs := at[lib.Tsqlite3_vfs](v)
	*vfs = *at[lib.Tsqlite3_vfs](own)
	vfs.FpNext, vfs.FzName, vfs.FxOpen = 0, cname, pointer(open)
	if rc := lib.Xsqlite3_vfs_register(tls, v, 0); rc != lib.SQLITE_OK {
		return fmt.Errorf("SQLite refuses a file system: error %d", rc)
	}
	return nil
}

// at returns the value at an address of SQLite's memory, which Go's collector does not know.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// function is the function that SQLite has a pointer to, and pointer the other
// way round: the transpiled library keeps Go functions as addresses.
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) }

func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// openFile opens a file. If it is a main file whose pages reserve bytes, or a log,
// checksums stand between it and SQLite.
func openFile(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	return openChecked(tls, vfs, name, file, flags, outFlags, false)
}

// openToJoin opens a file for a further connection of a process.
func openToJoin(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	// Invariant: on SQLite, processes whose log was removed lose at most about a second of writes, unless they are all
	// killed within that time.
	// Guarded by: `sqlite.checkpointer.watchLog` copies the open log into the main file, and `sqlite.place` stops the
	// process. Nothing is copied if another log is in its place, and that log is not removed
	// (`sqlite.checkpointer.rescue`, `stop`). No process opens the file without its log while others have it open
	// (`sqlite.refuseWithoutLog`), and later connections of a process make no new log (`sqlite.openToJoin`).
	// Mutants: join-makes-log, log-removed, log-users, log-users-read, log-watch, other-log, other-log-closed
	if flags&lib.SQLITE_OPEN_WAL != 0 { //mutant:false join-makes-log
		flags &^= lib.SQLITE_OPEN_CREATE
	}
	return openFile(tls, vfs, name, file, flags, outFlags)
}

// openToCopy opens a file for a connection that copies the log.
func openToCopy(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	return openChecked(tls, vfs, name, file, flags, outFlags, true)
}

func openChecked(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr, copies bool) int32 {
	rc := shim.open(tls, vfs, name, file, flags, outFlags)
	if rc != lib.SQLITE_OK {
		return rc
	}
	opened := openedFile{main: libc.GoString(name), copies: copies}
	switch {
	case flags&lib.SQLITE_OPEN_WAL != 0:
		opened.main = strings.TrimSuffix(opened.main, "-wal")
		shim.log.put(tls, file, func(ours *lib.Tsqlite3_io_methods) {
			ours.FxClose, ours.FxRead = pointer(closeLog), pointer(readLog)
		})
	case flags&lib.SQLITE_OPEN_MAIN_DB != 0 && reserves(tls, file):
		shim.main.put(tls, file, func(ours *lib.Tsqlite3_io_methods) {
			ours.FxClose, ours.FxRead, ours.FxWrite = pointer(closeFile), pointer(readFile), pointer(writeFile)
		})
	default: // makeSchema reports that it is not ours
		return rc
	}
	shim.mu.Lock()
	shim.files[file] = opened
	shim.mu.Unlock()
	return rc
}

// reserves reports whether the pages of a main file reserve bytes for us.
func reserves(tls *libc.TLS, file uintptr) bool {
	read := function[dataFunc](at[lib.Tsqlite3_io_methods](at[lib.Tsqlite3_file](file).FpMethods).FxRead)
	var head [32]byte
	buf := tls.Alloc(len(head))
	defer tls.Free(len(head))
	if rc := read(tls, file, buf, int32(len(head)), 0); rc == lib.SQLITE_OK {
		head = *at[[32]byte](buf)
	}
	return head[20] == reserved
}

func closeFile(tls *libc.TLS, file uintptr) int32 {
	dropFile(file)
	return shim.main.close(tls, file)
}

func dropFile(file uintptr) {
	shim.mu.Lock()
	delete(shim.files, file)
	shim.mu.Unlock()
}

// page is the page that a call is about, nil if it is about something else.
func page(buf uintptr, n int32, offset int64) []byte {
	if n != pageSize || offset%pageSize != 0 {
		return nil
	}
	return at[[pageSize]byte](buf)[:]
}

func readFile(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 {
	rc := shim.main.read(tls, file, buf, n, offset)
	p := page(buf, n, offset)
	if p == nil || rc == lib.SQLITE_IOERR_SHORT_READ {
		return rc
	}
	// What cannot be read is as lost as what was changed.
	if rc != lib.SQLITE_OK || !checkPage(p) {
		damagedPage(file, uint32(offset/pageSize)+1)
		return lib.SQLITE_CORRUPT
	}
	clear(p[pageSize-reserved:])
	return rc
}

func writeFile(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 {
	p := page(buf, n, offset)
	if p == nil {
		return shim.main.write(tls, file, buf, n, offset)
	}
	if !spoiled(p) {
		sealPage(p)
	}
	rc := shim.main.write(tls, file, buf, n, offset)
	clear(p[pageSize-reserved:]) // it may be SQLite's copy of the page
	return rc
}

func damagedPage(file uintptr, number uint32) {
	shim.mu.Lock()
	defer shim.mu.Unlock()
	name := shim.files[file].main
	if shim.bad[name] == nil {
		shim.bad[name] = map[uint32]struct{}{}
	}
	if len(shim.bad[name]) < maxNamed {
		shim.bad[name][number] = struct{}{}
	}
}

// damagedPages names the pages of a file that were found damaged, empty if there
// are none.
func damagedPages(path string) string {
	shim.mu.Lock()
	defer shim.mu.Unlock()
	var numbers []uint32
	for n := range shim.bad[path] {
		numbers = append(numbers, n)
	}
	if len(numbers) == 0 {
		return ""
	}
	slices.Sort(numbers)
	more := ""
	if len(numbers) == maxNamed {
		more = " and perhaps others"
	}
	return "damaged pages of " + path + ": " + strings.Trim(fmt.Sprint(numbers), "[]") + more
}
