package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Events are the callbacks of a Client. All four must be set, must return soon, and
// must not call Client.Close. Up, Down and Failed are called one at a time, in
// order. Answers is called only between Up and Down of its Link, concurrently for
// different lanes, but one call at a time per lane.
type Events struct {
	// Up is called when the link is open; commands may be sent on it.
	Up func(*Link)
	// Down is called when the link has ended. Every command that was sent on it
	// and not answered is in doubt, except those that Down names as unsent.
	Down func(*Link, Down)
	// Failed is called when an attempt to open a link has failed. gone is evidence
	// that this incarnation of the region no longer runs: its port refuses
	// connections, or another node answers there. The Client continues trying until it
	// is closed.
	Failed func(err error, gone bool)
	// Answers is called with answers from the region. The slice is only valid
	// during the call; everything in it belongs to the callee.
	Answers func(*Link, []Answer)
}

// Down describes how a link ended.
type Down struct {
	// Reason is the first reason for the end.
	Reason error
	// Unsent has the numbers of commands without any sent byte: they are definitely not applied.
	// They are ordered within each lane.
	Unsent []uint64
}

// sessions numbers the links that this process opens, so that a server can
// tell newer from older ones.
var sessions atomic.Uint64

// Client keeps a link to one incarnation of a region open: it opens the link in the
// background, and again whenever it is lost.
type Client struct {
	cfg    Config
	region sharding.NodeID
	events Events
	cancel context.CancelFunc
	done   chan struct{}
}

// NewClient starts to open a link to a region.
func NewClient(cfg Config, region sharding.NodeID, events Events) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if events.Up == nil || events.Down == nil || events.Failed == nil || events.Answers == nil {
		return nil, errors.New("link: set all four of Events")
	}
	if region.UID == 0 || region.Addr == "" {
		return nil, fmt.Errorf("link: region %v needs an address and a uid", region)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{cfg: cfg, region: region, events: events, cancel: cancel, done: make(chan struct{})}
	go c.run(ctx)
	return c, nil
}

// Node returns the incarnation of the region that the link leads to.
func (c *Client) Node() sharding.NodeID { return c.region }

// Close ends the link at once and stops opening it. After it returns no event is
// reported; for an open link Down has been called.
func (c *Client) Close() {
	c.cancel()
	<-c.done
}

func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	pause := c.cfg.RetryMin
	for ctx.Err() == nil {
		l, err := c.open(ctx)
		switch {
		case ctx.Err() != nil:
			if l != nil {
				l.fail(ErrDown)
			}
			return
		case err != nil:
			c.events.Failed(err, errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, ErrOtherNode))
		default:
			opened := time.Now()
			c.events.Up(l)
			c.events.Down(l, l.serve(ctx, &c.cfg, c.events.Answers))
			// A link that lasted is opened again at once: if that is refused,
			// the process is gone. Otherwise wait, so that a server that closes
			// every link at once is not hammered.
			if time.Since(opened) >= c.cfg.RetryMax {
				pause = c.cfg.RetryMin
				continue
			}
		}
		sleep(ctx, pause-time.Duration(rand.Int64N(int64(pause)/4+1)))
		pause = min(2*pause, c.cfg.RetryMax)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// open opens all lanes of a new link.
func (c *Client) open(ctx context.Context) (*Link, error) {
	l := &Link{node: c.region, lanes: make([]lane, c.cfg.Lanes)}
	session := sessions.Add(1)
	for i := range l.lanes {
		h := hello{
			minVersion: MinVersion, maxVersion: MaxVersion, cluster: c.cfg.Cluster, self: c.cfg.Self, peer: c.region.UID,
			lane: uint64(i), lanes: uint64(len(l.lanes)), session: session, maxPayload: uint64(c.cfg.MaxPayload),
		}
		if c.cfg.Generation != nil {
			h.generation = c.cfg.Generation()
		}
		if err := c.openLane(ctx, &l.lanes[i], &h); err != nil {
			l.lanes = l.lanes[:i]
			l.fail(ErrDown)
			return nil, fmt.Errorf("link to %v, lane %d: %w", c.region, i, err)
		}
	}
	for i := range l.lanes {
		l.lanes[i].stream.start(&c.cfg, l.lanes[i].first)
		l.lanes[i].first = nil
	}
	return l, nil
}

func (c *Client) openLane(ctx context.Context, ln *lane, h *hello) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.HandshakeTimeout)
	defer cancel()
	nc, err := c.cfg.Dial(ctx, c.region.Addr)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { abort(nc) })
	w, first, err := handshake(nc, c.region.Addr, h)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		abort(nc)
		return err
	}
	ln.first = first
	ln.stream.open(nc, &c.cfg, int(min(w.maxPayload, uint64(c.cfg.MaxPayload))), false)
	return nil
}

// handshake requests the upgrade and exchanges the handshake frames. first are the
// bytes that were read beyond the end of the handshake.
func handshake(nc net.Conn, addr string, h *hello) (w welcome, first []byte, err error) {
	request := "GET " + Path + " HTTP/1.1\r\nHost: " + addr + "\r\nConnection: Upgrade\r\nUpgrade: " + Protocol + "\r\n\r\n"
	if _, err := nc.Write([]byte(request)); err != nil {
		return w, nil, err
	}
	limited := &io.LimitedReader{R: nc, N: maxHandshake}
	br := bufio.NewReader(limited)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		return w, nil, fmt.Errorf("no HTTP response: %w", err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != Protocol {
		text, _ := io.ReadAll(io.LimitReader(res.Body, MaxMessageLen))
		return w, nil, fmt.Errorf("%w: HTTP status %s: %.200q", ErrRefused, res.Status, text)
	}
	limited.N = math.MaxInt64
	if _, err := nc.Write(h.append(nil)); err != nil {
		return w, nil, err
	}
	kind, body, err := readHandshake(br)
	if err != nil {
		return w, nil, err
	}
	if w, err = readWelcome(kind, body); err != nil {
		return w, nil, err
	}
	return w, buffered(br), w.accept(h)
}
