package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Stored form, formats 1 and 2. Numbers are unsigned varints unless a width is given,
// strings and bytes are preceded by their length, fixed widths are big endian.
//
//	record:   crc(4) epoch stored-at-ms hash(16) command
//	          count { name version readable-by encoding(1) payload }
//	          count { kind(1) name number due-ms period-ms input }
//	          count { type id input reply-to timeout-ms retry-min-ms retry-max-ms max-age-ms }
//	          [ flags ]
//	input:    command version readable-by shape(8) encoding(1) payload
//	reply:    crc(4) outcome(1) encoding(1) code message payload
//	snapshot: crc(4) epoch encoding(1) version shape(8) payload
//
// The flags are there if any is set: 1, the record deletes its entity.
//
// A reply is kept apart from its record, because it may be large and only a repeat of the command asks
// for it: a replay does not read it. A record without one (see [AppendReply]) has none stored. After
// the events of a record come its wake-ups and its sends (at most [MaxWakes] and [MaxSends]). The bits
// of due-ms encode a signed number, which is negative for a remembered entity.
//
// A record with more than 1,024 events has seven bytes for each at least, their names and
// payloads with lengths and encodings: an event takes 48 bytes in memory, so a record may take
// eight times its stored size.
//
// crc is CRC-32C (Castagnoli) over type, id, sequence number and the rest of
// the form, so that a record in the wrong place is found as well.

// The largest numbers of wake-ups and sends of a record: what one turn can do that does not
// let a whole shard wait.
const MaxWakes, MaxSends = 1024, 1000

const (
	maxTinyEvents = 1024 // events of a record that may have any size
	minEventBytes = 7    // minimum average size if there are more
	// The smallest sizes: a wrong count allocates little.
	minInputBytes = 13
	minWakeBytes  = 5 + minInputBytes
	minSendBytes  = 7 + minInputBytes
)

// The flags of a record.
const (
	flagDelete = 1 << iota
	flagOperator
	flagsKnown = 1<<iota - 1
)

func flagsOf(r *sharding.Record) (flags uint64) {
	if r.Delete {
		flags |= flagDelete
	}
	if r.Operator {
		flags |= flagOperator
	}
	return flags
}

// tooDense reports whether the number of events is too high for their size in bytes.
func tooDense(events, bytes int) bool { return events > maxTinyEvents && bytes < events*minEventBytes }

// denseRecord reports whether a record has too many events for their size.
func denseRecord(r sharding.Record) bool {
	if len(r.Events) <= maxTinyEvents {
		return false
	}
	bytes := 0
	for i := range r.Events {
		bytes += len(r.Events[i].Name) + len(r.Events[i].Payload) + 5 // lengths, versions and encoding, at least
	}
	return tooDense(len(r.Events), bytes)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is a stored record, without its reply, with its epoch and time.
type Entry struct {
	Record sharding.Record
	Epoch  sharding.Epoch
	At     time.Time // when it was stored, in whole milliseconds
}

// AppendRecord appends the stored form of a record to b, without its reply.
func AppendRecord(b []byte, entity sharding.Entity, epoch sharding.Epoch, at time.Time, r *sharding.Record) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.AppendUvarint(b, uint64(epoch))
	b = binary.AppendUvarint(b, uint64(at.UnixMilli()))
	b = append(b, r.Hash[:]...)
	b = appendBytes(b, r.Command)
	b = binary.AppendUvarint(b, uint64(len(r.Events)))
	for i := range r.Events {
		e := &r.Events[i]
		b = appendBytes(b, e.Name)
		b = binary.AppendUvarint(b, uint64(e.Version))
		b = binary.AppendUvarint(b, uint64(e.ReadableBy))
		b = append(b, byte(e.Encoding))
		b = appendBytes(b, e.Payload)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Wakes)))
	for i := range r.Wakes {
		w := &r.Wakes[i]
		b = appendBytes(append(b, byte(w.Kind)), w.Name)
		b = binary.AppendUvarint(b, w.Number)
		b = binary.AppendUvarint(b, uint64(w.Due))
		b = binary.AppendUvarint(b, uint64(w.Period))
		b = appendInput(b, &w.Input)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Sends)))
	for i := range r.Sends {
		s := &r.Sends[i]
		b = appendBytes(appendBytes(b, s.To.Type), s.To.ID)
		b = appendBytes(appendInput(b, &s.Input), s.ReplyTo)
		for _, t := range [...]time.Duration{s.Options.Timeout, s.Options.RetryMin, s.Options.RetryMax, s.Options.MaxAge} {
			b = binary.AppendUvarint(b, uint64(t.Milliseconds()))
		}
	}
	if flags := flagsOf(r); flags != 0 {
		b = binary.AppendUvarint(b, flags)
	}
	seal(b[start:], entity, r.Seq)
	return b
}

