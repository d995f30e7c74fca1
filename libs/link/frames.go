package link

import (
	"encoding/binary"
	"fmt"
	"io"
)

// frameReader splits a byte stream into frames. It reads as much as there is and
// returns the frames as parts of one buffer.
type frameReader struct {
	buf  []byte
	r, w int // unread bytes are buf[r:w]
	base int // usual size of buf
	max  int // longest frame, length field not counted
}

func newFrameReader(size, maxFrame int, first []byte) frameReader {
	f := frameReader{buf: make([]byte, max(size, len(first))), base: size, max: maxFrame}
	f.w = copy(f.buf, first)
	return f
}

// next returns the next whole frame in the buffer; ok is false if there is none.
// body is valid until fill is called.
func (f *frameReader) next() (kind byte, body []byte, ok bool, err error) {
	have := f.w - f.r
	if have < 4 {
		return 0, nil, false, nil
	}
	n, err := f.length()
	if err != nil || have < 4+n {
		return 0, nil, false, err
	}
	frame := f.buf[f.r+4 : f.r+4+n]
	f.r += 4 + n
	return frame[0], frame[1:], true, nil
}

func (f *frameReader) length() (int, error) {
	n := binary.BigEndian.Uint32(f.buf[f.r:])
	if n == 0 || uint64(n) > uint64(f.max) {
		return 0, fmt.Errorf("%w: frame of %d bytes, 1 to %d are allowed", ErrMalformed, n, f.max)
	}
	return int(n), nil
}

// fill reads once. It is called when next has found no whole frame. The buffer
// grows only as bytes arrive, whatever length the frame claims.
func (f *frameReader) fill(src io.Reader) error {
	have := f.w - f.r
	switch {
	case have == 0 && len(f.buf) > f.base:
		f.buf = make([]byte, f.base)
	case f.r == 0 && have == len(f.buf):
		grown := make([]byte, min(2*len(f.buf), f.max+4))
		copy(grown, f.buf)
		f.buf = grown
	case f.r > 0:
		copy(f.buf, f.buf[f.r:f.w])
	}
	f.r, f.w = 0, have
	n, err := src.Read(f.buf[f.w:])
	f.w += n
	if n > 0 {
		return nil
	}
	if err == io.EOF && have > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}
