package baseline

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// muxTell is the sending end of an entity mux tell.
type muxTell struct {
	nc net.Conn

	mu      sync.Mutex
	pend    []byte // to be written
	sent    uint64
	applied uint64    // as the other side has acknowledged it
	more    sync.Cond // signals that applied has grown, or that err is set
	err     error
}

// MuxTell sends messages to entities in one direction for about length, and waits until all are acknowledged.
// At most window of them are not acknowledged at a time. It returns how many were applied.
func MuxTell(addr string, keys []string, in *wrapperspb.BytesValue, window uint64, length time.Duration) (int64, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = nc.Close() }()
	m := &muxTell{nc: nc}
	m.more.L = &m.mu
	go m.read()
	var message []byte
	for end, n := time.Now().Add(length), 0; n%64 != 0 || time.Now().Before(end); n++ {
		if message, err = (proto.MarshalOptions{}).MarshalAppend(message[:0], in); err != nil {
			return 0, err
		}
		if err := m.send(keys[n%len(keys)], message, window); err != nil {
			return 0, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(m.sent), m.wait(0)
}

func (m *muxTell) send(key string, message []byte, window uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sent-m.applied >= window {
		if err := m.wait(window - 1); err != nil {
			return err
		}
	}
	m.pend = appendFrame(m.pend, m.sent, key, message)
	m.sent++
	if len(m.pend) < buffer {
		return nil
	}
	return m.write()
}

// write writes what is pending. There is one sender, so no other one appends meanwhile.
func (m *muxTell) write() error {
	buf := m.pend
	m.mu.Unlock()
	_, err := m.nc.Write(buf)
	m.mu.Lock()
	m.pend = buf[:0]
	return err
}

// wait waits until at most n messages are not acknowledged.
func (m *muxTell) wait(n uint64) error {
	if err := m.write(); err != nil {
		return err
	}
	for m.sent-m.applied > n && m.err == nil {
		m.more.Wait()
	}
	return m.err
}

// read reads acknowledgements: each is the total of applied messages.
func (m *muxTell) read() {
	br := bufio.NewReader(m.nc)
	for {
		var ack [8]byte
		_, err := io.ReadFull(br, ack[:])
		m.mu.Lock()
		if m.err = err; err == nil {
			m.applied = binary.BigEndian.Uint64(ack[:])
		}
		m.more.Signal()
		m.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// serveMuxTell applies messages, and acknowledges them when it has read everything that had arrived.
func serveMuxTell(nc net.Conn, all *entities) {
	defer func() { _ = nc.Close() }()
	br := bufio.NewReaderSize(nc, buffer)
	var in wrapperspb.BytesValue
	var ack [8]byte
	for n := uint64(1); ; n++ {
		_, key, raw, err := readFrame(br)
		if err != nil || proto.Unmarshal(raw, &in) != nil {
			return
		}
		all.add(key)
		if br.Buffered() == 0 {
			binary.BigEndian.PutUint64(ack[:], n)
			if _, err := nc.Write(ack[:]); err != nil {
				return
			}
		}
	}
}