func appendInput(b []byte, in *sharding.Input) []byte {
	b = appendBytes(b, in.Command)
	b = binary.AppendUvarint(b, uint64(in.Version))
	b = binary.AppendUvarint(b, uint64(in.ReadableBy))
	b = binary.BigEndian.AppendUint64(b, in.Shape)
	return appendBytes(append(b, byte(in.Encoding)), in.Payload)
}

// AppendReply appends the stored form of a record's reply to b, nothing if the
// record has none.
func AppendReply(b []byte, entity sharding.Entity, r *sharding.Record) []byte {
	if r.Reply.Outcome == 0 {
		return b
	}
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(r.Reply.Outcome), byte(r.Reply.Encoding))
	b = appendBytes(b, r.Reply.Code)
	b = appendBytes(b, r.Reply.Message)
	b = appendBytes(b, r.Reply.Payload)
	sealReply(b[start:], entity, r.Seq)
	return b
}

// DecodeReply reads the stored form of the reply of the record seq of an entity;
// nothing is the empty reply. An error wraps ErrCorrupt and names both. The reply
// shares no memory with b.
func DecodeReply(entity sharding.Entity, seq uint64, b []byte) (sharding.Reply, error) {
	var r sharding.Reply
	if len(b) == 0 {
		return r, nil
	}
	if len(b) < 4 || binary.BigEndian.Uint32(b) != replySum(b[4:], entity, seq) {
		return r, fmt.Errorf("%w: %s, the reply of record %d does not match its checksum", ErrCorrupt, entity, seq)
	}
	d := decoder{b: b[4:]}
	r.Outcome, r.Encoding = sharding.Outcome(d.byte()), sharding.Encoding(d.byte())
	r.Code, r.Message, r.Payload = sharding.Code(d.bytes()), string(d.bytes()), d.payload()
	if d.bad || len(d.b) > 0 || r.Outcome == 0 {
		return sharding.Reply{}, fmt.Errorf("%w: %s, the reply of record %d cannot be read", ErrCorrupt, entity, seq)
	}
	return r, nil
}

// DecodeRecord reads the stored form of the record seq of an entity. An error
// wraps ErrCorrupt and names both. The record shares no memory with b, and its
// reply is empty.
func DecodeRecord(entity sharding.Entity, seq uint64, b []byte) (Entry, error) {
	if !sealed(b, entity, seq) {
		return Entry{}, fmt.Errorf("%w: %s, record %d does not match its checksum", ErrCorrupt, entity, seq)
	}
	d := decoder{b: b[4:]}
	e := Entry{Epoch: sharding.Epoch(d.uint()), At: time.UnixMilli(int64(d.uint())).UTC()}
	r := &e.Record
	r.Seq = seq
	copy(r.Hash[:], d.take(sharding.HashSize))
	r.Command = sharding.CommandID(d.bytes())
	// An event takes five bytes at least: a wrong count allocates nothing.
	if n := d.uint(); n > 0 && n <= uint64(len(d.b))/5 && !tooDense(int(n), len(d.b)) {
		r.Events = make([]sharding.Event, n)
	} else if n > 0 {
		d.bad = true
	}
	left := len(d.b)
	for i := range r.Events {
		r.Events[i] = sharding.Event{
			Name: string(d.bytes()), Version: d.uint16(), ReadableBy: d.uint16(),
			Encoding: sharding.Encoding(d.byte()), Payload: d.payload(),
		}
	}
	d.bad = d.bad || tooDense(len(r.Events), left-len(d.b))
	if n := d.count(MaxWakes, minWakeBytes); n > 0 {
		r.Wakes = make([]sharding.Wake, n)
	}
	for i := range r.Wakes {
		w := &r.Wakes[i]
		w.Kind, w.Name, w.Number = sharding.WakeKind(d.byte()), string(d.bytes()), d.uint()
		w.Due, w.Period, w.Input = int64(d.uint()), int64(d.uint()), d.input()
		d.bad = d.bad || w.Check() != nil
	}
	if n := d.count(MaxSends, minSendBytes); n > 0 {
		r.Sends = make([]sharding.Send, n)
	}
	for i := range r.Sends {
		s := &r.Sends[i]
		s.To = sharding.Entity{Type: sharding.EntityType(d.bytes()), ID: sharding.EntityID(d.bytes())}
		s.Input, s.ReplyTo = d.input(), string(d.bytes())
		s.Options = sharding.SendOptions{Timeout: d.milliseconds(), RetryMin: d.milliseconds(), RetryMax: d.milliseconds(), MaxAge: d.milliseconds()}
	}
	if len(d.b) > 0 {
		flags := d.uint()
		r.Delete, r.Operator = flags&flagDelete != 0, flags&flagOperator != 0
		d.bad = d.bad || flags == 0 || flags > flagsKnown
	}
	if d.bad || len(d.b) > 0 {
		return Entry{}, fmt.Errorf("%w: %s, record %d cannot be read", ErrCorrupt, entity, seq)
	}
	return e, nil
}

