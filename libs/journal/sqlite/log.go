package sqlite

import (
	"encoding/binary"
	"math/bits"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// The write-ahead log is a header and frames. A frame is a page after a header with the page's
// number and a checksum that continues from the previous frame's. SQLite trusts the log of an
// open file; here the frame is checked at each read. A frame that a reader may see is not
// overwritten while it is read, so that a page, its header and the one before it belong
// together. A writer does not read its uncommitted pages from the log, because nothing is
// written before the commit (cache_spill). https://sqlite.org/fileformat2.html#walformat

const (
	// copyVFS is the file system of connections that copy the log. A damaged frame
	// must not keep all others in the log forever: they would be lost with it when
	// the log is left behind, because SQLite ends it at the first damaged frame. So it
	// is copied too, as a page that fails its check in the main file.
	copyVFS = "roost-pages-copy"

	logHeader   = 32
	frameHeader = 24
	// spoiledMark stands where pageMark does in a page that was damaged in the log.
	spoiledMark = 0x72737458 // "rstX"
)

func spoil(page []byte) {
	binary.BigEndian.PutUint32(page[len(page)-8:], spoiledMark)
}

func spoiled(page []byte) bool {
	return binary.BigEndian.Uint32(page[len(page)-8:]) == spoiledMark
}

func closeLog(tls *libc.TLS, file uintptr) int32 {
	dropFile(file)
	return shim.log.close(tls, file)
}

func readLog(tls *libc.TLS, file, buf uintptr, n int32, offset int64) int32 {
	start := offset - frameHeader // of the frame
	if n != pageSize || (start-logHeader)%(pageSize+frameHeader) != 0 {
		return shim.log.read(tls, file, buf, n, offset) // not a page
	}
	shim.mu.Lock()
	copies := shim.files[file].copies
	shim.mu.Unlock()
	p := at[[pageSize]byte](buf)[:]
	number, sound, rc := readFrame(tls, file, start, p)
	switch {
	case rc == lib.SQLITE_IOERR_SHORT_READ, rc == lib.SQLITE_OK && sound:
		return rc
	case rc != lib.SQLITE_OK && copies:
		return rc // it may be readable later: not to be copied as damaged
	}
	damagedPage(file, number)
	if !copies {
		return lib.SQLITE_CORRUPT
	}
	spoil(p)
	return lib.SQLITE_OK
}

// readFrame reads the page of the frame that begins at start, and returns the page's
// number, whether the checksum of the frame holds, and the result code of reading. All is
// read at once, from the checksum of the frame before to the end of the page: reading the
// page between them that is not needed takes less time than two more calls of the system.
func readFrame(tls *libc.TLS, file uintptr, start int64, page []byte) (number uint32, sound bool, rc int32) {
	const most = 8 + pageSize + frameHeader + pageSize
	before := start - (pageSize + frameHeader) + 16 // the checksum of the frame before
	if start == logHeader {
		before = logHeader - 8
	}
	buf := tls.Alloc(most)
	defer tls.Free(most)
	size := start + frameHeader + pageSize - before
	rc = shim.log.read(tls, file, buf, int32(size), before)
	if rc != lib.SQLITE_OK && rc != lib.SQLITE_IOERR_SHORT_READ {
		// Perhaps it is the page between them that cannot be read.
		rest := size - frameHeader - pageSize
		if rc = shim.log.read(tls, file, buf, 8, before); rc == lib.SQLITE_OK {
			rc = shim.log.read(tls, file, buf+uintptr(rest), frameHeader+pageSize, start)
		}
	}
	b := at[[most]byte](buf)[:size]
	head, stored := b[size-pageSize-frameHeader:], b[size-pageSize:]
	copy(page, stored) // zeros, where the log is too short
	if rc != lib.SQLITE_OK {
		return 0, false, rc
	}
	number = binary.BigEndian.Uint32(head)
	seed, sum := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(head[16:])
	// The byte order is the order of the machine that began the log.
	little := logSum(logSum(seed, head[:8], false), page, false)
	return number, little == sum || logSum(logSum(seed, head[:8], true), page, true) == sum, rc
}

// logSum continues a checksum of the log.
func logSum(sum uint64, b []byte, bigEndian bool) uint64 {
	s1, s2 := uint32(sum>>32), uint32(sum)
	for ; len(b) >= 8; b = b[8:] {
		x, y := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		if bigEndian {
			x, y = bits.ReverseBytes32(x), bits.ReverseBytes32(y)
		}
		s1 += x + s2
		s2 += y + s1
	}
	return uint64(s1)<<32 | uint64(s2)
}
