package server

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// The states of a shard's entities travel as frames, one for each entity, and one without
// content at the end. A frame is its length in four bytes, the content, and the checksum
// (CRC-32C) of the content in four bytes. So a state that has arrived whole can be used even if
// later ones do not arrive.

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errFrame   = errors.New("what was received as the state of an entity is malformed")
)

// writeKept writes states.
func writeKept(w io.Writer, states []turn.Kept) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var b []byte
	for i := range states {
		if b = appendKept(b[:0], &states[i]); int64(len(b)) > int64(^uint32(0)) {
			return errFrame
		}
		writeFrame(out, b)
	}
	writeFrame(out, nil)
	return out.Flush() // has the first error
}

func writeFrame(out *bufio.Writer, b []byte) {
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(b)))
	_, _ = out.Write(n[:])
	_, _ = out.Write(b)
	binary.BigEndian.PutUint32(n[:], crc32.Checksum(b, castagnoli))
	_, _ = out.Write(n[:])
}

// readKept reads states: at most so many, of at most so many bytes together. It returns those
// that have arrived whole, even with an error. Memory is taken as bytes arrive, whatever
// length a frame claims.
func readKept(r io.Reader, entities, bytes int) ([]turn.Kept, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	var states []turn.Kept
	for left := bytes; ; {
		var n [4]byte
		if _, err := io.ReadFull(in, n[:]); err != nil {
			return states, err
		}
		length := int64(binary.BigEndian.Uint32(n[:]))
		if length > int64(left) || len(states) == entities && length > 0 {
			return states, fmt.Errorf("the states of the shard's entities are more, or larger, than the limits allow: %d entities, %d bytes", entities, bytes)
		}
		b, err := io.ReadAll(io.LimitReader(in, length))
		if err == nil && int64(len(b)) < length {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			_, err = io.ReadFull(in, n[:])
		}
		if err != nil {
			return states, err
		}
		if crc32.Checksum(b, castagnoli) != binary.BigEndian.Uint32(n[:]) {
			return states, fmt.Errorf("%w: its checksum is wrong", errFrame)
		}
		if length == 0 {
			return states, nil
		}
		k, err := decodeKept(b)
		if err != nil {
			return states, err
		}
		states = append(states, k)
		left -= int(length)
	}
}

func appendKept(b []byte, k *turn.Kept) []byte {
	b = appendText(b, string(k.ID))
	b = binary.AppendUvarint(b, uint64(k.Form.Version))
	b = binary.BigEndian.AppendUint64(b, k.Form.Shape)
	b = appendText(b, string(k.Payload))
	b = binary.AppendUvarint(b, uint64(len(k.Timers)))
	for i := range k.Timers {
		t := &k.Timers[i]
		b = appendText(b, t.Name)
		b = binary.AppendVarint(b, int64(t.After))
		b = binary.AppendVarint(b, int64(t.Every))
		b = appendText(b, t.Command)
		b = append(b, byte(t.Encoding))
		b = appendText(b, string(t.Payload))
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// maxKeptTimers is more than any entity may have.
const maxKeptTimers = 1 << 16

func decodeKept(b []byte) (turn.Kept, error) {
	d := keptDecoder{b: b}
	k := turn.Kept{ID: sharding.EntityID(d.bytes())}
	version := d.uvarint()
	k.Form = sharding.SnapshotForm{Version: uint16(version), Shape: d.uint64()}
	k.Payload = d.bytes()
	timers := d.uvarint()
	if version > 1<<16-1 || timers > maxKeptTimers {
		d.bad = true
	}
	for ; timers > 0 && !d.bad; timers-- {
		t := turn.Timer{Name: string(d.bytes()), After: time.Duration(d.varint()), Every: time.Duration(d.varint()), Command: string(d.bytes())}
		t.Encoding, t.Payload = sharding.Encoding(d.byte()), d.bytes()
		if t.After <= 0 || t.Every < 0 {
			d.bad = true
		}
		k.Timers = append(k.Timers, t)
	}
	entity := sharding.Entity{Type: "T", ID: k.ID}
	if d.bad || len(d.b) > 0 {
		return turn.Kept{}, errFrame
	}
	if err := entity.Check(); err != nil {
		return turn.Kept{}, fmt.Errorf("%w: %w", errFrame, err)
	}
	return k, nil
}

// keptDecoder reads what appendKept wrote. After an error it returns zeros.
type keptDecoder struct {
	b   []byte
	bad bool
}

func (d *keptDecoder) take(n uint64) []byte {
	if d.bad = d.bad || n > uint64(len(d.b)); d.bad {
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *keptDecoder) skip(n int) {
	if d.bad = d.bad || n <= 0; !d.bad {
		d.b = d.b[n:]
	}
}

func (d *keptDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.skip(n)
	return v
}

func (d *keptDecoder) varint() int64 {
	v, n := binary.Varint(d.b)
	d.skip(n)
	return v
}

func (d *keptDecoder) bytes() []byte { return d.take(d.uvarint()) }

func (d *keptDecoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *keptDecoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}