// AppendSnapshot appends the stored form of a snapshot to b.
func AppendSnapshot(b []byte, s *WriteSnapshot) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.AppendUvarint(b, uint64(s.Epoch))
	b = append(b, byte(s.Snapshot.Encoding))
	b = binary.AppendUvarint(b, uint64(s.Snapshot.Form.Version))
	b = binary.BigEndian.AppendUint64(b, s.Snapshot.Form.Shape)
	b = appendBytes(b, s.Snapshot.Payload)
	seal(b[start:], s.Entity, s.Snapshot.Seq)
	return b
}

// DecodeSnapshot reads the stored form of an entity's snapshot at seq. An
// error wraps ErrCorrupt. The snapshot shares no memory with b.
func DecodeSnapshot(entity sharding.Entity, seq uint64, b []byte) (Snapshot, error) {
	if !sealed(b, entity, seq) {
		return Snapshot{}, fmt.Errorf("%w: %s, snapshot at %d does not match its checksum", ErrCorrupt, entity, seq)
	}
	d := decoder{b: b[4:]}
	d.uint()
	s := Snapshot{Seq: seq, Encoding: sharding.Encoding(d.byte()), Form: sharding.SnapshotForm{Version: d.uint16(), Shape: d.uint64()}, Payload: d.payload()}
	if d.bad || len(d.b) > 0 {
		return Snapshot{}, fmt.Errorf("%w: %s, snapshot at %d cannot be read", ErrCorrupt, entity, seq)
	}
	return s, nil
}

func appendBytes[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// seal writes the checksum of a stored form into its first four bytes.
func seal(b []byte, entity sharding.Entity, seq uint64) {
	binary.BigEndian.PutUint32(b, checksum(b[4:], entity, seq))
}

func sealed(b []byte, entity sharding.Entity, seq uint64) bool {
	return len(b) >= 4 && binary.BigEndian.Uint32(b) == checksum(b[4:], entity, seq)
}

// The checksum of a reply is inverted, so that a reply is never mistaken for its
// record, nor the other way round.
func sealReply(b []byte, entity sharding.Entity, seq uint64) {
	binary.BigEndian.PutUint32(b, replySum(b[4:], entity, seq))
}

func replySum(b []byte, entity sharding.Entity, seq uint64) uint32 {
	return ^checksum(b, entity, seq)
}

func checksum(b []byte, entity sharding.Entity, seq uint64) uint32 {
	place := sumBytes(sumBytes(sumByte(^uint32(0), Mark), entity.Type), entity.ID)
	return crc32.Update(^sumUint(place, seq), castagnoli, b)
}

// sumBytes adds to a checksum what appendBytes appends. It is for short strings: it
// works byte by byte, and does not allocate a slice as package crc32 would need.
func sumBytes[T ~string](sum uint32, s T) uint32 {
	sum = sumUint(sum, uint64(len(s)))
	for i := range len(s) {
		sum = sumByte(sum, s[i])
	}
	return sum
}

// sumUint adds to a checksum what binary.AppendUvarint appends.
func sumUint(sum uint32, v uint64) uint32 {
	for ; v >= 0x80; v >>= 7 {
		sum = sumByte(sum, byte(v)|0x80)
	}
	return sumByte(sum, byte(v))
}

func sumByte(sum uint32, b byte) uint32 { return castagnoli[byte(sum)^b] ^ sum>>8 }

// decoder reads a stored form. Missing bytes set bad and read as zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return nil
	}
	head := d.b[:n]
	d.b = d.b[n:]
	return head
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || n > 1 && d.b[n-1] == 0 { // encodings are minimal
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads how many things of a least size follow.
func (d *decoder) count(most, size uint64) uint64 {
	n := d.uint()
	if n > most || n > uint64(len(d.b))/size {
		d.b, d.bad = nil, true
		return 0
	}
	return n
}

func (d *decoder) input() sharding.Input {
	return sharding.Input{
		Command: string(d.bytes()), Version: d.uint16(), ReadableBy: d.uint16(), Shape: d.uint64(),
		Encoding: sharding.Encoding(d.byte()), Payload: d.payload(),
	}
}

func (d *decoder) milliseconds() time.Duration {
	v := d.uint()
	if v > math.MaxInt64/uint64(time.Millisecond) {
		d.b, d.bad = nil, true
		return 0
	}
	return time.Duration(v) * time.Millisecond
}

func (d *decoder) uint16() uint16 {
	v := d.uint()
	d.bad = d.bad || v > math.MaxUint16
	return uint16(v)
}

func (d *decoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) bytes() []byte { return d.take(d.uint()) }

func (d *decoder) payload() []byte {
	b := d.bytes()
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}
