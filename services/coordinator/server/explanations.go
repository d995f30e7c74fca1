package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// explanationEntity has the explanations. It is in the shard of the facts, and so behind their fence.
var explanationEntity = wire.DecisionsEntity

// droppedName is the name of a count of explanations that were not kept, among the explanations.
const droppedName = "dropped"

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
		s.readExplanations(journal.LoadRequest{Entity: explanationEntity, Shard: streamShard, LookupOnly: true, Background: true}, func(l journal.Loaded, err error) {
			s.explanations.Located(time.Now(), q.Number, l.LastSeq, err == nil)
			s.keepExplanations()
		})
	case coordinator.MeasureExplanations:
		s.readExplanations(journal.LoadRequest{Entity: explanationEntity, Shard: streamShard, Background: true}, func(l journal.Loaded, err error) {
			s.explanations.Measured(time.Now(), q.Number, sizesOf(l.Records), err == nil)
		})
	case coordinator.AppendExplanations:
		op := journal.Op{Append: &sharding.Append{
			Shard: streamShard, Epoch: sharding.MakeEpoch(q.Term, 0), Entity: explanationEntity,
			Records: []sharding.Record{{Seq: q.Seq, Events: explanationEvents(q)}},
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
			Shard: streamShard, Epoch: sharding.MakeEpoch(q.Term, 0), Entity: explanationEntity,
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

func explanationEvents(q coordinator.AppendExplanations) []sharding.Event {
	var events []sharding.Event
	if q.Dropped > 0 {
		events = append(events, sharding.Event{Name: droppedName, Encoding: sharding.Protobuf, Payload: marshal(&coordinatorv1.DroppedDecisions{N: q.Dropped})})
	}
	for _, d := range q.Explanations {
		events = append(events, sharding.Event{Name: wire.ExplanationName, Encoding: sharding.Protobuf, Payload: d})
	}
	return events
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

func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be written: %v", m, err)) // names are checked UTF-8
	}
	return b
}

func encodeExplanation(d *coordinator.Explanation) []byte {
	w := &coordinatorv1.Decision{
		Term: uint32(d.Term), N: d.N, AtUnixMs: unixMs(d.At), Kind: uint32(d.Kind), From: d.From, To: d.To, Epoch: uint64(d.Epoch),
		Cause: uint32(d.Cause), Strategy: d.Strategy, Request: d.Request, By: d.By, Reason: d.Reason,
		Moves: uint32(d.Moves), Begun: uint32(d.Begun), Unlisted: uint32(d.Unlisted), Unweighed: d.Unweighed,
	}
	if d.Shard.Type != "" {
		w.Shard = wire.ToShard(d.Shard)
	}
	if d.Chosen.Region != "" {
		w.Chosen = toWeighed(d.Chosen)
	}
	if d.Loads != (coordinator.WeighedLoads{}) {
		w.Loads = &coordinatorv1.Loads{Shard: d.Loads.Shard, From: d.Loads.From, To: d.Loads.To}
	}
	for _, o := range d.Alternatives() {
		w.Others = append(w.Others, toWeighed(o))
	}
	return marshal(w)
}

func toWeighed(w coordinator.Weighed) *coordinatorv1.Weighed {
	return &coordinatorv1.Weighed{Region: w.Region, Shards: uint32(w.Shards), Total: uint32(w.Total), Against: uint32(w.Against)}
}

// keptExplanation is an explanation as it is kept, and how many were dropped before it.
type keptExplanation struct {
	*coordinatorv1.Decision
	dropped uint64
}

// decodeExplanations reads records of the log, and then explanations that wait to be stored. It returns the newest
// ones that match, the oldest of them first, and none twice. What cannot be read is left out: a later release wrote
// it.
func decodeExplanations(records []sharding.Record, waiting [][]byte, newest int, match func(*coordinatorv1.Decision) bool) (list []keptExplanation) {
	type id struct {
		term uint32
		n    uint64
	}
	seen := map[id]bool{}
	dropped := uint64(0)
	add := func(b []byte) {
		d := &coordinatorv1.Decision{}
		if proto.Unmarshal(b, d) != nil || !match(d) || seen[id{d.Term, d.N}] {
			return
		}
		seen[id{d.Term, d.N}] = true
		list = append(list, keptExplanation{d, dropped})
		dropped = 0
		if len(list) >= 2*newest {
			list = slices.Delete(list, 0, len(list)-newest)
		}
	}
	for i := range records {
		for _, e := range records[i].Events {
			switch e.Name {
			case wire.ExplanationName:
				add(e.Payload)
			case droppedName:
				var n coordinatorv1.DroppedDecisions
				if proto.Unmarshal(e.Payload, &n) == nil {
					dropped += n.N
				}
			}
		}
	}
	for _, b := range waiting {
		add(b)
	}
	return list[max(0, len(list)-newest):]
}
