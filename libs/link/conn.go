package link

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Conn is the server's end of one connection: one lane of one client. It is
// the place to send answers to.
type Conn struct {
	server  *Server
	peer    sharding.NodeID
	lane    int
	session uint64        // its number, for Readers
	turn    chan struct{} // closed when it may be read
	stream  stream
	batch   []Command // the reader's
	now     time.Time // when the batch began

	// Guarded by the stream's lock.
	calls    uint64 // callbacks so far
	call     uint64 // the one whose goroutine is the reader; 0: none is under way
	waiting  bool   // that one waits: nobody is about to write what gathers
	panicked string // by a callback of one of the others

	others sync.WaitGroup // readers after the first
}

func (c *Conn) laneID() LaneID { return LaneID{c.peer.UID, uint64(c.lane)} }

// Peer is the client's name for itself. Nobody vouches for it but TLS.
func (c *Conn) Peer() sharding.NodeID { return c.peer }

// Lane is the number of the connection among those of its link.
func (c *Conn) Lane() int { return c.lane }

// Send is SendBatch for one answer.
func (c *Conn) Send(a Answer) error {
	one := [1]Answer{a}
	return c.SendBatch(one[:])
}

// SendBatch sends answers in order, without waiting for the network; they are
// copied. A reply that breaks a limit of the protocol is replaced by one with
// the same outcome that says so. ErrDown: the connection has ended and the
// answers go nowhere, which is the client's to settle; there is nothing to do.
// What the client does not take at once is held, however much it is: whoever
// answers must look at [Conn.Unsent] before it takes on more commands. While a
// callback of the connection is under way the answers gather, whoever sends
// them: its goroutine writes them once it has returned. They are not held back
// if they are many, if the callback is [Conn.Waiting], or if another goroutine
// reads on.
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
			err = fmt.Errorf("%w: %v", ErrDown, st.why())
			break
		}
		if !a.fits(st.maxPayload, &st.out) {
			fitted := fit(*a, st.maxPayload)
			a = &fitted
		}
		st.pend = st.out.appendAnswer(st.pend, a)
		if c.call != 0 && !c.waiting {
			st.gathered(1)
		} else {
			st.added(1)
		}
		sent++
	}
	st.owed -= sent
	st.mu.Unlock()
	c.server.answers.Add(uint64(sent))
	return err
}

// Unsent is how many bytes of answers the client has not taken yet, 0 once the
// connection has ended.
func (c *Conn) Unsent() int {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.stream.unsent()
}

// Ended reports whether the connection has ended: its client counts what was not
// answered as lost, and may send it again on another one.
func (c *Conn) Ended() bool {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.stream.err != nil
}

// Waiting says that the callback under way is about to wait for something:
// answers are written at once until it returns. To be called by the callback
// itself.
func (c *Conn) Waiting() {
	st := &c.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if c.call == 0 {
		return
	}
	c.waiting = true
	if len(st.pend) > 0 {
		st.leave()
	}
}

// Close cuts the connection; the client is not told why. Its unread commands
// are dropped.
func (c *Conn) Close() { c.stream.fail(fmt.Errorf("%w: closed here", ErrDown)) }

// Call is the number of the callback under way, for [Conn.ReadOn]. To be
// called by the callback itself.
func (c *Conn) Call() uint64 {
	c.stream.mu.Lock()
	defer c.stream.mu.Unlock()
	return c.call
}

// ReadOn lets another goroutine read the connection on while the callback with
// this number is still under way, and does nothing once it has returned, or the
// second time. So a callback that takes long, which is best noticed by somebody
// else, holds up only its own commands: those behind them are handed over at
// once, in order, but beside it, and the answers that have gathered go out. What
// the callback is given remains its own until it returns; its goroutine then has
// nothing more to do with the connection. Any goroutine may call it.
func (c *Conn) ReadOn(call uint64) {
	st := &c.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	if call == 0 || c.call != call {
		return
	}
	c.call, c.batch = 0, nil
	if len(st.pend) > 0 {
		st.leave()
	}
	c.others.Add(1)
	go func() {
		defer c.others.Done()
		defer c.catch()
		c.read()
	}()
}

// catch keeps a callback's panic for run, below which somebody recovers.
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

// end counts why the connection ended, once nobody reads it any more.
func (c *Conn) end() {
	c.others.Wait()
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

// read reads the connection until it ends or another goroutine reads on.
func (c *Conn) read() {
	err := ErrDown // a callback may panic
	defer func() {
		if !errors.Is(err, errReadOn) {
			c.stream.fail(err)
		}
	}()
	switch err = c.stream.readLoop(c.handle, c.flush); {
	case errors.Is(err, errReadOn):
		return
	case errors.Is(err, errBye):
		c.stream.finish()
		_ = c.stream.nc.Close()
	case errors.Is(err, ErrMalformed):
		c.server.leave(c) // nothing more is read: the lane may be opened anew
		c.stream.linger(err)
	}
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
	err := c.stream.in.readCommand(body, c.now, c.stream.maxPayload, &c.batch[len(c.batch)-1])
	if err != nil {
		c.batch = c.batch[:len(c.batch)-1]
	}
	return err
}

// flush hands the batch over, unless the connection has ended meanwhile: then
// the client has counted these commands as lost and may have sent them again. That
// saves work, and a newer connection need not wait for it; order rests on [Readers].
// A client that leaves many answers unread has to wait with its commands; how large
// they are is bounded by who answers. It returns false if another goroutine reads on.
func (c *Conn) flush() bool {
	if len(c.batch) == 0 {
		return true
	}
	st := &c.stream
	st.mu.Lock()
	for st.err == nil && st.msgs >= st.maxMsgs {
		st.leave()
		st.settled.Wait()
	}
	alive := st.err == nil
	if alive {
		st.owed += len(c.batch)
		c.calls++
		c.call, c.waiting = c.calls, false
	}
	call, batch := c.call, c.batch
	st.mu.Unlock()
	if alive && !c.hand(call, batch) {
		return false
	}
	clear(batch)
	c.batch = batch[:0]
	return true
}

// hand is one callback. It returns false if another goroutine reads on.
func (c *Conn) hand(call uint64, batch []Command) (mine bool) {
	defer func() {
		c.stream.mu.Lock()
		defer c.stream.mu.Unlock()
		if mine = c.call == call; mine {
			c.call = 0
		}
	}()
	c.server.commands.Add(uint64(len(batch)))
	c.server.onCommands(c, batch)
	return
}
