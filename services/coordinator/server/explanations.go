package server

import (
	"context"
	"time"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/coordinator/console"
)

// explanationLimits returns the limits that the configuration sets.
func (c *Config) explanationLimits() coordinator.ExplanationLimits {
	l := coordinator.DefaultExplanationLimits()
	l.MaxBytes = c.DecisionsMiB << 20
	return l
}

// keepExplanations does what the log asks of the journal. Nothing waits for it.
func (s *Server) keepExplanations() {
	switch q := s.explanations.Next(time.Now()).(type) {
	case coordinator.LocateExplanations:
		s.readExplanations(journal.LoadRequest{Entity: wire.DecisionsEntity, Shard: streamShard, LookupOnly: true, Background: true}, func(l journal.Loaded, err error) {
			s.explanations.Located(time.Now(), q.Number, l.LastSeq, err == nil)
			s.keepExplanations()
		})
	case coordinator.MeasureExplanations:
		s.readExplanations(journal.LoadRequest{Entity: wire.DecisionsEntity, Shard: streamShard, Background: true}, func(l journal.Loaded, err error) {
			s.explanations.Measured(time.Now(), q.Number, sizesOf(l.Records), err == nil)
		})
	case coordinator.AppendExplanations:
		op := journal.Op{Append: &sharding.Append{
			Shard: streamShard, Epoch: sharding.MakeEpoch(q.Term, 0), Entity: wire.DecisionsEntity,
			Records: []sharding.Record{{Seq: q.Seq, Events: console.ExplanationEvents(q)}},
		}}
		s.submit(op, func(r journal.Result) {
			if r.Verdict != sharding.Durable {
				s.log.Warn("explanations were not stored yet", "term", q.Term, "explanations", len(q.Explanations), "verdict", r.Verdict, "error", r.Err)
			}
			s.explanations.Stored(time.Now(), q.Number, r.Verdict)
			s.keepExplanations()
		})
	case coordinator.CutExplanations:
		op := journal.Op{Snapshot: &journal.WriteSnapshot{
			Shard: streamShard, Epoch: sharding.MakeEpoch(q.Term, 0), Entity: wire.DecisionsEntity,
			Snapshot: journal.Snapshot{Seq: q.Seq, Encoding: sharding.Protobuf}, Cut: q.Seq,
		}}
		s.submit(op, func(r journal.Result) { s.explanations.CutDone(time.Now(), q.Number, r.Verdict) })
	}
	_, dropped := s.explanations.Waiting()
	s.telemetry.countLost(s.ctx, dropped)
	if s.explanationsEnded != nil && s.explanations.Ended() {
		s.explanationsEnded()
		s.explanationsEnded = nil
	}
}

// readExplanations reads in the background.
func (s *Server) readExplanations(req journal.LoadRequest, done func(journal.Loaded, error)) {
	go func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.limits.TakeoverTimeout)
		defer cancel()
		l, err := s.journal.Load(ctx, req)
		if err != nil && s.ctx.Err() == nil {
			s.log.Warn("the explanations that are stored cannot be read", "error", err)
		}
		s.inbox.Put(func() { done(l, err) })
	}()
}

func sizesOf(records []sharding.Record) (list []coordinator.ExplanationRecord) {
	for i := range records {
		n := 0
		for _, e := range records[i].Events {
			n += len(e.Payload)
		}
		list = append(list, coordinator.ExplanationRecord{Seq: records[i].Seq, Bytes: n})
	}
	return list
}
