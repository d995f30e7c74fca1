package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roost-cluster/roost/libs/conn"
)

var (
	// errClosed ends a connection that is closed cleanly: every command is answered first.
	errClosed = errors.New("closed cleanly")
	// errDetached ends a reader that another goroutine has replaced.
	errDetached = errors.New("another goroutine reads the connection")
)

// stream is one connection after the handshake, the same on both sides: an
// output buffer and its writer, a frame reader, and heartbeats.
type stream struct {
	nc         net.Conn
	direct     *direct   // writes without waiting; nil: not possible, only the writer goroutine writes
	inNames    nameTable // used by the reader only
	frames     frameReader
	readErr    error // why the reader ended
	maxPayload int   // the smaller of the two sides' limits
	// A client refuses commands when either limit is reached. A server reads no more
	// commands while maxPendingMsgs answers wait to be written.
	maxPendingBytes int
	maxPendingMsgs  int
	beat            time.Duration
	timeout         time.Duration
	// server is true at the server's end. A server closes a connection if the client reads no
	// answers. A client does not close a connection because the server stops reading: a region that
	// reads nothing is alive as long as it sends heartbeats.
	server bool

	mu          sync.Mutex
	work        sync.Cond // signals the writer goroutine that there is something to write
	progress    sync.Cond // signals that something was written or answered, or that the stream ended
	outNames    nameTable
	pending     []byte // whole frames that no write has taken yet
	pendingMsgs int    // messages in pending
	inFlight    int    // bytes that are being written: a goroutine has taken them from pending, and they are not written yet
	unwritten   []byte // rest of a buffer that a sender has begun to write; the writer goroutine continues
	spareBuf    []byte // memory for the next pending
	unanswered  int    // server: commands that were given to the region and are not answered yet
	writing     bool   // a goroutine is writing, or is about to; no other goroutine may
	byWriteLoop bool   // if writing: the writer goroutine (writeLoop) writes, not a sender
	closing     bool   // nothing more is accepted; pending is still written
	readerLeft  bool   // server: the reader has left, and another connection may have the lane
	err         error  // the first reason for the end; pending is not written any more

	down chan struct{} // closed when err is set

	// reads and writes are incremented before and after each call of Read or Write, so they
	// are odd during a call. If one of them stays at the same odd number for long, the other
	// side is silent, or does not read. (A write that does not wait adds 2 after the call.)
	reads, writes atomic.Uint64
}

// open initializes the stream of a connection. Nothing is read or written
// before the call of start.
func (s *stream) open(nc net.Conn, cfg *Config, maxPayload int, server bool) {
	s.nc, s.server = nc, server
	s.maxPayload = maxPayload
	s.maxPendingBytes, s.maxPendingMsgs = cfg.MaxPendingBytes, cfg.MaxPendingMessages
	s.beat, s.timeout = cfg.Beat, cfg.Timeout
	s.work.L, s.progress.L = &s.mu, &s.mu
	s.down = make(chan struct{})
}

// start starts the writer and the heartbeats. The caller runs the reader. first
// are the bytes that the handshake has read beyond its end.
func (s *stream) start(cfg *Config, first []byte) {
	s.frames = newFrameReader(cfg.ReadBuffer, s.maxPayload+headerRoom, first)
	noDelay(s.nc)
	s.direct = newDirect(s.nc)
	go s.writeLoop()
	go s.heartbeatLoop()
}

// full reports whether there is no room for a command with a payload of n bytes.
func (s *stream) full(n int) bool {
	return s.pendingMsgs >= s.maxPendingMsgs || len(s.pending)+n+headerRoom > s.maxPendingBytes
}

// unsent returns how many bytes wait to be written.
func (s *stream) unsent() int { return len(s.pending) + s.inFlight }

// lagging reports whether so many messages or bytes are pending that writing must begin now.
func (s *stream) lagging() bool {
	return s.pendingMsgs >= s.maxPendingMsgs || s.unsent() > s.maxPendingBytes/2
}

