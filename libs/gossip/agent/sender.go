package agent

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	pb "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

// senderIdleTimeout is the time after which a sender without messages ends. Members get heartbeats, so only
// the senders of other addresses end.
const senderIdleTimeout = 30 * time.Second

// senders send messages: those to one address in order, and independently of other addresses. They post the
// first ones to an address. If the answer reports that the node there accepts streams, and heartbeats go
// there or are answered there, the next ones go on a stream.
type senders struct {
	cfg    Config
	onGone func(sharding.NodeID) // reports evidence
	stats  *counters
	// reopenAfter is the time during which messages are posted to an address that takes no stream, or ends
	// it soon.
	reopenAfter time.Duration

	began  time.Time
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	byAddr map[string]*sender
	closed bool
}

type counters struct{ received, refused, sent, dropped, failed, expired atomic.Uint64 }

type sender struct {
	addr   string
	wake   chan struct{}
	queue  []gossip.Send // guarded by senders.mu
	client pb.Cluster
	// unheard is the time of the first message sent since a message last came from this address, in
	// nanoseconds since the start of the senders; 0: none was.
	unheard atomic.Int64

	// Owned by run.
	stream   *outStream // nil: messages are posted
	streamAt time.Time  // no stream is opened before
	// lastServed is the incarnation that last accepted messages at this address:
	// only a process that was there can be gone.
	lastServed sharding.NodeUID
}

func newSenders(cfg Config, stats *counters, onGone func(sharding.NodeID)) *senders {
	s := &senders{cfg: cfg, onGone: onGone, stats: stats, reopenAfter: senderIdleTimeout, began: time.Now(), byAddr: map[string]*sender{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// send queues a message. A full queue drops its oldest one.
func (s *senders) send(m gossip.Send) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	to := s.byAddr[m.To.Addr]
	if to == nil {
		to = &sender{
			addr:   m.To.Addr,
			wake:   make(chan struct{}, 1),
			client: pb.NewClusterProtobufClient(s.cfg.URL(m.To.Addr), compactClient{s.cfg.Client, s.cfg.GzipFrom}),
		}
		s.byAddr[m.To.Addr] = to
		s.wg.Go(func() { s.run(to) })
	}
	if len(to.queue) >= s.cfg.Queue {
		to.queue = to.queue[1:]
		s.stats.dropped.Add(1)
	}
	to.queue = append(to.queue, m)
	select {
	case to.wake <- struct{}{}:
	default:
	}
}

func (s *senders) take(to *sender) []gossip.Send {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := to.queue
	to.queue = nil
	return queue
}

// run sends the messages queued for one address. It ends when it has been idle for
// a while, or when all senders are closed and the queue is empty.
func (s *senders) run(to *sender) {
	idle := time.NewTimer(senderIdleTimeout)
	defer idle.Stop()
	defer to.closeStream()
	for {
		if batch := s.take(to); len(batch) > 0 {
			if !s.stream(to, batch) {
				s.post(to, batch)
			}
			idle.Reset(senderIdleTimeout)
			continue
		}
		var ended chan struct{}
		if to.stream != nil {
			ended = to.stream.ended
		}
		select {
		case <-to.wake:
		case <-ended:
			s.streamEnded(to)
		case <-idle.C:
			if s.removeIfEmpty(to) {
				return
			}
			idle.Reset(senderIdleTimeout)
		case <-s.ctx.Done():
			return
		}
		if s.isClosed() && s.removeIfEmpty(to) {
			return
		}
	}
}

// removeIfEmpty removes a sender unless its queue has new messages.
func (s *senders) removeIfEmpty(to *sender) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(to.queue) > 0 {
		return false
	}
	delete(s.byAddr, to.addr)
	return true
}

func (s *senders) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *senders) post(to *sender, batch []gossip.Send) {
	req := NewPost(s.cfg.Cluster, s.cfg.Core.Self, batch)
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.SendTimeout)
	defer cancel()
	answer, err := to.client.Post(ctx, req)
	if connectionLost(err) {
		answer, err = to.client.Post(ctx, req) // on a new connection; twice does no harm
	}
	if err != nil {
		s.stats.failed.Add(uint64(len(batch)))
		s.failed(to, err)
		return
	}
	s.stats.sent.Add(uint64(len(batch)))
	if uid := uidOf(batch); uid != 0 {
		to.lastServed = uid
	}
	if answer.GetStreams() >= streamVersion && to.stream == nil && frequent(batch) && !time.Now().Before(to.streamAt) {
		s.reopen(to)
	}
}

