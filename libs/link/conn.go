package link

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Conn is the server's end of one connection: one lane of one client. Answers are
// sent on it.
type Conn struct {
	server  *Server
	peer    sharding.NodeID
	lane    int
	session uint64        // number of the connection, for Readers
	mayRead chan struct{} // closed when the connection may be read
	stream  stream
	batch   []Command // used by the reader only
	now     time.Time // when the batch began

	// Guarded by the stream's lock.
	calls    uint64 // callbacks so far
	call     uint64 // the callback that runs on the reader's goroutine; 0: none
	waiting  bool   // that callback waits, so answers must be written at once
	panicked string // panic of a callback of a later reader

	detachedReaders sync.WaitGroup // readers after the first
}

func (c *Conn) laneID() LaneID { return LaneID{c.peer.UID, uint64(c.lane)} }

// Peer is the client as it named itself. Only TLS authenticates it.
func (c *Conn) Peer() sharding.NodeID { return c.peer }

// Lane returns the number of the connection within its link.
func (c *Conn) Lane() int { return c.lane }

// Send is SendBatch for one answer.
func (c *Conn) Send(a Answer) error {
	one := [1]Answer{a}
	return c.SendBatch(one[:])
}

// SendBatch sends answers in order, without waiting for the network; they are
// copied. A reply that breaks a limit of the protocol is replaced by one with
// the same outcome and an error message. ErrDown means that the connection has
// ended and the answers are dropped; the client counts its commands as in doubt,
// and the caller has nothing to do.
//
// What the client does not take at once is buffered without a limit: the caller
// must check [Conn.Unsent] before it accepts more commands. During a callback of
// the connection, answers gather and are written when the callback returns. They
// are written earlier if there are many, if the callback has called
// [Conn.Waiting], or after [Conn.Detach].
func (c *Conn) SendBatch(as []Answer) error {
	if len(as) == 0 {
		return nil
	}
	st := &c.stream
	sent, err := 0, error(nil)
	st.mu.Lock()
	for i := range as {
		a := &as[i]
		if st.err != nil || st.closing {
			err = fmt.Errorf("%w: %v", ErrDown, st.errOrClosed())
			break
		}
		if !a.fits(st.maxPayload, &st.outNames) {
			fitted := fit(*a, st.maxPayload)
			a = &fitted
		}
		st.pending = st.outNames.appendAnswer(st.pending, a)
		if c.call != 0 && !c.waiting {
			st.gather(1)
		} else {
			st.leaveToWriter(1)
		}
		sent++
	}
	st.unanswered -= sent
	st.mu.Unlock()
	c.server.answers.Add(uint64(sent))
	return err
}

// Unsent returns how many bytes of answers are not written yet; 0 when the
// connection has ended.
func (c *Conn) Unsent() int {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.stream.unsent()
}

// Ended reports whether the connection has ended. Its client counts what was not
// answered as lost, and may send it again on another connection.
func (c *Conn) Ended() bool {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.stream.err != nil || c.stream.readerLeft
}

// Waiting announces that the current callback is about to wait for something:
// answers are written at once until it returns. Only the callback itself may
// call it.
func (c *Conn) Waiting() {
	st := &c.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if c.call == 0 {
		return
	}
	c.waiting = true
	if len(st.pending) > 0 {
		st.wakeWriter()
	}
}

// Close closes the connection at once, without a reason for the client. Its unread
// commands are dropped.
func (c *Conn) Close() { c.stream.fail(fmt.Errorf("%w: closed here", ErrDown)) }

// Call returns the number of the current callback, for [Conn.Detach]. Only the
// callback itself may call it.
func (c *Conn) Call() uint64 {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.call
}

// Detach starts another goroutine that reads the connection while the callback with
// this number is still running. It does nothing if the callback has returned or is
// detached already. A callback that takes long then delays only its own commands:
// later ones are delivered at once, in order, concurrently with it, and the answers
// that have gathered are written. The callback may use its arguments until it
// returns. Any goroutine may call Detach; usually one that watches for slow
// callbacks does.
func (c *Conn) Detach(call uint64) {
	st := &c.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if call == 0 || c.call != call {
		return
	}
	c.call, c.batch = 0, nil
	if len(st.pending) > 0 {
		st.wakeWriter()
	}
	c.detachedReaders.Add(1)
	go func() {
		defer c.detachedReaders.Done()
		defer c.catch()
		c.read()
	}()
}

