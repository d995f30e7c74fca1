package baseline

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Tell sends messages to entities in one direction, as fast as the other side reads them,
// for about length. It returns how many the other side has counted.
func Tell(addr string, keys []string, in *wrapperspb.BytesValue, length time.Duration) (int64, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = nc.Close() }()
	var message, buf []byte
	end := time.Now().Add(length)
	for n := 0; ; n++ {
		if message, err = (proto.MarshalOptions{}).MarshalAppend(message[:0], in); err != nil {
			return 0, err
		}
		buf = appendFrame(buf, uint64(n), keys[n%len(keys)], message)
		if len(buf) < buffer-1024 {
			continue
		}
		if _, err := nc.Write(buf); err != nil {
			return 0, err
		}
		buf = buf[:0]
		if time.Now().After(end) {
			break
		}
	}
	if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
		return 0, err
	}
	var counted [8]byte
	_, err = io.ReadFull(nc, counted[:])
	return int64(binary.BigEndian.Uint64(counted[:])), err
}

// serveTell reads messages, and at the end writes how many there were.
func serveTell(nc net.Conn, all *entities) {
	defer func() { _ = nc.Close() }()
	br := bufio.NewReaderSize(nc, buffer)
	var in wrapperspb.BytesValue
	for n := uint64(0); ; n++ {
		_, key, raw, err := readFrame(br)
		if err != nil || proto.Unmarshal(raw, &in) != nil {
			_, _ = nc.Write(binary.BigEndian.AppendUint64(nil, n))
			return
		}
		all.add(key)
	}
}
