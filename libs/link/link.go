package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Link is one incarnation of the connections to a region, from Up to Down.
type Link struct {
	node  sharding.NodeID
	lanes []lane
}

// lane is the client's end of one connection.
type lane struct {
	stream stream
	first  []byte   // bytes that the handshake has read beyond its end
	batch  []Answer // used by the reader only
}

// Node returns the region that the link leads to.
func (l *Link) Node() sharding.NodeID { return l.node }

// Send sends a command on the lane of its shard, without waiting for the
// network; the command is copied. An error means that no byte of it left this
// process and none will: ErrBackpressure (wait for answers), ErrDown (wait for
// the next Up) or ErrTooLarge (do not send it again). After nil, either an Answer or
// Down follows. The caller has checked the names: a bad one would end the connection.
// A trace that is too long or not printable is left out. Any goroutine may send. To
// send many commands in a row, use Queue and Flush.
func (l *Link) Send(shard uint32, c *Command) error { return l.send(shard, c, true) }

// Queue is like Send, but the command is written at the next Flush, at the next
// Send on its lane, or when much has gathered; at the latest after two heartbeat
// intervals.
func (l *Link) Queue(shard uint32, c *Command) error { return l.send(shard, c, false) }

// Flush writes what is queued.
func (l *Link) Flush() {
	for i := range l.lanes {
		l.lanes[i].stream.writeGathered()
	}
}

func (l *Link) send(shard uint32, c *Command, now bool) error {
	var left time.Duration
	if !c.Envelope.Deadline.IsZero() {
		left = time.Until(c.Envelope.Deadline)
	}
	s := &l.lanes[shard%uint32(len(l.lanes))].stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.queue(c, left); err != nil {
		return err
	}
	if now {
		s.writeHere(true)
	}
	return nil
}

// queue appends a command. left is the time until its deadline, if it has one.
func (s *stream) queue(c *Command, left time.Duration) error {
	if s.err != nil || s.closing {
		return fmt.Errorf("%w: %v", ErrDown, s.errOrClosed())
	}
	if n := len(c.Envelope.Payload); n > s.maxPayload {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, n, s.maxPayload)
	}
	if s.full(len(c.Envelope.Payload)) {
		s.wakeWriter()
		return ErrBackpressure
	}
	s.pending = s.outNames.appendCommand(s.pending, c, left)
	s.gather(1)
	return nil
}

// fail ends all lanes at once.
func (l *Link) fail(err error) {
	for i := range l.lanes {
		l.lanes[i].stream.fail(err)
	}
}

// serve reads the lanes until the link has ended.
func (l *Link) serve(ctx context.Context, cfg *Config, answers func(*Link, []Answer)) Down {
	ended := make(chan error, len(l.lanes))
	for i := range l.lanes {
		go func() { ended <- l.lanes[i].run(func(as []Answer) { answers(l, as) }) }()
	}
	var reason error
	grace := (<-chan time.Time)(nil) // when the first lane has closed cleanly, the others must follow
	for open := len(l.lanes); open > 0; {
		select {
		case err := <-ended:
			open--
			if reason == nil {
				reason = err
			}
			if !errors.Is(err, errClosed) {
				l.fail(err)
			} else if grace == nil {
				t := time.NewTimer(cfg.Timeout)
				defer t.Stop()
				grace = t.C
			}
		case <-grace:
			l.fail(fmt.Errorf("%w: the other lanes did not close", ErrDown))
		case <-ctx.Done():
			reason = fmt.Errorf("%w: closed here", ErrDown)
			l.fail(reason)
			ctx = context.Background()
		}
	}
	d := Down{Reason: reason}
	for i := range l.lanes {
		d.Unsent = unsentCommands(l.lanes[i].stream.pending, d.Unsent)
	}
	return d
}

// run reads answers until the lane ends.
func (ln *lane) run(answers func([]Answer)) error {
	s := &ln.stream
	flush := func() bool {
		if len(ln.batch) > 0 {
			answers(ln.batch)
			clear(ln.batch)
			ln.batch = ln.batch[:0]
		}
		return true
	}
	err := s.readLoop(func(kind byte, body []byte) error {
		ln.batch = append(ln.batch, Answer{})
		a := &ln.batch[len(ln.batch)-1]
		var err error
		switch kind {
		case kindAnswer:
			err = s.inNames.readAnswer(body, s.maxPayload, a)
		case kindNotMine:
			err = s.inNames.readNotMine(body, a)
		default:
			err = fmt.Errorf("%w: a server does not send kind %d", ErrMalformed, kind)
		}
		if err != nil {
			ln.batch = ln.batch[:len(ln.batch)-1]
		}
		return err
	}, flush)
	if errors.Is(err, io.EOF) && s.closeSent() {
		err = errClosed
	}
	if errors.Is(err, ErrMalformed) {
		s.linger(err)
	}
	s.fail(err)
	return s.reason()
}