// catch stores a callback's panic so that end can repeat it on the goroutine of
// ServeHTTP, where net/http recovers it.
func (c *Conn) catch() {
	p := recover()
	if p == nil {
		return
	}
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	c.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
}

// run serves the connection until it has ended and all callbacks have returned.
func (c *Conn) run(first []byte) {
	c.stream.start(&c.server.cfg, first)
	defer c.end()
	c.read()
}

// end waits until no goroutine reads the connection any more, and counts why it
// ended.
func (c *Conn) end() {
	c.detachedReaders.Wait()
	s, reason := c.server, c.stream.reason()
	switch {
	case errors.Is(reason, ErrMalformed):
		s.malformed.Add(1)
	case errors.Is(reason, ErrSlowReader):
		s.slow.Add(1)
	case errors.Is(reason, ErrSuperseded):
		s.superseded.Add(1)
	}
	s.onClose(c, reason)
	if c.panicked != "" {
		panic(c.panicked)
	}
}

// read reads the connection until it ends or is detached.
func (c *Conn) read() {
	err := ErrDown // a callback may panic, or end the goroutine
	defer func() {
		if !errors.Is(err, errDetached) {
			c.stream.fail(err)
		}
	}()
	flush := func() bool { return c.flush(&err) }
	switch err = c.stream.readLoop(c.handle, flush); {
	case errors.Is(err, errDetached):
		return
	case errors.Is(err, errClosed):
		c.stream.drain()
		_ = c.stream.nc.Close()
	case errors.Is(err, ErrMalformed):
		c.leave() // nothing more is read: the client may open the lane again
		c.stream.linger(err)
	}
	c.leave()
}

// leave gives the lane to the connection that waits for it, if there is one. This
// connection has ended by then: what waits of it may be sent again on the next one.
func (c *Conn) leave() {
	c.stream.mu.Lock()
	c.stream.readerLeft = true
	c.stream.mu.Unlock()
	c.server.leave(c)
}

func (c *Conn) handle(kind byte, body []byte) error {
	if kind != kindCommand {
		return fmt.Errorf("%w: a client does not send kind %d", ErrMalformed, kind)
	}
	if len(c.batch) == 0 {
		c.now = time.Now()
	}
	c.batch = append(c.batch, Command{})
	err := c.stream.inNames.readCommand(body, c.now, c.stream.maxPayload, &c.batch[len(c.batch)-1])
	if err != nil {
		c.batch = c.batch[:len(c.batch)-1]
	}
	return err
}

// flush delivers the batch, unless the connection has ended meanwhile: then the
// client has counted these commands as lost and may have sent them again. Dropping
// them saves work, and a newer connection need not wait; order does not depend on it
// ([Readers]). If too many answers are unread, flush waits before it delivers more
// commands; the user of the server bounds their size. It returns false if another
// goroutine has become the reader. left is as for deliver.
func (c *Conn) flush(left *error) bool {
	if len(c.batch) == 0 {
		return true
	}
	st := &c.stream
	st.mu.Lock()
	for st.err == nil && st.pendingMsgs >= st.maxPendingMsgs {
		st.wakeWriter()
		st.progress.Wait()
	}
	alive := st.err == nil
	if alive {
		st.unanswered += len(c.batch)
		c.calls++
		c.call, c.waiting = c.calls, false
	}
	call, batch := c.call, c.batch
	st.mu.Unlock()
	if alive && !c.deliver(call, batch, left) {
		return false
	}
	clear(batch)
	c.batch = batch[:0]
	return true
}

// deliver runs one callback. It returns false if another goroutine has become the
// reader meanwhile. If the callback ends the goroutine after it was detached (runtime.Goexit), left is set to
// errDetached: the connection continues with its other reader.
func (c *Conn) deliver(call uint64, batch []Command, left *error) (mine bool) {
	returned := false
	defer func() {
		p := recover()
		c.stream.mu.Lock()
		if mine = c.call == call; mine {
			c.call = 0
		}
		c.stream.mu.Unlock()
		switch {
		case p != nil:
			panic(p) // it ends the connection
		case !returned && !mine:
			*left = errDetached
		}
	}()
	c.server.commands.Add(uint64(len(batch)))
	c.server.onCommands(c, batch)
	returned = true
	return
}
