package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Server is the region's side of links: an http.Handler, to be mounted at [Path] on
// the service port. It passes the commands that arrive to a callback. All methods
// are safe for concurrent use.
type Server struct {
	cfg        Config
	onCommands func(*Conn, []Command)
	onClose    func(*Conn, error)

	mu      sync.Mutex
	readers *Readers[*Conn]
	links   int // connections being opened, waiting or read
	closing bool
	empty   chan struct{} // closed when closing is set and links is 0

	commands, answers, refused, malformed, slow, superseded atomic.Uint64
}

// Stats are the counters of a server since its start; Links is the current number.
type Stats struct {
	Links       int    // connections, including those being opened
	Commands    uint64 // commands passed to the callback
	Answers     uint64 // answers accepted for sending
	Refused     uint64 // connections refused before or by the handshake
	Malformed   uint64 // connections closed because of a malformed frame
	SlowReaders uint64 // connections closed because the client read no answers
	Superseded  uint64 // connections closed because the client opened the lane again
}

// NewServer returns a server. onCommands is called with the commands of one
// connection in the order of its lane, one call at a time per connection. The slice
// is only valid during the call; everything in it belongs to the callee. Nothing is
// read from the connection until the call returns: in this way a region slows its
// clients down. A call that takes long without that purpose can be detached
// ([Conn.Detach]). A call that waits until answers are written must announce that
// ([Conn.Waiting]).
//
// onClose, if not nil, is called once when a connection has ended and all its calls
// have returned; answers sent on it after that are dropped. If the client made no
// progress for too long, the error is a [Stalled].
func NewServer(cfg Config, onCommands func(*Conn, []Command), onClose func(*Conn, error)) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if onCommands == nil {
		return nil, errors.New("link: onCommands is nil, so commands would be lost")
	}
	if onClose == nil {
		onClose = func(*Conn, error) {}
	}
	return &Server{
		cfg: cfg, onCommands: onCommands, onClose: onClose,
		readers: NewReaders[*Conn](), empty: make(chan struct{}),
	}, nil
}

// Stats returns a snapshot of the counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	links := s.links
	s.mu.Unlock()
	return Stats{
		Links: links, Commands: s.commands.Load(), Answers: s.answers.Load(), Refused: s.refused.Load(),
		Malformed: s.malformed.Load(), SlowReaders: s.slow.Load(), Superseded: s.superseded.Load(),
	}
}

// ServeHTTP opens a link and serves it until it ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !wantsLink(r) {
		s.refused.Add(1)
		w.Header().Set("Upgrade", Protocol)
		w.Header().Set("Connection", "Upgrade")
		http.Error(w, "this is a link between gateways and regions: GET with Upgrade: "+Protocol, http.StatusUpgradeRequired)
		return
	}
	if why := s.admit(); why != "" {
		s.refused.Add(1)
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	defer s.release()
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.refused.Add(1)
		http.Error(w, "links need HTTP/1.1", http.StatusHTTPVersionNotSupported)
		return
	}
	defer abort(nc)
	if err := s.serve(nc, rw.Reader); err != nil {
		s.refused.Add(1)
	}
}

func wantsLink(r *http.Request) bool {
	upgrade := false
	for _, v := range strings.Split(r.Header.Get("Connection"), ",") {
		upgrade = upgrade || strings.EqualFold(strings.TrimSpace(v), "upgrade")
	}
	return r.Method == http.MethodGet && upgrade && r.Header.Get("Upgrade") == Protocol
}

func (s *Server) admit() (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return "this node is closing"
	case s.links >= s.cfg.MaxLinks:
		return fmt.Sprintf("there are %d links already", s.links)
	}
	s.links++
	return ""
}

func (s *Server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links--
	if s.closing && s.links == 0 {
		close(s.empty)
	}
}

// serve runs one connection. An error means that it was never opened.
func (s *Server) serve(nc net.Conn, br *bufio.Reader) error {
	_ = nc.SetDeadline(time.Now().Add(s.cfg.HandshakeTimeout))
	if _, err := nc.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + Protocol + "\r\n\r\n")); err != nil {
		return err
	}
	kind, body, err := readHandshake(br)
	if err == nil && kind != kindHello {
		err = fmt.Errorf("%w: kind %d is not a handshake", ErrMalformed, kind)
	}
	var h hello
	if err == nil {
		h, err = readHello(body)
	}
	if err != nil {
		return refuse(nc, refusedOther, err.Error())
	}
	if code, why := h.refuse(&s.cfg); why != "" {
		return refuse(nc, code, why)
	}
	c := &Conn{server: s, peer: h.self, lane: int(h.lane), session: h.session, mayRead: make(chan struct{})}
	c.stream.open(nc, &s.cfg, int(min(h.maxPayload, uint64(s.cfg.MaxPayload))), true)
	if why := s.awaitTurn(c); why != "" {
		return refuse(nc, refusedOther, why)
	}
	defer s.leave(c)
	wel := welcome{
		version: min(h.maxVersion, MaxVersion), cluster: s.cfg.Cluster,
		self: s.cfg.Self, maxPayload: uint64(s.cfg.MaxPayload),
	}
	if _, err := nc.Write(wel.append(nil)); err != nil {
		return err
	}
	_ = nc.SetDeadline(time.Time{})
	c.run(buffered(br))
	return nil
}

func refuse(nc net.Conn, code byte, why string) error {
	_, _ = nc.Write(appendRefuse(nil, code, why))
	return fmt.Errorf("%w: %s", ErrRefused, why)
}

// awaitTurn waits until the connection may be read, that is, until no other one of the same client
// and lane is. It closes the older ones; their reader ends as soon as its callback returns. It
// returns why the connection is refused, or "".
func (s *Server) awaitTurn(c *Conn) (why string) {
	if why := s.enter(c); why != "" {
		return why
	}
	timer := time.NewTimer(s.cfg.HandshakeTimeout)
	defer timer.Stop()
	select {
	case <-c.mayRead:
		return ""
	case <-c.stream.down:
		why = c.stream.reason().Error()
	case <-timer.C:
		why = "an older link of this lane is still being read"
	}
	s.leave(c)
	return why
}

func (s *Server) enter(c *Conn) (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return "this node is closing"
	}
	e := s.readers.Enter(c.laneID(), c.session, c)
	if e.Refused {
		return "a newer link of this lane is open"
	}
	for _, older := range e.Older {
		older.stream.fail(ErrSuperseded)
	}
	if e.Read {
		close(c.mayRead)
	}
	return ""
}

// leave is called when a connection will not be read any more. The one that waits
// for it, if any, may be read. A second call does nothing.
func (s *Server) leave(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next, ok := s.readers.Leave(c.laneID(), c); ok {
		close(next.mayRead)
	}
}

// Close ends all links cleanly: new ones are refused, clients get a request to send no more, their
// earlier commands are delivered and answered, and each connection closes when its last answer is
// written. When ctx is done first, the remaining connections are closed at once and ctx's error is
// returned.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	if first && s.links == 0 {
		close(s.empty)
	}
	s.mu.Unlock()
	if first {
		s.forEach(func(c *Conn) { c.stream.sendClose("") })
	}
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
		s.forEach(func(c *Conn) { c.stream.fail(ErrDown) })
		return ctx.Err()
	}
}

// forEach calls f for every connection, including those that wait to be read.
func (s *Server) forEach(f func(*Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.readers.All() {
		f(c)
	}
}
