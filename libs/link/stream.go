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

var (
	// errBye ends a connection in order: everything was answered.
	errBye = errors.New("closed in order")
	// errReadOn ends a reader whose place another goroutine has taken.
	errReadOn = errors.New("another goroutine reads on")
)

// stream is one connection after the handshake, the same on both sides: a
// buffer and who writes it, a reader of frames, and beats.
type stream struct {
	nc         net.Conn
	direct     *direct // nil: only the writer writes
	in         names   // the reader's
	frames     frameReader
	ended      error // why the reader came to its end
	maxPayload int   // the smaller one of both sides
	maxBytes   int
	maxMsgs    int // a client accepts no more, a server reads no more
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
	flying  int    // bytes of the buffer being written that are not written yet
	spare   []byte // the buffer for the next ones
	msgs    int    // messages in pend
	owed    int    // answers that the user of a server still owes
	rest    []byte // what is left of a buffer that somebody has begun to write
	writing bool   // somebody is writing, or about to
	left    bool   // it is the writer
	closing bool   // nothing more is accepted, pend is still written
	err     error  // the first reason for the end; pend is not written any more

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
	s.maxBytes, s.maxMsgs = cfg.MaxPendingBytes, cfg.MaxPendingMessages
	s.beat, s.timeout = cfg.Beat, cfg.Timeout
	s.work.L, s.settled.L = &s.mu, &s.mu
	s.down = make(chan struct{})
}

// start begins to write and to beat. The caller runs the reader.
func (s *stream) start(cfg *Config, first []byte) {
	s.frames = newFrameReader(cfg.ReadBuffer, s.maxPayload+headerRoom, first)
	noDelay(s.nc)
	s.direct = newDirect(s.nc)
	go s.writeLoop()
	go s.beatLoop()
}

// full reports whether a command with a payload of n bytes finds no room.
func (s *stream) full(n int) bool {
	return s.msgs >= s.maxMsgs || len(s.pend)+n+headerRoom > s.maxBytes
}

// unsent is how many bytes wait to be written.
func (s *stream) unsent() int { return len(s.pend) + s.flying }

// lagging tells whether so much waits that it should be written before more gathers.
func (s *stream) lagging() bool {
	return s.msgs >= s.maxMsgs || s.unsent() > s.maxBytes/2
}

// added counts what was appended to pend and is for the writer.
func (s *stream) added(messages int) {
	s.msgs += messages
	s.leave()
}

// leave leaves what is pending to the writer, unless somebody writes: then it
// is not forgotten.
func (s *stream) leave() {
	if !s.writing {
		s.writing, s.left = true, true
		s.work.Signal()
	}
}

// gathered counts what was appended to pend by somebody who will call writeHere
// soon. Too much of it is for the writer: memory is bounded, and the other side
// may begin.
func (s *stream) gathered(messages int) {
	s.msgs += messages
	if len(s.pend) >= maxGathered || s.lagging() {
		s.leave()
	}
}

// writeGathered is writeHere for who does not hold mu.
func (s *stream) writeGathered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeHere(false)
}

