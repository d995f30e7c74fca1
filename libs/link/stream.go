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
)

// errBye ends a connection in order: everything was answered.
var errBye = errors.New("closed in order")

// stream is one connection after the handshake, the same on both sides: a
// buffer with a writer, a reader of frames, and beats.
type stream struct {
	nc         net.Conn
	in         names // the reader's
	frames     frameReader
	maxPayload int // the smaller one of both sides
	maxBytes   int
	maxMsgs    int // beyond, nothing is accepted
	lagMsgs    int // server: at this, nothing is read
	beat       time.Duration
	timeout    time.Duration
	// server: cut the connection when the other side does not read. A client
	// does not: a region that holds back is still there as long as it beats.
	server bool

	mu      sync.Mutex
	work    sync.Cond // for the writer: there is something to do
	settled sync.Cond // for finish: something is done
	out     names
	pend    []byte // whole frames that no write has taken yet
	spare   []byte // the buffer for the next ones
	msgs    int    // messages in pend
	owed    int    // answers that the user of a server still owes
	writing bool
	closing bool  // nothing more is accepted, pend is still written
	err     error // the first reason for the end; pend is not written any more

	down chan struct{} // closed with err

	// Odd while a call of Read or Write is under way: whoever finds the same
	// odd number for long knows that the other side is silent, or does not read.
	reads, writes atomic.Uint64
}

// open makes a stream of a connection; first is what was read too far. It
// does not read or write before its loops run.
func (s *stream) open(nc net.Conn, cfg *Config, maxPayload int, server bool) {
	s.nc, s.server = nc, server
	s.maxPayload = maxPayload
	s.maxBytes, s.maxMsgs, s.lagMsgs = cfg.MaxPendingBytes, cfg.MaxPendingMessages, cfg.MaxPendingMessages
	if server {
		s.maxMsgs = cfg.MaxPendingAnswers
	}
	s.beat, s.timeout = cfg.Beat, cfg.Timeout
	s.work.L, s.settled.L = &s.mu, &s.mu
	s.down = make(chan struct{})
}

// start begins to write and to beat. The caller runs the reader.
func (s *stream) start(cfg *Config, first []byte) {
	s.frames = newFrameReader(cfg.ReadBuffer, s.maxPayload+headerRoom, first)
	noDelay(s.nc)
	go s.writeLoop()
	go s.beatLoop()
}

// full tells whether a frame with a payload of n bytes finds no room.
func (s *stream) full(n int) bool {
	return s.msgs >= s.maxMsgs || len(s.pend)+n+headerRoom > s.maxBytes
}

// lagging tells whether a client should read its answers first.
func (s *stream) lagging() bool {
	return s.msgs >= s.lagMsgs || len(s.pend) > s.maxBytes/2
}

// added wakes the writer for one more message in pend.
func (s *stream) added(messages int) {
	s.msgs += messages
	if !s.writing {
		s.writing = true
		s.work.Signal()
	}
}

func (s *stream) writeLoop() {
	var buf []byte
	for {
		buf = s.take(buf)
		if buf == nil {
			return
		}
		s.writes.Add(1)
		_, err := s.nc.Write(buf)
		s.writes.Add(1)
		if err != nil {
			s.unwritable(fmt.Errorf("write: %w", err))
			return
		}
	}
}

// take gives back what was written, waits for frames and takes all there are;
// nil at the end.
func (s *stream) take(written []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = written[:0]
	s.writing = false
	s.settled.Broadcast()
	if len(s.pend) == 0 {
		for len(s.pend) == 0 && s.err == nil {
			s.work.Wait()
		}
		// Whoever is about to send may join the first batch.
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	if s.err != nil {
		return nil
	}
	s.writing = true
	buf := s.pend
	s.pend, s.spare, s.msgs = s.spare, nil, 0
	s.settled.Broadcast()
	return buf
}

// unwritable ends a stream whose write failed. The bytes that have come in
// already may still hold answers: a client reads them to the end.
func (s *stream) unwritable(err error) {
	if s.server {
		s.fail(err)
		return
	}
	s.mark(err)
	_ = s.nc.SetReadDeadline(time.Now().Add(lingerTime))
}

// mark notes why the stream ends: nothing is accepted or written any more.
func (s *stream) mark(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.markLocked(err)
}

func (s *stream) markLocked(err error) {
	if s.err == nil {
		s.err = err
		close(s.down)
	}
	s.work.Broadcast()
	s.settled.Broadcast()
}

// fail ends the stream at once.
func (s *stream) fail(err error) {
	s.mark(err)
	cut(s.nc)
}

// reason is why the stream ended.
func (s *stream) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// bye says the last word of this side behind all that is waiting. Only a
// server that closes in order goes on: it still answers what it has read.
func (s *stream) bye(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.err != nil {
		return
	}
	s.closing = !s.server || reason != ""
	s.pend = appendBye(s.pend, reason)
	s.added(0)
}

// leaving tells whether this side has said its last word, and all of it is
// written.
func (s *stream) leaving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing && len(s.pend) == 0
}

