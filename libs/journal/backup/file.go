package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	magic = "roost backup\n"
	// Version is the version of the file format. It is raised for what an older program would
	// misread.
	Version = 1
	// chunkBytes is the largest chunk that is written: large compared with what surrounds it.
	chunkBytes = 1 << 20
	// maxChunkBytes is the largest chunk that is read, so that a damaged length costs no memory.
	maxChunkBytes = 4 << 20
)

// Errors of files.
var (
	// ErrFormat: the file is not a backup, or has a version that this program does not read.
	ErrFormat = errors.New("not a backup file of this format")
	// ErrDamaged: the file is not what was written, or not all of it.
	ErrDamaged = errors.New("the backup file is damaged")
)

// errUnmarked: the file reports a version of today, and this program would misread it.
var errUnmarked = fmt.Errorf("%w: a development version made it before the formats began again at 1; it cannot be restored any more", ErrFormat)

// Stores, as [Header.Store] names them.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// Header describes the content of a backup.
type Header struct {
	// Store is the kind of store that the backup is of, and that it can be restored to.
	Store string
	// Taken is the moment of the backup, by the clock of the store: the backup contains whatever was
	// stored before.
	Taken time.Time
	// Facts are the journal's facts at that moment, including MaxEpoch.
	Facts journal.Facts
	// Number is the number of the database, and Databases the number of databases in the file: 1, or each has its
	// own header. If the file has one database, both may be 0.
	Number, Databases int
}

// header is a Header as stored. Numbers of 64 bits are text, because other programs read JSON's
// numbers as floating point.
type header struct {
	Store      string              `json:"store"`
	Taken      time.Time           `json:"taken"`
	Cluster    string              `json:"cluster"`
	Format     int                 `json:"format"`
	MinReader  int                 `json:"min_reader"`
	MinWriter  int                 `json:"min_writer"`
	Generation sharding.Generation `json:"generation,string"`
	MaxEpoch   sharding.Epoch      `json:"max_epoch,string"`
	Types      []journal.TypeFact  `json:"types"`
	Number     int                 `json:"number,omitempty"`
	Databases  int                 `json:"databases,omitempty"`
}

func (h *Header) stored() header {
	f := h.Facts
	return header{h.Store, h.Taken.UTC(), f.Cluster, f.Format, f.MinReader, f.MinWriter, f.Generation, f.MaxEpoch, f.Types, h.Number, h.Databases}
}

type end struct {
	Bytes  int64  `json:"bytes,string"`
	SHA256 string `json:"sha256"`
}

type kind uint8

const (
	headerKind kind = iota + 1
	partKind
	dataKind
	endKind
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the checksum of a chunk; front holds its kind and length.
func checksum(number uint64, front, payload []byte) uint32 {
	return sumFrom(crc32.Update(0, castagnoli, []byte{journal.Mark}), number, front, payload)
}

// unmarked reports whether sum is the checksum of a chunk in a file without [journal.Mark].
func unmarked(sum uint32, number uint64, front, payload []byte) bool {
	return sum == sumFrom(0, number, front, payload)
}

func sumFrom(sum uint32, number uint64, front, payload []byte) uint32 {
	sum = crc32.Update(sum, castagnoli, binary.BigEndian.AppendUint64(nil, number))
	return crc32.Update(crc32.Update(sum, castagnoli, front), castagnoli, payload)
}

// Writer writes a backup file.
type Writer struct {
	out    io.Writer
	number uint64
	bytes  int64
	hash   hash.Hash
	buf    []byte // data that is not written yet
	err    error  // the first one
}

// NewWriter begins a file. The caller calls [Writer.Part] for each part, [Writer.Database] if there are several databases,
// and Close in the end.
func NewWriter(out io.Writer, h Header) (*Writer, error) {
	w := &Writer{out: out, hash: sha256.New(), buf: make([]byte, 0, chunkBytes)}
	if _, err := out.Write(binary.BigEndian.AppendUint32([]byte(magic), Version)); err != nil {
		return nil, err
	}
	return w, w.writeJSON(headerKind, h.stored())
}

// Database begins the next database. Everything written from now on belongs to it.
func (w *Writer) Database(h Header) error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.writeJSON(headerKind, h.stored())
}

// Part begins a part, which ends when the next one begins. Everything written to the Writer from
// now on belongs to it.
func (w *Writer) Part(name string) error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.write(partKind, []byte(name))
}

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := copy(w.buf[len(w.buf):cap(w.buf)], p)
		w.buf, p, written = w.buf[:len(w.buf)+n], p[n:], written+n
		if len(w.buf) == cap(w.buf) {
			if err := w.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, w.err
}

func (w *Writer) flush() error {
	if len(w.buf) == 0 {
		return w.err
	}
	err := w.write(dataKind, w.buf)
	w.buf = w.buf[:0]
	return err
}

// Close writes the end. A file without it is damaged.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.writeJSON(endKind, end{Bytes: w.bytes, SHA256: hex.EncodeToString(w.hash.Sum(nil))})
}

func (w *Writer) writeJSON(k kind, v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.write(k, content)
}

func (w *Writer) write(k kind, payload []byte) error {
	if w.err != nil {
		return w.err
	}
	front := binary.BigEndian.AppendUint32([]byte{byte(k)}, uint32(len(payload)))
	sum := binary.BigEndian.AppendUint32(nil, checksum(w.number, front, payload))
	for _, b := range [][]byte{front, payload, sum} {
		if _, err := w.out.Write(b); err != nil {
			w.err = err
			return err
		}
	}
	w.number++
	w.bytes += int64(len(payload))
	w.hash.Write(payload)
	return nil
}

