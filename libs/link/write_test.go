package link

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestQueueWaitsForFlush: a queued command is written at Flush, or at a heartbeat.
func TestQueueWaitsForFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		serve(t, p, testConfig(testRegion), echo, nil)
		cfg := testConfig(testGateway)
		cfg.Dial = p.dial
		e, _ := connect(t, cfg, testRegion)
		l := <-e.up
		queue := func() {
			for shard := range uint32(4) {
				if err := l.Queue(shard, command(uint64(shard), "")); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		queue()
		if len(e.answers) > 0 {
			t.Error("written before Flush")
		}
		l.Flush()
		for range 4 {
			<-e.answers
		}
		queue()
		time.Sleep(3 * cfg.Beat)
		if len(e.answers) != 4 {
			t.Errorf("%d answers after three beats", len(e.answers))
		}
	})
}

// tcp is a connection over loopback.
func tcp(t *testing.T) (here, there net.Conn) {
	t.Helper()
	ln := listen(t)
	defer ln.Close()
	here, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if there, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	if newDirect(here) == nil {
		t.Skip("only the writer writes on this system")
	}
	return here, there
}

// TestFullSocketIsLeftToTheWriter: what a connection does not take at once, even a part
// of a frame, is written by the writer, in order.
func TestFullSocketIsLeftToTheWriter(t *testing.T) {
	here, there := tcp(t)
	cfg := testConfig(testRegion)
	var s stream
	s.open(here, &cfg, cfg.MaxPayload, false)
	s.direct = newDirect(here)
	var want []byte
	numbers := uint64(0)
	gather := func() {
		for range 10_000 {
			numbers++
			s.pending = binary.BigEndian.AppendUint64(s.pending, numbers)
			want = binary.BigEndian.AppendUint64(want, numbers)
		}
	}
	s.mu.Lock()
	for s.unwritten == nil {
		gather()
		s.writeHere(false)
	}
	if !s.writing || !s.byWriteLoop {
		t.Error("the writer does not know")
	}
	gather()
	s.writeHere(false) // it is the writer's turn
	if len(s.pending) != 80_000 {
		t.Errorf("%d bytes wait behind the unwritten ones", len(s.pending))
	}
	s.mu.Unlock()
	go s.writeLoop()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(there, got); err != nil || !bytes.Equal(got, want) {
		t.Error("other bytes came", err)
	}
	s.drain()
	if s.writing || s.byWriteLoop || s.unwritten != nil {
		t.Errorf("writing %v, handed over %v, unwritten %d", s.writing, s.byWriteLoop, len(s.unwritten))
	}
	s.fail(ErrDown)
}

// TestOnlyTheWriterWritesWrapped: writes to a wrapped connection and to TLS go
// through its Write method.
func TestOnlyTheWriterWritesWrapped(t *testing.T) {
	here, _ := tcp(t)
	for _, nc := range []net.Conn{tls.Client(here, &tls.Config{}), &brokenPipe{Conn: here}} {
		if newDirect(nc) != nil {
			t.Errorf("%T", nc)
		}
	}
}

// TestSlowReaderOverTCP: a client that reads nothing is disconnected in time although
// direct writes never wait.
func TestSlowReaderOverTCP(t *testing.T) {
	here, _ := tcp(t)
	cfg := testConfig(testRegion)
	cfg.Beat, cfg.Timeout = time.Millisecond, 2*time.Millisecond
	var s stream
	s.open(here, &cfg, cfg.MaxPayload, true)
	s.direct = newDirect(here)
	s.mu.Lock()
	for s.unwritten == nil {
		s.pending = append(s.pending, make([]byte, maxGathered)...)
		s.writeHere(false)
	}
	s.mu.Unlock()
	go s.writeLoop()
	go s.heartbeatLoop()
	<-s.down
	if err := s.reason(); !errors.Is(err, ErrSlowReader) {
		t.Error(err)
	}
}

// TestSlowProgressIsProgress: a client that reads so slowly that a write stays blocked
// for long is not disconnected as long as its system acknowledges bytes, but later.
func TestSlowProgressIsProgress(t *testing.T) {
	here, there := tcp(t)
	if outQueue(here) != 0 || runtime.GOOS != "linux" {
		t.Skip("this system does not tell what the other side has taken")
	}
	cfg := testConfig(testRegion)
	var s stream
	s.open(here, &cfg, cfg.MaxPayload, true)
	s.direct = newDirect(here)
	s.mu.Lock()
	for s.unwritten == nil {
		s.pending = append(s.pending, make([]byte, maxGathered)...)
		s.writeHere(false)
	}
	s.mu.Unlock()
	go s.writeLoop()
	defer s.fail(ErrDown)
	for s.writes.Load()%2 == 0 {
		runtime.Gosched()
	}
	p := progressState{limit: 2}
	var stuck, slow int // ticks; the ones with a write that still waits
	buf := make([]byte, 4<<10)
	for before := s.writes.Load(); stuck < 20; stuck++ {
		if err := s.tick(&p); err != nil {
			t.Fatalf("after %d ticks: %v", stuck, err)
		}
		if s.writes.Load() == before {
			slow++
		}
		before = s.writes.Load()
		for queued := outQueue(here); outQueue(here) == queued && s.writes.Load() == before; {
			if _, err := io.ReadFull(there, buf); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		if s.unsent() < 1<<20 { // always something to wait for
			s.pending = append(s.pending, make([]byte, 1<<20)...)
			s.wakeWriter()
		}
		s.mu.Unlock()
	}
	if slow < 5 {
		t.Errorf("only %d ticks found the write that waited before", slow)
	}
	err := s.tick(&p)
	for err == nil { // what was in progress may still arrive
		runtime.Gosched()
		err = s.tick(&p)
	}
	var stalled *Stalled
	if !errors.As(err, &stalled) || stalled.Pending == 0 || !errors.Is(stalled, ErrSlowReader) {
		t.Errorf("%+v", stalled)
	}
}

// TestFailedDirectWrite: it ends the connection just as a failed write of the writer
// does.
func TestFailedDirectWrite(t *testing.T) {
	here, _ := tcp(t)
	cfg := testConfig(testRegion)
	for _, server := range []bool{true, false} {
		var s stream
		s.open(here, &cfg, cfg.MaxPayload, server)
		s.direct = newDirect(here)
		_ = here.Close()
		s.pending = appendHeartbeat(nil)
		s.writeGathered()
		if !errors.Is(s.reason(), net.ErrClosed) || s.writing {
			t.Errorf("server %v: %v, writing %v", server, s.reason(), s.writing)
		}
	}
}