// leaveToWriter counts messages that were appended to pending, and has the writer goroutine
// write pending.
func (s *stream) leaveToWriter(messages int) {
	s.pendingMsgs += messages
	s.wakeWriter()
}

// wakeWriter has the writer goroutine write what is pending. It does nothing if a goroutine
// is writing already: that goroutine will also write what is pending.
func (s *stream) wakeWriter() {
	if !s.writing {
		s.writing, s.byWriteLoop = true, true
		s.work.Signal()
	}
}

// gather counts messages that were appended to pending. The caller will call writeHere soon. If
// much is pending, the writer goroutine does not wait for that: it starts at once, to bound the
// memory and to let the other side begin its work.
func (s *stream) gather(messages int) {
	s.pendingMsgs += messages
	if len(s.pending) >= maxGathered || s.lagging() {
		s.wakeWriter()
	}
}

// writeGathered calls writeHere with mu held.
func (s *stream) writeGathered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeHere(false)
}

// writeHere writes what is pending, and what others append meanwhile. It does nothing if
// another goroutine is writing, or about to. It does not wait for the network: bytes that the
// connection does not take at once are left to the writer goroutine. If yield is set, it first lets
// other senders append. It must be called with mu held, and releases mu while it writes.
func (s *stream) writeHere(yield bool) {
	if s.writing || len(s.pending) == 0 || s.err != nil {
		return
	}
	if s.direct == nil {
		s.wakeWriter()
		return
	}
	s.writing = true
	if yield {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	for rounds := 0; len(s.pending) > 0 && s.err == nil; rounds++ {
		if rounds == maxRounds {
			s.passToWriter(nil)
			return
		}
		buf := s.swap()
		s.mu.Unlock()
		n, err := s.direct.write(buf)
		s.writes.Add(2)
		if err != nil {
			s.unwritable(fmt.Errorf("write: %w", err))
		}
		s.mu.Lock()
		s.inFlight = max(0, s.inFlight-n) // it is 0 already if the stream has ended meanwhile
		if err == nil && n < len(buf) {
			s.passToWriter(buf[n:])
			return
		}
		s.recycle(buf)
	}
	s.writing = false
	s.progress.Broadcast()
}

// passToWriter lets the writer goroutine continue in place of the caller, beginning with the
// unwritten part of the caller's buffer.
func (s *stream) passToWriter(unwritten []byte) {
	s.unwritten, s.byWriteLoop = unwritten, true
	s.work.Signal()
}

// swap takes all pending bytes for one write.
func (s *stream) swap() []byte {
	buf := s.pending
	s.pending, s.spareBuf, s.pendingMsgs, s.inFlight = s.spareBuf, nil, 0, len(buf)
	s.progress.Broadcast()
	return buf
}

// recycle keeps the memory of a buffer that was written.
func (s *stream) recycle(buf []byte) {
	if cap(buf) <= maxSpare {
		s.spareBuf = buf[:0]
	}
}

func (s *stream) writeLoop() {
	for buf, ok := s.take(nil); ok; buf, ok = s.take(buf) {
		for rest := buf; len(rest) > 0; {
			s.writes.Add(1)
			n, err := s.writeSome(rest)
			s.writes.Add(1)
			if err != nil {
				s.unwritable(fmt.Errorf("write: %w", err))
				return
			}
			rest = rest[n:]
			s.wrote(n)
		}
	}
}

// writeSome waits until the connection takes at least one byte of b.
func (s *stream) writeSome(b []byte) (int, error) {
	if s.direct != nil {
		return s.direct.writeSome(b)
	}
	return s.nc.Write(b[:min(len(b), maxWrite)])
}

// wrote counts bytes that the writer goroutine has written.
func (s *stream) wrote(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight = max(0, s.inFlight-n) // it is 0 already if the stream has ended meanwhile
	s.progress.Broadcast()
}

// take returns the next buffer for the writer goroutine to write. It waits until there is
// something for that goroutine to do, and recycles the buffer that was written before. It
// returns false when the stream has ended.
func (s *stream) take(written []byte) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if written != nil {
		s.recycle(written)
	}
	if s.byWriteLoop && len(s.pending) == 0 && s.unwritten == nil {
		s.writing, s.byWriteLoop = false, false
		s.progress.Broadcast()
	}
	if !s.byWriteLoop {
		for !s.byWriteLoop && s.err == nil {
			s.work.Wait()
		}
		// The writer goroutine has slept. Before it takes the first buffer, it lets other
		// goroutines run once, so that they can append to this buffer.
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	if s.err != nil {
		return nil, false
	}
	if buf := s.unwritten; buf != nil {
		s.unwritten = nil
		return buf, true
	}
	return s.swap(), true
}

// unwritable ends a stream whose write failed. The bytes that have already been
// received may contain answers, so a client reads them to the end.
func (s *stream) unwritable(err error) {
	if s.server {
		s.fail(err)
		return
	}
	s.setErr(err)
	_ = s.nc.SetReadDeadline(time.Now().Add(lingerTime))
}

// setErr records why the stream ends. Nothing is accepted or written after that.
func (s *stream) setErr(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setErrLocked(err)
}

func (s *stream) setErrLocked(err error) {
	if s.err == nil {
		s.err = err
		close(s.down)
		if s.server {
			// The stream stays in memory until the region has answered all commands that came over it.
			// Its buffers need not stay.
			s.pending, s.spareBuf, s.unwritten, s.inFlight = nil, nil, nil, 0
		}
	}
	s.work.Broadcast()
	s.progress.Broadcast()
}

// fail ends the stream at once.
func (s *stream) fail(err error) {
	s.setErr(err)
	abort(s.nc)
}

// reason returns why the stream ended.
func (s *stream) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// sendClose appends the close frame. It is the last frame of a client, and of a server that
// gives a reason. A server that closes cleanly still answers what it reads.
func (s *stream) sendClose(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.err != nil {
		return
	}
	s.closing = !s.server || reason != ""
	s.pending = appendClose(s.pending, reason)
	s.wakeWriter()
}

// closeSent reports whether this side's last frame has been handed to a write.
func (s *stream) closeSent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing && len(s.pending) == 0
}

