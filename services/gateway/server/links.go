package server

import (
	"errors"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/gateway"
)

// openLink is a link that is up.
type openLink struct {
	*link.Link
	queued bool // commands wait for flush
}

// connect starts to keep a link up. Its events come back as inputs; links are numbered
// across all regions.
func (s *Server) connect(region sharding.NodeID) {
	var client *link.Client
	var number uint64 // of the link that is up; Up and Down alternate
	var err error
	cfg, generation := s.linkConfig, s.core.Generation()
	cfg.Generation = func() sharding.Generation { return generation }
	client, err = link.NewClient(cfg, region, link.Events{
		Up: func(open *link.Link) {
			number = s.lastLink.Add(1)
			up := gateway.LinkUp{Region: region, Link: number}
			s.put(func() {
				if s.links[region] == client { // else disconnected meanwhile
					s.linkUp(up, open)
				}
			})
		},
		Down: func(_ *link.Link, down link.Down) {
			in := gateway.LinkDown{Region: region, Link: number}
			s.put(func() { s.linkDown(in, &down) })
		},
		Failed: func(err error, gone bool) {
			s.log.Debug("no link to a region", "region", region.Addr, "gone", gone, "error", err)
		},
		Answers: func(_ *link.Link, as []link.Answer) { s.answers(as) },
	})
	if err != nil {
		// The row has an invalid address; another row will replace it.
		s.log.Error("a row has an invalid address of a region", "region", region, "error", err)
		return
	}
	s.links[region] = client
}

// disconnect closes a link; the loop does not wait for that.
func (s *Server) disconnect(region sharding.NodeID) {
	if client := s.links[region]; client != nil {
		delete(s.links, region)
		s.sender.Close(region)
		s.jobs.Go(client.Close)
	}
}

func (s *Server) linkUp(in gateway.LinkUp, open *link.Link) {
	s.log.Info("link up", "region", in.Region.Addr)
	s.sender.Up(in, &openLink{Link: open})
	s.performAll(s.outs[:0])
}

func (s *Server) linkDown(in gateway.LinkDown, down *link.Down) {
	if stalled := new(link.Stalled); errors.As(down.Reason, &stalled) {
		s.log.Warn("the link to a region was closed because it made no progress for too long; what was sent on it is in doubt",
			"region", in.Region.Addr, "reason", stalled.Err, "pending_bytes", stalled.Pending, "silence", stalled.For)
	} else {
		s.log.Info("link down", "region", in.Region.Addr, "reason", down.Reason)
	}
	unsent := make([]gateway.Attempt, len(down.Unsent))
	for i, corr := range down.Unsent {
		unsent[i] = gateway.Attempt(corr)
	}
	s.sender.Down(in, unsent)
	s.performAll(s.outs[:0])
}

// sendCommand queues a command on its link, if the Sender allows it.
func (s *Server) sendCommand(o *gateway.SendCommand) {
	l, ok := s.sender.Link(o)
	if !ok {
		return
	}
	s.command = link.Command{Corr: uint64(o.Attempt), Epoch: o.Epoch, Envelope: o.Env}
	err := l.Queue(o.Shard.Index, &s.command)
	switch {
	case err == nil && !l.queued:
		l.queued = true
		s.queued = append(s.queued, l)
	case err == nil:
	case errors.Is(err, link.ErrTooLarge):
		s.sender.Refused(o, err)
	default:
		s.sender.Failed(o)
	}
}

// flush writes the commands that the batch has queued, once per link.
func (s *Server) flush() {
	for _, l := range s.queued {
		l.queued = false
		l.Flush()
	}
	clear(s.queued)
	s.queued = s.queued[:0]
}
