package link

import (
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Conn is the server's end of one connection: one lane of one client. It is
// the place to send answers to.
type Conn struct {
	server  *Server
	peer    sharding.NodeID
	lane    int
	session uint64
	turn    chan struct{} // closed when it may be read
	stream  stream
	batch   []Command // the reader's
	now     time.Time // when the batch began
}

func (c *Conn) key() slotKey { return slotKey{c.peer.UID, uint64(c.lane)} }

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
// ErrSlowReader: so many answers wait to be read by this client that it has
// just been cut.
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
		if st.full(len(a.Reply.Payload)) {
			err = fmt.Errorf("%w: %d answers of %d bytes wait", ErrSlowReader, st.msgs, len(st.pend))
			break
		}
		st.pend = st.out.appendAnswer(st.pend, a)
		st.added(1)
		sent++
	}
	st.owed -= sent
	st.mu.Unlock()
	c.server.answers.Add(uint64(sent))
	if errors.Is(err, ErrSlowReader) {
		st.fail(err)
	}
	return err
}

// Close cuts the connection; the client is not told why. Its unread commands
// are dropped.
func (c *Conn) Close() { c.stream.fail(fmt.Errorf("%w: closed here", ErrDown)) }

// run reads the connection until it ends.
func (c *Conn) run(first []byte) {
	s := c.server
	defer c.stream.fail(ErrDown) // a callback may panic
	c.stream.start(&s.cfg, first)
	err := c.stream.readLoop(c.handle, c.flush)
	switch {
	case errors.Is(err, errBye):
		c.stream.finish()
		_ = c.stream.nc.Close()
	case errors.Is(err, ErrMalformed):
		s.leave(c) // nothing more is read: the lane may be opened anew
		c.stream.linger(err)
	default:
		s.leave(c)
	}
	c.stream.fail(err)
	reason := c.stream.reason()
	switch {
	case errors.Is(reason, ErrMalformed):
		s.malformed.Add(1)
	case errors.Is(reason, ErrSlowReader):
		s.slow.Add(1)
	case errors.Is(reason, ErrSuperseded):
		s.superseded.Add(1)
	}
	s.onClose(c, reason)
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
		return err
	}
	if len(c.batch) == maxBatch {
		c.flush()
	}
	return nil
}

// flush hands the batch over, unless the connection has ended meanwhile: then
// the client has counted these commands as lost and may have sent them again.
// A client whose answers pile up has to wait with its commands.
func (c *Conn) flush() {
	if len(c.batch) == 0 {
		return
	}
	st := &c.stream
	st.mu.Lock()
	for st.err == nil && st.lagging() {
		st.settled.Wait()
	}
	alive := st.err == nil
	st.owed += len(c.batch)
	st.mu.Unlock()
	if alive {
		c.server.commands.Add(uint64(len(c.batch)))
		c.server.onCommands(c, c.batch)
	}
	clear(c.batch)
	c.batch = c.batch[:0]
}
