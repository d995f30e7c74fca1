package server

import (
	"errors"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/gateway"
)

// regionLink is the way to one region incarnation.
type regionLink struct {
	peer *link.Peer
	// Of the loop only: the open link and its number; nil while there is none.
	open   *link.Link
	number uint64
	queued bool // commands wait for flush
}

// connect begins to keep a link up. What the link reports comes back as
// inputs; links are numbered over all regions.
func (s *Server) connect(region sharding.NodeID) {
	l := &regionLink{}
	var number uint64 // of the link that is up; Up and Down take turns
	peer, err := link.NewPeer(s.linkConfig, region, link.Events{
		Up: func(open *link.Link) {
			number = s.lastLink.Add(1)
			n := number
			s.inbox.put(item{do: func() { s.linkUp(region, l, open, n) }})
		},
		Down: func(_ *link.Link, down link.Down) { s.linkLost(region, l, number, down) },
		Failed: func(err error, gone bool) {
			s.log.Debug("no link to a region", "region", region.Addr, "gone", gone, "error", err)
		},
		Answers: func(_ *link.Link, as []link.Answer) { s.inbox.answers(as) },
	})
	if err != nil {
		// A row that names a node which cannot be: another row will replace it.
		s.log.Error("a row names no region that could be reached", "region", region, "error", err)
		return
	}
	l.peer = peer
	s.links[region] = l
}

// disconnect closes a link; the loop does not wait for it.
func (s *Server) disconnect(region sharding.NodeID) {
	if l := s.links[region]; l != nil {
		delete(s.links, region)
		s.jobs.Go(l.peer.Close)
	}
}

func (s *Server) linkUp(region sharding.NodeID, l *regionLink, open *link.Link, number uint64) {
	if s.links[region] != l {
		return // disconnected meanwhile
	}
	l.open, l.number = open, number
	s.log.Info("link up", "region", region.Addr)
	s.step(gateway.LinkUp{Region: region, Link: number})
}

// linkLost reports what was never written first: it is in no doubt.
func (s *Server) linkLost(region sharding.NodeID, l *regionLink, number uint64, down link.Down) {
	items := make([]item, 0, len(down.Unsent)+1)
	for _, corr := range down.Unsent {
		items = append(items, item{in: gateway.SendFailed{Attempt: gateway.Attempt(corr)}})
	}
	s.inbox.put(append(items, item{do: func() { s.linkDown(region, l, number, down.Reason) }})...)
}

func (s *Server) linkDown(region sharding.NodeID, l *regionLink, number uint64, reason error) {
	if l.number == number {
		l.open = nil
	}
	if stalled := new(link.Stalled); errors.As(reason, &stalled) {
		s.log.Warn("the link to a region was cut because it did nothing for too long; what was sent on it is in doubt",
			"region", region.Addr, "reason", stalled.Err, "pending_bytes", stalled.Pending, "silence", stalled.For)
	} else {
		s.log.Info("link down", "region", region.Addr, "reason", reason)
	}
	s.step(gateway.LinkDown{Region: region, Link: number})
}

// send queues a command on its link. What cannot be sent becomes an input once
// the outputs of this step are performed; until the core has taken that in,
// nothing more of the shard is sent, so that nothing overtakes.
func (s *Server) send(o *gateway.Send) {
	if _, failed := s.failed[o.Shard]; failed {
		s.sendFailed(o)
		return
	}
	l := s.links[o.Region]
	if l == nil || l.open == nil || l.number != o.Link {
		s.sendFailed(o)
		return
	}
	s.command = link.Command{Corr: uint64(o.Attempt), Epoch: o.Epoch, Envelope: o.Env}
	err := l.open.Queue(o.Shard.Index, &s.command)
	switch {
	case err == nil && !l.queued:
		l.queued = true
		s.queued = append(s.queued, l)
	case err == nil:
	case errors.Is(err, link.ErrTooLarge), errors.Is(err, sharding.ErrBadName):
		s.unsent = append(s.unsent, gateway.Answer{Attempt: o.Attempt, Reply: sharding.Reject(sharding.InvalidArgument, err.Error())})
	default:
		s.sendFailed(o)
	}
}

func (s *Server) sendFailed(o *gateway.Send) {
	s.failed[o.Shard] = struct{}{}
	s.unsent = append(s.unsent, gateway.SendFailed{Attempt: o.Attempt})
}

// flush writes what the batch has queued, once per link.
func (s *Server) flush() {
	for _, l := range s.queued {
		l.queued = false
		if l.open != nil {
			l.open.Flush()
		}
	}
	clear(s.queued)
	s.queued = s.queued[:0]
}