// Reader reads a backup file. Every byte that it returns has passed a checksum; that the file is
// complete is known when [Reader.Next] has returned io.EOF.
type Reader struct {
	in     *bufio.Reader
	header Header
	number uint64
	bytes  int64
	hash   hash.Hash
	buf    []byte // memory for chunks
	rest   []byte // of the data that was read last
	ahead  kind   // the chunk in buf that ends the part, 0: there is none yet
	err    error  // the first one, io.EOF after the end
}

// NewReader reads the header of a file. Errors wrap [ErrFormat] or [ErrDamaged], or come from in.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 1<<16), hash: sha256.New()}
	front := make([]byte, len(magic)+4)
	if _, err := io.ReadFull(r.in, front); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if !bytes.HasPrefix(front, []byte(magic)) {
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrFormat, magic)
	}
	k, err := r.read()
	if v := binary.BigEndian.Uint32(front[len(magic):]); v != Version && !errors.Is(err, ErrFormat) {
		return nil, fmt.Errorf("%w: it has version %d, and this program reads version %d; use the release that has made it", ErrFormat, v, Version)
	}
	if err != nil {
		return nil, err
	}
	if k != headerKind {
		return nil, errNoHeader
	}
	return r, r.readHeader()
}

var errNoHeader = fmt.Errorf("%w: it does not name the journal of the backup", ErrDamaged)

// readHeader reads the header of a database from buf.
func (r *Reader) readHeader() error {
	var h header
	if err := json.Unmarshal(r.buf, &h); err != nil {
		return errNoHeader
	}
	r.header = Header{Store: h.Store, Taken: h.Taken, Number: h.Number, Databases: h.Databases, Facts: journal.Facts{
		Cluster: h.Cluster, Format: h.Format, MinReader: h.MinReader, MinWriter: h.MinWriter, Generation: h.Generation, MaxEpoch: h.MaxEpoch, Types: h.Types,
	}}
	return nil
}

// Header returns what the file says about the database that is read.
func (r *Reader) Header() Header { return r.header }

// Database goes to the next database, when [Reader.Next] has returned io.EOF. It returns io.EOF if the file is complete and no
// other one follows.
func (r *Reader) Database() error {
	if r.err == nil && r.ahead == headerKind {
		r.ahead, r.rest = 0, nil
		r.err = r.readHeader()
		return r.err
	}
	return r.err
}

// Err returns why the file cannot be read any further; nil: it can, or has ended.
func (r *Reader) Err() error {
	if errors.Is(r.err, io.EOF) {
		return nil
	}
	return r.err
}

// Next goes to the next part, skips the rest of the one before, and returns its name. It returns io.EOF if
// nothing follows: the file is complete, or another database follows ([Reader.Database]).
func (r *Reader) Next() (string, error) {
	for r.err == nil && r.ahead == 0 {
		r.fill()
	}
	if r.err != nil {
		return "", r.err
	}
	if r.ahead == headerKind {
		return "", io.EOF
	}
	name := string(r.buf)
	r.ahead, r.rest = 0, nil
	return name, nil
}

// Read reads the part. It implements [io.Reader].
func (r *Reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.ahead != 0 {
			return 0, io.EOF
		}
		r.fill()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// fill reads one chunk.
func (r *Reader) fill() {
	r.rest = nil
	digest, total := hex.EncodeToString(r.hash.Sum(nil)), r.bytes
	k, err := r.read()
	switch {
	case err != nil:
		r.err = err
	case k == dataKind:
		r.rest = r.buf
	case k == partKind, k == headerKind && r.header.Databases > 1:
		r.ahead = k
	case k == endKind:
		r.err = r.checkEnd(digest, total)
	default:
		r.err = fmt.Errorf("%w: chunk %d has the unknown kind %d", ErrDamaged, r.number-1, k)
	}
}

func (r *Reader) checkEnd(digest string, total int64) error {
	var e end
	if err := json.Unmarshal(r.buf, &e); err != nil || e.SHA256 != digest || e.Bytes != total {
		return fmt.Errorf("%w: its hash does not match the one at its end", ErrDamaged)
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its end", ErrDamaged)
	}
	return io.EOF
}

// read reads one chunk into buf.
func (r *Reader) read() (kind, error) {
	var front [5]byte
	if _, err := io.ReadFull(r.in, front[:]); err != nil {
		return 0, cut(err)
	}
	length := int(binary.BigEndian.Uint32(front[1:]))
	if length > maxChunkBytes {
		return 0, fmt.Errorf("%w: chunk %d has %d bytes", ErrDamaged, r.number, length)
	}
	if cap(r.buf) < length+4 {
		r.buf = make([]byte, length+4)
	}
	b := r.buf[:length+4]
	if _, err := io.ReadFull(r.in, b); err != nil {
		return 0, cut(err)
	}
	r.buf = b[:length]
	sum := binary.BigEndian.Uint32(b[length:])
	if r.number == 0 && unmarked(sum, r.number, front[:], r.buf) {
		return 0, errUnmarked
	}
	if sum != checksum(r.number, front[:], r.buf) {
		return 0, fmt.Errorf("%w: the checksum of chunk %d does not hold", ErrDamaged, r.number)
	}
	r.number++
	r.bytes += int64(length)
	r.hash.Write(r.buf)
	return kind(front[0]), nil
}

// cut is the error of a file that ends too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends before its end", ErrDamaged)
	}
	return err
}
