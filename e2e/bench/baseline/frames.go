package baseline

import (
	"bufio"
	"encoding/binary"
	"fmt"
)

// A frame is length u32 | number u64 | key length u16 | key | message. The
// length counts what follows it.
const frameHeader = 4 + 8 + 2

func appendFrame(b []byte, number uint64, key string, message []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(8+2+len(key)+len(message)))
	b = binary.BigEndian.AppendUint64(b, number)
	b = binary.BigEndian.AppendUint16(b, uint16(len(key)))
	b = append(b, key...)
	return append(b, message...)
}

// readFrame reads a frame without a copy; key and message are valid until the
// next read.
func readFrame(br *bufio.Reader) (number uint64, key, message []byte, err error) {
	head, err := br.Peek(frameHeader)
	if err != nil {
		return 0, nil, nil, err
	}
	size := 4 + int(binary.BigEndian.Uint32(head))
	if size < frameHeader || size > br.Size() {
		return 0, nil, nil, fmt.Errorf("frame of %d bytes", size)
	}
	frame, err := br.Peek(size)
	if err != nil {
		return 0, nil, nil, err
	}
	_, _ = br.Discard(size) // cannot fail: the bytes are there
	number = binary.BigEndian.Uint64(frame[4:])
	keyEnd := frameHeader + int(binary.BigEndian.Uint16(frame[12:]))
	if keyEnd > size {
		return 0, nil, nil, fmt.Errorf("key of %d bytes in a frame of %d", keyEnd-frameHeader, size)
	}
	return number, frame[frameHeader:keyEnd], frame[keyEnd:], nil
}