// errOrClosed returns the error to give to callers: errClosed if the stream was closed
// cleanly. mu must be held.
func (s *stream) errOrClosed() error {
	if s.err != nil {
		return s.err
	}
	return errClosed
}

// drain waits until every command is answered and everything is written, or the
// stream has ended.
func (s *stream) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && (s.unanswered > 0 || s.writing || len(s.pending) > 0) {
		s.progress.Wait()
	}
}

// linger ends a stream whose peer has broken the protocol. It sends the reason, and continues reading
// for a moment: closing a TCP connection while received bytes are unread would discard the reason.
func (s *stream) linger(reason error) {
	_ = s.nc.SetDeadline(time.Now().Add(lingerTime))
	s.sendClose(reason.Error())
	s.mu.Lock()
	s.unanswered = 0
	s.mu.Unlock()
	s.drain()
	if cw, ok := s.nc.(interface{ CloseWrite() error }); ok {
		_ = cw.CloseWrite()
		_, _ = io.CopyN(io.Discard, s.nc, 1<<20)
	}
	s.fail(reason)
}

// readLoop reads frames until the stream ends. It calls handle for each frame that carries a
// message. It calls flush when no whole frame is buffered, after maxBatch frames, and at the
// end. When flush returns false, another goroutine has become the reader. The calling
// goroutine must then not use the stream any more. On a server readLoop returns errClosed
// after the client's last frame.
func (s *stream) readLoop(handle func(kind byte, body []byte) error, flush func() bool) error {
	sinceFlush := 0 // frames
	for s.readErr == nil {
		kind, body, ok, err := s.frames.next()
		if err == nil && ok {
			err = s.dispatch(kind, body, handle)
		}
		s.readErr = err
		handled := ok && err == nil // if so, another whole frame may be buffered
		if sinceFlush++; handled && sinceFlush < maxBatch {
			continue
		}
		sinceFlush = 0
		if !flush() {
			return errDetached
		}
		if handled {
			continue
		}
		if s.server {
			s.writeGathered()
		}
		if err == nil {
			s.readErr = s.fill()
		}
	}
	return s.readErr
}

