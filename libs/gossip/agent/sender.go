package agent

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/roost-cluster/roost/libs/gossip"
	"github.com/roost-cluster/roost/libs/sharding"
	pb "github.com/roost-cluster/roost/proto/roost/cluster/v1"
)

// senderIdleTimeout is how long a sender without messages remains. Members get
// heartbeats, so only the senders of other addresses end.
const senderIdleTimeout = 30 * time.Second

// senders post messages: those to one address in order, and independently of
// other addresses.
type senders struct {
	cfg    Config
	onGone func(sharding.NodeID) // reports evidence
	stats  *counters

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
	// lastServed is the incarnation that last accepted messages at this address:
	// only a process that was there can be gone.
	lastServed sharding.NodeUID
}

func newSenders(cfg Config, stats *counters, onGone func(sharding.NodeID)) *senders {
	s := &senders{cfg: cfg, onGone: onGone, stats: stats, byAddr: map[string]*sender{}}
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

// run posts the messages queued for one address. It ends when it has been idle for
// a while, or when all senders are closed and the queue is empty.
func (s *senders) run(to *sender) {
	idle := time.NewTimer(senderIdleTimeout)
	defer idle.Stop()
	for {
		if batch := s.take(to); len(batch) > 0 {
			s.post(to, batch)
			idle.Reset(senderIdleTimeout)
			continue
		}
		select {
		case <-to.wake:
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
	_, err := to.client.Post(ctx, req)
	if connectionLost(err) {
		_, err = to.client.Post(ctx, req) // on a new connection; twice does no harm
	}
	uid := batch[len(batch)-1].To.UID
	if err == nil {
		s.stats.sent.Add(uint64(len(batch)))
		if uid != 0 {
			to.lastServed = uid
		}
		return
	}
	s.stats.failed.Add(uint64(len(batch)))
	s.cfg.Log.Debug("post failed", "peer", to.addr, "error", err)
	// A peer that accepted messages before had a connection. A dial means that it
	// has ended, and a refusal that nothing listens there any more.
	if errors.Is(err, syscall.ECONNREFUSED) && to.lastServed != 0 {
		s.onGone(sharding.NodeID{Addr: to.addr, UID: to.lastServed})
		to.lastServed = 0
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
