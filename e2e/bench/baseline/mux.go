package baseline

import (
	"bufio"
	"encoding/binary"
	"net"
	"runtime"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const buffer = 64 << 10

// Mux is a connection to the entity mux for a fixed number of callers.
type Mux struct {
	nc      net.Conn
	callers []muxCaller

	mu   sync.Mutex
	pend []byte // to be written
	free []byte // a buffer for reuse
	busy bool   // a caller writes
	err  error
}

type muxCaller struct {
	out   []byte // belongs to the caller
	reply []byte // belongs to the reader until done is signalled
	done  chan struct{}
	_     [40]byte
}

// DialMux connects to the entity mux.
func DialMux(addr string, callers int) (*Mux, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	m := &Mux{nc: nc, callers: make([]muxCaller, callers)}
	for i := range m.callers {
		m.callers[i].done = make(chan struct{}, 1)
	}
	go m.read()
	return m, nil
}

// Close ends the connection.
func (m *Mux) Close() { _ = m.nc.Close() }

// Ask sends a message to an entity and reads its reply.
func (m *Mux) Ask(caller int, key string, in *wrapperspb.BytesValue, out *wrapperspb.BytesValue) error {
	c := &m.callers[caller]
	var err error
	if c.out, err = (proto.MarshalOptions{}).MarshalAppend(c.out[:0], in); err != nil {
		return err
	}
	if err := m.send(uint64(caller), key, c.out); err != nil {
		return err
	}
	<-c.done
	m.mu.Lock()
	err = m.err
	m.mu.Unlock()
	if err != nil {
		return err
	}
	return proto.Unmarshal(c.reply, out)
}

func (m *Mux) send(number uint64, key string, message []byte) error {
	m.mu.Lock()
	if m.err != nil {
		m.mu.Unlock()
		return m.err
	}
	m.pend = appendFrame(m.pend, number, key, message)
	if m.busy {
		m.mu.Unlock()
		return nil
	}
	m.busy = true
	m.mu.Unlock()
	runtime.Gosched() // others may join
	for {
		m.mu.Lock()
		if len(m.pend) == 0 {
			m.busy = false
			m.mu.Unlock()
			return nil
		}
		buf := m.pend
		m.pend = m.free[:0]
		m.mu.Unlock()
		if _, err := m.nc.Write(buf); err != nil {
			return err
		}
		m.free = buf
	}
}

func (m *Mux) read() {
	br := bufio.NewReaderSize(m.nc, buffer)
	for {
		number, _, message, err := readFrame(br)
		if err != nil {
			m.mu.Lock()
			m.err = err
			m.mu.Unlock()
			for i := range m.callers {
				select {
				case m.callers[i].done <- struct{}{}:
				default:
				}
			}
			return
		}
		c := &m.callers[number]
		c.reply = append(c.reply[:0], message...)
		c.done <- struct{}{}
	}
}

// serveMux answers each message of 64 bytes by one of 16.
func serveMux(nc net.Conn, all *entities) {
	defer func() { _ = nc.Close() }()
	br, bw := bufio.NewReaderSize(nc, buffer), bufio.NewWriterSize(nc, buffer)
	var in, out wrapperspb.BytesValue
	out.Value = make([]byte, 14)
	var message, frame []byte
	for {
		number, key, raw, err := readFrame(br)
		if err != nil || proto.Unmarshal(raw, &in) != nil {
			return
		}
		binary.BigEndian.PutUint64(out.Value, all.add(key))
		if message, err = (proto.MarshalOptions{}).MarshalAppend(message[:0], &out); err != nil {
			return
		}
		frame = appendFrame(frame[:0], number, "", message)
		if _, err := bw.Write(frame); err != nil {
			return
		}
		if br.Buffered() == 0 {
			if err := bw.Flush(); err != nil {
				return
			}
		}
	}
}