// why is the reason for the end, with mu held.
func (s *stream) why() error {
	if s.err != nil {
		return s.err
	}
	return errBye
}

// finish waits until no answer is owed and everything is written.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && (s.owed > 0 || s.writing || len(s.pend) > 0) {
		s.settled.Wait()
	}
}

// linger ends a stream whose peer broke the protocol: it tells the reason and
// listens on for a moment, because closing with unread bytes would destroy
// what was just written.
func (s *stream) linger(why error) {
	_ = s.nc.SetDeadline(time.Now().Add(lingerTime))
	s.bye(why.Error())
	s.mu.Lock()
	s.owed = 0
	s.mu.Unlock()
	s.finish()
	if cw, ok := s.nc.(interface{ CloseWrite() error }); ok {
		_ = cw.CloseWrite()
		_, _ = io.CopyN(io.Discard, s.nc, 1<<20)
	}
	s.fail(why)
}

// readLoop reads frames until the stream ends: handle gets each frame that
// carries a message, flush is called when the buffer runs dry. On a server it
// returns errBye after the client's last word.
func (s *stream) readLoop(handle func(kind byte, body []byte) error, flush func()) error {
	for {
		for {
			kind, body, ok, err := s.frames.next()
			if err == nil && ok {
				err = s.dispatch(kind, body, handle)
			}
			if err != nil {
				flush()
				return err
			}
			if !ok {
				break
			}
		}
		flush()
		s.reads.Add(1)
		err := s.frames.fill(s.nc)
		s.reads.Add(1)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
}

func (s *stream) dispatch(kind byte, body []byte, handle func(byte, []byte) error) error {
	switch {
	case kind == kindBeat && len(body) == 0:
		return nil
	case kind == kindBye && len(body) == 0 && s.server:
		return errBye
	case kind == kindBye && len(body) == 0:
		s.bye("")
		return nil
	case kind == kindBye:
		return fmt.Errorf("%w: the other side says: %q", ErrDown, clipMessage(string(body)))
	}
	return handle(kind, body)
}

// beatLoop sends beats when nothing else was written, and cuts a connection
// that is dead. It counts ticks instead of reading clocks: a pause of this
// process is one tick, and not the other side's silence.
func (s *stream) beatLoop() {
	ticker := time.NewTicker(s.beat)
	defer ticker.Stop()
	limit := int((s.timeout + s.beat - 1) / s.beat)
	var reads, writes watched
	for {
		select {
		case <-s.down:
			return
		case <-ticker.C:
		}
		if reads.stuck(s.reads.Load()) >= limit {
			s.fail(fmt.Errorf("%w for %v", ErrSilent, s.timeout))
			return
		}
		last := writes.last
		if writes.stuck(s.writes.Load()) >= limit && s.server {
			s.fail(fmt.Errorf("%w for %v", ErrSlowReader, s.timeout))
			return
		}
		if writes.last == last && last%2 == 0 {
			s.mu.Lock()
			if !s.writing && !s.closing && s.err == nil {
				// A burst must not hold its memory for ever.
				s.spare = nil
				s.pend = appendBeat(nil)
				s.added(0)
			}
			s.mu.Unlock()
		}
	}
}

// watched counts the ticks for which a call has not come back.
type watched struct {
	last  uint64
	ticks int
}

func (w *watched) stuck(now uint64) int {
	if now != w.last || now%2 == 0 {
		w.last, w.ticks = now, 0
	} else {
		w.ticks++
	}
	return w.ticks
}

// noDelay switches off waiting for fuller packets; TCP only.
func noDelay(nc net.Conn) {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	if t, ok := nc.(*net.TCPConn); ok {
		_ = t.SetNoDelay(true)
	}
}

// cut closes a connection at once. A tls.Conn would first try to say so, which
// can take seconds.
func cut(nc net.Conn) {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	_ = nc.Close()
}