// uidOf returns the incarnation that a batch is for; 0: any.
func uidOf(batch []gossip.Send) sharding.NodeUID { return batch[len(batch)-1].To.UID }

// frequent reports whether more messages will follow soon.
func frequent(batch []gossip.Send) bool {
	return slices.ContainsFunc(batch, func(m gossip.Send) bool {
		switch m.Msg.(type) {
		case gossip.Heartbeat, gossip.HeartbeatReply:
			return true
		}
		return false
	})
}

// failed is called when nothing could be sent to an address.
func (s *senders) failed(to *sender, err error) {
	s.cfg.Log.Debug("sending failed", "peer", to.addr, "error", err)
	// A peer that accepted messages before had a connection. A dial means that it
	// has ended, and a refusal that nothing listens there any more.
	if errors.Is(err, syscall.ECONNREFUSED) && to.lastServed != 0 {
		s.onGone(sharding.NodeID{Addr: to.addr, UID: to.lastServed})
		to.lastServed = 0
	}
}

// stream sends a batch on the stream to an address. It reports whether it did.
func (s *senders) stream(to *sender, batch []gossip.Send) bool {
	if to.stream != nil && to.stream.hasEnded() { // anything written to it would be lost
		s.streamEnded(to)
	}
	if to.stream == nil {
		return false
	}
	// Only an answer to a post shows that another incarnation is there now.
	if uid := uidOf(batch); uid != 0 && uid != to.lastServed {
		to.closeStream()
		return false
	}
	now := max(1, time.Since(s.began))
	if first := to.unheard.Load(); first != 0 && now-time.Duration(first) > s.stall() {
		to.closeStream() // what was sent last may be repeated by TCP only after a long time
		return false
	}
	req := NewPost(s.cfg.Cluster, s.cfg.Core.Self, batch)
	if int64(proto.Size(req)) >= min(s.cfg.GzipFrom, maxFrame) {
		return false
	}
	to.unheard.CompareAndSwap(0, int64(now)) // before the answer can come
	if !to.stream.write(req, s.cfg.SendTimeout) {
		s.dropStream(to)
		return false
	}
	s.stats.sent.Add(uint64(len(batch)))
	return true
}

// stall is the longest silence of an address that gets messages before its stream is closed. Where
// heartbeats go or are answered, something comes in every interval.
func (s *senders) stall() time.Duration { return max(s.cfg.SendTimeout, 2*s.cfg.Core.Watch.Interval) }

// heard is called when a message has come from an address.
func (s *senders) heard(addr string) {
	s.mu.Lock()
	to := s.byAddr[addr]
	s.mu.Unlock()
	if to != nil {
		to.unheard.Store(0)
	}
}

// streamEnded is called when the receiver has ended a stream. If the receiver's process has ended, too, the
// next dial shows it.
func (s *senders) streamEnded(to *sender) {
	if lasted := s.dropStream(to); lasted && !s.isClosed() {
		s.reopen(to)
	}
}

// dropStream closes a stream that the receiver has ended, or takes nothing from. It reports whether the stream has
// lasted for a while. If not, none is opened for a longer time: the receiver, or something between the two, does
// not want it.
func (s *senders) dropStream(to *sender) (lasted bool) {
	lasted = time.Since(to.stream.opened) >= s.cfg.SendTimeout
	to.closeStream()
	if !lasted {
		to.streamAt = time.Now().Add(s.reopenAfter)
	}
	return lasted
}

func (s *senders) reopen(to *sender) {
	var err error
	if to.stream, err = s.openStream(to.addr); err != nil {
		to.streamAt = time.Now().Add(s.reopenAfter) // messages are posted until then
		s.failed(to, err)
		return
	}
	to.unheard.Store(0)
}

func (to *sender) closeStream() {
	if to.stream != nil {
		to.stream.close()
		to.stream = nil
	}
}

func connectionLost(err error) bool {
	for _, e := range []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// close lets every queue run empty, each within the time of one post, and ends
// the senders.
func (s *senders) close() {
	s.mu.Lock()
	s.closed = true
	for _, to := range s.byAddr {
		select {
		case to.wake <- struct{}{}:
		default:
		}
	}
	s.mu.Unlock()
	timeout := time.AfterFunc(s.cfg.SendTimeout, s.cancel)
	defer timeout.Stop()
	s.wg.Wait()
	s.cancel()
}
