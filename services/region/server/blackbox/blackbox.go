package blackbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region/suspects"
)

// The file has a header, and Slots slots of one turn each. Numbers are in the order of the machine's bytes:
// the file is read where it was written.
const (
	// Slots is the number of turns that are noted at a time. A region usually runs fewer at a time, including
	// turns that wait.
	Slots      = 256
	headerSize = 64
	slotSize   = 640 // 24 bytes of numbers, and the longest names
	fileSize   = headerSize + Slots*slotSize
	magic      = "roostbb1"
	format     = 1
	// mark is the first byte of the input of the header's checksum. Boxes of development versions have none.
	mark = 'R'
	// probes is the number of slots that are tried for a turn.
	probes = 16
	// maxOutput bounds the part of the runtime's output that is read, in bytes.
	maxOutput = 4096
)

// states of a slot
const (
	free uint32 = iota
	writing
	running
	ended
)

// Report is how a process has ended, and when.
type Report struct {
	control.Crash
	At time.Time
	// Refused is the reason why the file was not read; nil: it was.
	Refused error
}

// Box notes the turns of this process. A nil Box notes nothing.
type Box struct {
	mem    []byte
	file   *os.File
	output *os.File
	next   atomic.Uint32
	closed atomic.Bool // nothing is noted any more, see closeNotes
}

// Open opens the box of a process, and returns how the process has ended that used it last; nil if that one
// has closed the box, or there was none. The path is without a suffix: there are two files. exit is a
// parent's report of that end; if it is zero, the report that [Ended] has written counts.
func Open(path string, self sharding.NodeUID, exit suspects.Exit) (*Box, *Report, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, err
	}
	f, err := openOwn(path + ".turns")
	if err != nil {
		return nil, nil, err
	}
	b := &Box{file: f}
	if err := lock(f); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s is in use by another process: %w", f.Name(), err), f.Close())
	}
	if b.output, err = openOwn(path + ".output"); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	old := make([]byte, fileSize)
	n, err := io.ReadFull(f, old)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil, errors.Join(err, b.output.Close(), f.Close())
	}
	if exit == (suspects.Exit{}) && n >= headerSize {
		exit = readEnded(old)
	}
	report := read(old[:n], b.output, exit)
	if err := b.begin(self); err != nil {
		return nil, nil, errors.Join(err, b.output.Close(), f.Close())
	}
	return b, report, nil
}

// begin empties the files and maps the first one. The blocks of the file are written, so that a full disk
// is found out here and not by a signal.
func (b *Box) begin(self sharding.NodeUID) error {
	fresh := make([]byte, fileSize)
	copy(fresh, magic)
	binary.NativeEndian.PutUint64(fresh[8:], uint64(self))
	binary.NativeEndian.PutUint64(fresh[16:], uint64(time.Now().UnixNano()))
	binary.NativeEndian.PutUint32(fresh[24:], format)
	binary.NativeEndian.PutUint32(fresh[28:], checksum(fresh))
	if _, err := b.file.WriteAt(fresh, 0); err != nil {
		return err
	}
	if err := b.output.Truncate(0); err != nil {
		return err
	}
	if _, err := b.output.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var err error
	if b.mem, err = mapFile(b.file, fileSize); err != nil {
		return err
	}
	return debug.SetCrashOutput(b.output, debug.CrashOptions{})
}

// Close records that the process ends in order.
func (b *Box) Close() error {
	if b == nil {
		return nil
	}
	clear(b.mem[:headerSize])
	return debug.SetCrashOutput(nil, debug.CrashOptions{})
}

// Ended records in the box of another process how that process has ended: killed by a signal or not, with the
// number of the signal or its exit status. A parent that has waited for the process calls it.
func Ended(path string, signalled bool, number int) error {
	f, err := openOwn(path + ".turns")
	if err != nil {
		return err
	}
	if err = lock(f); err == nil { // otherwise a process has begun to use it
		text := binary.NativeEndian.AppendUint32(nil, exited)
		if signalled {
			text = binary.NativeEndian.AppendUint32(nil, killed)
		}
		_, err = f.WriteAt(binary.NativeEndian.AppendUint32(text, uint32(number)), 48)
	}
	return errors.Join(err, f.Close())
}

// How a process has ended, as Ended writes it; 0: not known.
const (
	exited uint32 = iota + 1
	killed
)

// readEnded reads what Ended has written.
func readEnded(header []byte) suspects.Exit {
	number := binary.NativeEndian.Uint32(header[52:])
	text := ""
	switch binary.NativeEndian.Uint32(header[48:]) {
	case exited:
		text = fmt.Sprint("exit status ", number)
	case killed:
		text = "signal: " + syscall.Signal(number).String()
	}
	exit, _ := suspects.ParseExit(text) // it takes both
	return exit
}

// Alive notes that the process is alive now.
func (b *Box) Alive(now time.Time) {
	if b != nil {
		b.stamp(b.mem[16:24]).Store(now.UnixNano())
	}
}

// Memory notes how much memory the process uses, and how much it may use, in bytes.
func (b *Box) Memory(used, limit uint64) {
	if b != nil {
		b.stamp(b.mem[32:40]).Store(int64(used))
		b.stamp(b.mem[40:48]).Store(int64(limit))
	}
}

func (b *Box) stamp(at []byte) *atomic.Int64 { return (*atomic.Int64)(unsafe.Pointer(&at[0])) }

