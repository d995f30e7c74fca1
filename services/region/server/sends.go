package server

import (
	"context"
	"errors"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// readSends reads a page of records with pending sends, as a load reads an entity.
func (s *shardLoop) readSends(o outbox.Read) {
	s.queue(job{Work: work{do: func() {
		req := journal.SendsRequest{Limit: o.Limit}
		for _, p := range o.Shards {
			req.Shards = append(req.Shards, journal.SendPosition{Shard: p.Shard, Entity: p.Entity, Seq: p.Seq})
		}
		page, err := s.journal.Sends(s.ctx, req)
		out := outbox.Page{Number: o.Number, Now: page.Now, More: page.More}
		if err != nil {
			out.Err = err.Error()
			s.log.Warn("what entities have sent cannot be read; it is delivered later", "error", err)
		}
		for i := range page.Rows {
			out.Rows = append(out.Rows, sendRow(&page.Rows[i]))
		}
		for _, d := range page.Damaged {
			out.Failed = append(out.Failed, d.Shard)
		}
		s.put(item{in: region.SendsRead{Page: out}})
	}}})
}

func sendRow(r *journal.SendRow) outbox.Row {
	out := outbox.Row{Shard: r.Shard, Entity: r.Entity, Seq: r.Seq, At: r.At}
	if r.Err != nil {
		out.Err = r.Err.Error()
		return out
	}
	for i := range r.Sends {
		if r.States.Of(i) == sharding.SendPending {
			out.Sends = append(out.Sends, outbox.Pending{Place: uint16(i), Send: r.Sends[i]})
		}
	}
	return out
}

// routeSend brings a send to its target.
func (s *shardLoop) routeSend(o outbox.Deliver) {
	s.route(o.Env, false, func(reply sharding.Reply) {
		s.put(item{in: region.Routed{Answer: outbox.Answered{Number: o.Number, Reply: reply}}})
	})
}

// storeEnds stores how sends have ended.
func (s *shardLoop) storeEnds(o outbox.Ack) {
	s.journal.Submit(journal.Op{Append: &o.Append}, func(r journal.Result) {
		s.put(item{in: region.EndsStored{Acked: outbox.Acked{Number: o.Number, Verdict: r.Verdict}}})
	})
}

// sendDied tells operators of a dead letter.
func (s *shardLoop) sendDied(l outbox.DeadLetter) {
	s.log.Warn("a send has become a dead letter: it is not delivered any more, and its sender was not told; the journal keeps it",
		"entity.type", l.From.Type, "entity.id", l.From.ID, "record", l.Seq, "place", l.Place,
		"target", l.To.String(), "command", l.Command, "state", l.State.String(), "code", l.Code, "reason", l.Message)
}

// readSend reads one send, with which an operator wants to deal. It looks among the pending ones
// first: one that dies between the two reads is found among the dead ones.
func (s *shardLoop) readSend(o turn.ReadSend) {
	s.queue(job{Work: work{do: func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.loadTimeout)
		defer cancel()
		out := turn.SendRead{Incarnation: o.Incarnation, Request: o.Request, State: sharding.SendDone}
		for _, dead := range []bool{false, true} {
			page, err := s.journal.Sends(ctx, journal.SendRequest(o.Shard, o.Entity, o.Seq, dead))
			if err == nil && len(page.Damaged) > 0 {
				err = page.Damaged[0].Err
			}
			if err == nil {
				out.State, out.Send, err = journal.FindSend(page.Rows, o.Entity, o.Seq, int(o.Place))
			}
			switch {
			case errors.Is(err, journal.ErrCorrupt):
				out.Code, out.Err = sharding.DataLoss, "what is stored of it is damaged"
			case err != nil:
				out.Code, out.Err = sharding.Unavailable, "the journal does not answer; try again"
			}
			if err != nil || out.State != sharding.SendDone {
				break
			}
		}
		s.inbox.put(s.index, item{in: region.Turn{Input: out}})
	}}})
}