// writeHere writes what is pending, and what others append meanwhile, unless
// somebody else is about to. It does not wait for the network: what the
// connection does not take at once is left to the writer. mu is held, but not
// throughout.
func (s *stream) writeHere(yield bool) {
	if s.writing || len(s.pend) == 0 || s.err != nil {
		return
	}
	if s.direct == nil {
		s.leave()
		return
	}
	s.writing = true
	if yield { // whoever is about to send may join
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	for rounds := 0; len(s.pend) > 0 && s.err == nil; rounds++ {
		if rounds == maxRounds {
			s.handOver(nil)
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
		s.flying = max(0, s.flying-n) // the stream may have ended
		if err == nil && n < len(buf) {
			s.handOver(buf[n:])
			return
		}
		s.recycle(buf)
	}
	s.writing = false
	s.settled.Broadcast()
}

// handOver lets the writer go on where somebody else has written.
func (s *stream) handOver(rest []byte) {
	s.rest, s.left = rest, true
	s.work.Signal()
}

// swap takes what is pending to be written.
func (s *stream) swap() []byte {
	buf := s.pend
	s.pend, s.spare, s.msgs, s.flying = s.spare, nil, 0, len(buf)
	s.settled.Broadcast()
	return buf
}

// recycle keeps the memory of a buffer that is written.
func (s *stream) recycle(buf []byte) {
	if cap(buf) <= maxSpare {
		s.spare = buf[:0]
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

// writeSome waits until the connection takes something of b.
func (s *stream) writeSome(b []byte) (int, error) {
	if s.direct != nil {
		return s.direct.writeSome(b)
	}
	return s.nc.Write(b[:min(len(b), maxWrite)])
}

// wrote counts what the writer has written.
func (s *stream) wrote(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flying = max(0, s.flying-n) // the stream may have ended
	s.settled.Broadcast()
}

// take gives back what the writer has written, waits until something is left to
// it and takes all there is; false at the end.
func (s *stream) take(written []byte) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if written != nil {
		s.recycle(written)
	}
	if s.left && len(s.pend) == 0 && s.rest == nil {
		s.writing, s.left = false, false
		s.settled.Broadcast()
	}
	if !s.left {
		for !s.left && s.err == nil {
			s.work.Wait()
		}
		// Whoever is about to send may join the first batch.
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	if s.err != nil {
		return nil, false
	}
	if buf := s.rest; buf != nil {
		s.rest = nil
		return buf, true
	}
	return s.swap(), true
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
		if s.server { // nobody will write it, and those who still owe answers keep the stream
			s.pend, s.spare, s.rest, s.flying = nil, nil, nil, 0
		}
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
// carries a message; flush is called when the buffer runs dry, after maxBatch
// frames, and at the end. When flush returns false another goroutine reads on,
// and this one touches nothing more. On a server it returns errBye after the
// client's last word.
func (s *stream) readLoop(handle func(kind byte, body []byte) error, flush func() bool) error {
	for n := 1; s.ended == nil; n++ {
		kind, body, whole, err := s.frames.next()
		if err == nil && whole {
			err = s.dispatch(kind, body, handle)
		}
		s.ended = err
		more := whole && err == nil
		if more && n < maxBatch {
			continue
		}
		n = 0
		if !flush() {
			return errReadOn
		}
		if more {
			continue
		}
		if s.server {
			s.writeGathered()
		}
		if err == nil {
			s.ended = s.fill()
		}
	}
	return s.ended
}

// fill reads once, for the beats to see.
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
	p := pulse{limit: int((s.timeout + s.beat - 1) / s.beat)}
	for {
		select {
		case <-s.down:
			return
		case <-ticker.C:
		}
		if err := s.tick(&p); err != nil {
			s.fail(err)
			return
		}
	}
}

// pulse is what one tick of the beats remembers for the next one.
type pulse struct {
	limit         int // ticks without any progress
	reads, writes watched
}

// tick is one beat. An error says that the connection is dead.
func (s *stream) tick(p *pulse) error {
	if p.reads.stuck(s.reads.Load(), 0) >= p.limit {
		return s.stalled(ErrSilent)
	}
	last, writes := p.writes.last, s.writes.Load()
	queued := 0
	if writes%2 == 1 { // rare enough for a system call
		queued = outQueue(s.nc)
	}
	if p.writes.stuck(writes, queued) >= p.limit && s.server {
		return s.stalled(ErrSlowReader)
	}
	if writes != last || last%2 == 1 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.writing && !s.closing && s.err == nil {
		if len(s.pend) == 0 {
			// A burst must not hold its memory for ever.
			s.spare = nil
			s.pend = appendBeat(nil)
		}
		s.leave()
	}
	return nil
}

func (s *stream) stalled(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Stalled{Err: err, Pending: s.unsent(), For: s.timeout}
}

// watched counts the ticks for which a call has not come back, and nothing of
// what it waits for has happened.
type watched struct {
	last   uint64
	queued int // bytes that the other side has not taken yet, as far as the system says
	ticks  int
}

func (w *watched) stuck(now uint64, queued int) int {
	switch {
	case now != w.last || now%2 == 0:
		w.last, w.queued, w.ticks = now, queued, 0
	case queued != w.queued:
		w.queued, w.ticks = queued, 0
	default:
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