func (b *Box) slot(i int) []byte {
	at := headerSize + i*slotSize
	return b.mem[at : at+slotSize]
}

func state(slot []byte) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&slot[0])) }

// Begin notes that a turn begins, and returns its slot for End; -1 if there is no room.
func (b *Box) Begin(t control.CrashedTurn) int {
	if b == nil || b.closed.Load() {
		return -1
	}
	return b.note(t)
}

// Only replaces all notes by one of this turn, and notes nothing any more. A turn that begins at the same moment
// may be noted, too.
func (b *Box) Only(t control.CrashedTurn) {
	if b.closeNotes() {
		b.note(t)
	}
}

// Nobody removes all notes, and notes nothing any more. A turn that begins at the same moment may be noted.
func (b *Box) Nobody() { b.closeNotes() }

// closeNotes removes all notes, and lets no turn be noted any more. It reports false if that was so before.
func (b *Box) closeNotes() bool {
	if b == nil || b.closed.Swap(true) {
		return false
	}
	for i := range Slots {
		state(b.slot(i)).Store(free)
	}
	return true
}

func (b *Box) note(t control.CrashedTurn) int {
	for range probes {
		i := int(b.next.Add(1) % Slots)
		s := b.slot(i)
		st := state(s)
		if old := st.Load(); old == running || old == writing || !st.CompareAndSwap(old, writing) {
			continue
		}
		binary.NativeEndian.PutUint32(s[4:], t.Clean)
		state(s[16:]).Store(alone(t.Alone))
		typ, id, command := len(t.Entity.Type), len(t.Entity.ID), len(t.Command)
		if 24+typ+id+command > slotSize {
			st.Store(free)
			return -1
		}
		s[20], s[21] = byte(typ), byte(command)
		binary.NativeEndian.PutUint16(s[22:], uint16(id))
		n := 24 + copy(s[24:], t.Entity.Type)
		n += copy(s[n:], t.Entity.ID)
		copy(s[n:], t.Command)
		st.Store(running)
		return i
	}
	return -1
}

// End notes that the turn of a slot has ended.
func (b *Box) End(slot int, now time.Time) {
	if b == nil || slot < 0 || b.closed.Load() {
		return
	}
	s := b.slot(slot)
	b.stamp(s[8:16]).Store(now.UnixNano())
	state(s).Store(ended)
}

// NotAlone notes that another suspect runs concurrently with the turn of a slot.
func (b *Box) NotAlone(slot int) {
	if b != nil && slot >= 0 && !b.closed.Load() {
		state(b.slot(slot)[16:]).Store(0)
	}
}

func alone(v bool) uint32 {
	if v {
		return 1
	}
	return 0
}

var errUnmarked = errors.New("its header does not match its checksum: a development version wrote it before the formats began again at 1, or it is damaged")

// checksum returns the checksum of the header without the parts that change while the process runs.
func checksum(header []byte) uint32 {
	return crc32.Checksum(slices.Concat([]byte{mark}, header[:16], header[24:28]), crc32.MakeTable(crc32.Castagnoli))
}

// read reads how the last process has ended.
func read(mem []byte, output io.Reader, exit suspects.Exit) *Report {
	if len(mem) < fileSize || string(mem[:8]) != magic {
		return nil
	}
	if binary.NativeEndian.Uint32(mem[28:]) != checksum(mem) {
		return &Report{Refused: errUnmarked}
	}
	if f := binary.NativeEndian.Uint32(mem[24:]); f != format {
		return &Report{Refused: fmt.Errorf("it has format %d, and this program reads format %d", f, format)}
	}
	var noted []suspects.Noted
	for i := range Slots {
		if n, ok := readTurn(mem[headerSize+i*slotSize:][:slotSize]); ok {
			noted = append(noted, n)
		}
	}
	var r Report
	alive := time.Unix(0, int64(binary.NativeEndian.Uint64(mem[16:])))
	r.Crash, r.At = suspects.Report(sharding.NodeUID(binary.NativeEndian.Uint64(mem[8:])), alive, suspects.Evidence{
		Runtime: cause(output), Exit: exit,
		Used: binary.NativeEndian.Uint64(mem[32:]), Limit: binary.NativeEndian.Uint64(mem[40:]),
	}, noted)
	return &r
}

func readTurn(s []byte) (n suspects.Noted, ok bool) {
	st := binary.NativeEndian.Uint32(s)
	typ, command, id := int(s[20]), int(s[21]), int(binary.NativeEndian.Uint16(s[22:]))
	if st != running && st != ended || 24+typ+id+command > slotSize {
		return n, false
	}
	names := string(s[24 : 24+typ+id+command])
	n.Entity = sharding.Entity{Type: sharding.EntityType(names[:typ]), ID: sharding.EntityID(names[typ : typ+id])}
	n.Command, n.Clean, n.Alone = names[typ+id:], binary.NativeEndian.Uint32(s[4:]), binary.NativeEndian.Uint32(s[16:]) == 1
	n.Running, n.End = st == running, time.Unix(0, int64(binary.NativeEndian.Uint64(s[8:])))
	return n, n.Entity.Check() == nil
}

// cause returns the line with the runtime's reason for ending the process.
func cause(output io.Reader) string {
	text, err := io.ReadAll(io.LimitReader(output, maxOutput))
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: ")) || bytes.HasPrefix(line, []byte("runtime: ")) || bytes.HasPrefix(line, []byte("SIG")) {
			return string(line)
		}
	}
	return ""
}
