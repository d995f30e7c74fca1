package server

import (
	"context"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/node/telemetry/slowest"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// readSends reads a page of records with pending sends, as a load reads an entity.
func (s *shardLoop) readSends(o outbox.Read) {
	s.queue(job{Work: work{do: func() {
		page, err := s.journal.Sends(s.ctx, o.SendsRequest)
		if err != nil {
			s.log.Warn("cannot read pending sends, delivering them later", "error", err)
		}
		s.put(item{in: outbox.Page{Number: o.Number, SendsPage: page, Err: err}})
	}}})
}

// routeSend brings a send to its target.
func (s *shardLoop) routeSend(o outbox.Deliver) {
	s.route(o.Env, false, origin{slowest.OriginSend, o.From}, func(reply sharding.Reply) {
		s.put(item{in: outbox.Answered{Number: o.Number, Reply: reply}})
	})
}

// storeEnds stores how sends have ended.
func (s *shardLoop) storeEnds(o outbox.Ack) {
	s.journal.Submit(journal.Op{Append: &o.Append}, func(r journal.Result) {
		s.put(item{in: outbox.Acked{Number: o.Number, Verdict: r.Verdict}})
	})
}

// sendDied tells operators of a dead letter.
func (s *shardLoop) sendDied(l outbox.DeadLetter) {
	s.log.Warn("a send became a dead letter", "hint", "its sender was not notified; the journal keeps it: roost entity sends",
		"entity.type", l.From.Type, "entity.id", l.From.ID, "record", l.Seq, "place", l.Place,
		"target", l.To.String(), "command", l.Command, "state", l.State.String(), "code", l.Code, "reason", l.Message)
}

// readSend reads one send, for an operator who wants to deal with it.
func (s *shardLoop) readSend(o turn.ReadSend) {
	s.queue(job{Work: work{do: func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.loadTimeout)
		defer cancel()
		for _, dead := range []bool{false, true} {
			page, err := s.journal.Sends(ctx, o.Query(dead))
			if out, last := o.Answer(dead, page, err); last {
				s.inbox.put(s.index, item{in: out})
				return
			}
		}
	}}})
}