// fill reads once, and counts the call for the timeout.
func (s *stream) fill() error {
	s.reads.Add(1)
	err := s.frames.fill(s.nc)
	s.reads.Add(1)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

func (s *stream) dispatch(kind byte, body []byte, handle func(byte, []byte) error) error {
	switch {
	case kind == kindHeartbeat && len(body) == 0:
		return nil
	case kind == kindClose && len(body) == 0 && s.server:
		return errClosed
	case kind == kindClose && len(body) == 0:
		s.sendClose("")
		return nil
	case kind == kindClose:
		return fmt.Errorf("%w: the other side says: %q", ErrDown, clipMessage(string(body)))
	}
	return handle(kind, body)
}

// heartbeatLoop sends heartbeats when nothing else was written, and closes a connection that is
// dead. It counts ticks instead of reading clocks: a pause of this process is then one tick, and not
// a long silence of the other side.
func (s *stream) heartbeatLoop() {
	ticker := time.NewTicker(s.beat)
	defer ticker.Stop()
	st := progressState{limit: int((s.timeout + s.beat - 1) / s.beat)}
	for {
		select {
		case <-s.down:
			return
		case <-ticker.C:
		}
		if err := s.tick(&st); err != nil {
			s.fail(err)
			return
		}
	}
}

// progressState is the state that one tick keeps for the next one.
type progressState struct {
	limit         int // ticks without any progress
	reads, writes stallCounter
}

// tick is called once per heartbeat interval. It returns an error if the connection
// is dead.
func (s *stream) tick(st *progressState) error {
	if st.reads.ticksStuck(s.reads.Load(), 0) >= st.limit {
		return s.stalled(ErrSilent)
	}
	last, writes := st.writes.last, s.writes.Load() // ticksStuck changes st.writes.last
	queued := 0
	if writes%2 == 1 { // rare enough for a system call
		queued = outQueue(s.nc)
	}
	if st.writes.ticksStuck(writes, queued) >= st.limit && s.server {
		return s.stalled(ErrSlowReader)
	}
	if writes != last || last%2 == 1 { // something was written since the last tick, or is being written
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.writing && !s.closing && s.err == nil {
		if len(s.pending) == 0 {
			// The memory of a burst must not be kept forever.
			s.spareBuf = nil
			s.pending = appendHeartbeat(nil)
		}
		s.wakeWriter()
	}
	return nil
}

func (s *stream) stalled(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Stalled{Err: err, Pending: s.unsent(), For: s.timeout}
}

// stallCounter counts the ticks during which one call of Read or Write has not returned and
// has made no progress.
type stallCounter struct {
	last   uint64 // stream.reads or stream.writes at the last tick; odd: a call was in progress
	queued int    // at the last tick, the bytes that the other side had not acknowledged, as far as the system knows
	ticks  int
}

// ticksStuck counts a tick, and returns for how many ticks a call has been stuck. counter is
// stream.reads or stream.writes now.
func (c *stallCounter) ticksStuck(counter uint64, queued int) int {
	switch {
	case counter != c.last || counter%2 == 0:
		c.last, c.queued, c.ticks = counter, queued, 0
	case queued != c.queued:
		c.queued, c.ticks = queued, 0
	default:
		c.ticks++
	}
	return c.ticks
}

// noDelay switches off Nagle's algorithm on a TCP connection.
func noDelay(nc net.Conn) {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	if tcp := conn.Plain(nc); tcp != nil {
		_ = tcp.SetNoDelay(true)
	}
}

// abort closes a connection at once. Closing a tls.Conn would first try to send a
// close notification, which can take seconds.
func abort(nc net.Conn) {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	_ = nc.Close()
}
