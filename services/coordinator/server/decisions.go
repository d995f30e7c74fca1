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

// ringEntity has the decisions. It is in the shard of the facts, and so behind their fence.
var ringEntity = sharding.Entity{Type: streamEntity.Type, ID: "decisions"}

// Names of what a record of decisions holds.
const (
	decisionName = "decision"
	droppedName  = "dropped"
)

// ringLimits are those of the configuration.
func (c *Config) ringLimits() coordinator.RingLimits {
	l := coordinator.DefaultRingLimits()
	l.MaxBytes = c.DecisionsMiB << 20
	return l
}

// keepDecisions does what the ring asks of the journal. Nothing waits for it.
func (s *Server) keepDecisions() {
	switch q := s.ring.Next(time.Now()).(type) {
	case coordinator.RingLocate:
		s.readRing(journal.LoadRequest{Entity: ringEntity, Shard: streamShard, LookupOnly: true, Background: true}, func(l journal.Loaded, err error) {
			s.ring.Located(time.Now(), q.Number, l.LastSeq, err == nil)
		})
	case coordinator.RingMeasure:
		s.readRing(journal.LoadRequest{Entity: ringEntity, Shard: streamShard, Background: true}, func(l journal.Loaded, err error) {
			s.ring.Measured(time.Now(), q.Number, sizesOf(l.Records), err == nil)
		})
	case coordinator.RingAppend:
		op := journal.Op{Append: &sharding.Append{
			Shard: streamShard, Epoch: sharding.MakeEpoch(q.Term, 0), Entity: ringEntity,
			Records: []sharding.Record{{Seq: q.Seq, Events: ringEvents(q)}},
		}}
		s.submit(op, func(r journal.Result) {
			if r.Verdict != sharding.Durable {
				s.log.Warn("decisions were not stored yet", "term", q.Term, "decisions", len(q.Decisions), "verdict", r.Verdict, "error", r.Err)
			}
			s.ring.Stored(time.Now(), q.Number, r.Verdict)
			s.keepDecisions()
		})
	case coordinator.RingCut:
		op := journal.Op{Snapshot: &journal.WriteSnapshot{
			Shard: streamShard, Epoch: sharding.MakeEpoch(q.Term, 0), Entity: ringEntity,
			Snapshot: journal.Snapshot{Seq: q.Seq, Encoding: sharding.Protobuf}, Cut: q.Seq,
		}}
		s.submit(op, func(r journal.Result) { s.ring.CutDone(time.Now(), q.Number, r.Verdict) })
	}
	_, dropped := s.ring.Waiting()
	s.telemetry.countLost(s.ctx, dropped)
}

// readRing reads beside the loop.
func (s *Server) readRing(req journal.LoadRequest, done func(journal.Loaded, error)) {
	go func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.limits.TakeoverTimeout)
		defer cancel()
		l, err := s.journal.Load(ctx, req)
		if err != nil && s.ctx.Err() == nil {
			s.log.Warn("the decisions that are stored cannot be read", "error", err)
		}
		s.inbox.Put(func() { done(l, err) })
	}()
}

func ringEvents(q coordinator.RingAppend) []sharding.Event {
	var events []sharding.Event
	if q.Dropped > 0 {
		events = append(events, sharding.Event{Name: droppedName, Encoding: sharding.Protobuf, Payload: marshal(&coordinatorv1.DroppedDecisions{N: q.Dropped})})
	}
	for _, d := range q.Decisions {
		events = append(events, sharding.Event{Name: decisionName, Encoding: sharding.Protobuf, Payload: d})
	}
	return events
}

func sizesOf(records []sharding.Record) (list []coordinator.RingRecord) {
	for i := range records {
		n := 0
		for _, e := range records[i].Events {
			n += len(e.Payload)
		}
		list = append(list, coordinator.RingRecord{Seq: records[i].Seq, Bytes: n})
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

func encodeDecision(d *coordinator.Decision) []byte {
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
	for _, o := range d.Alternatives() {
		w.Others = append(w.Others, toWeighed(o))
	}
	return marshal(w)
}

func toWeighed(w coordinator.Weighed) *coordinatorv1.Weighed {
	return &coordinatorv1.Weighed{Region: w.Region, Shards: uint32(w.Shards), Total: uint32(w.Total), Against: uint32(w.Against)}
}

// keptDecision is a decision as it is kept, and how many were dropped before it.
type keptDecision struct {
	*coordinatorv1.Decision
	dropped uint64
}

// decodeDecisions reads records of the ring, and then decisions that wait to be stored. It returns
// the newest ones that match, the oldest of them first, and none twice. What cannot be read is left
// out: it is of a later release.
func decodeDecisions(records []sharding.Record, waiting [][]byte, newest int, match func(*coordinatorv1.Decision) bool) (list []keptDecision) {
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
		list = append(list, keptDecision{d, dropped})
		dropped = 0
		if len(list) >= 2*newest {
			list = slices.Delete(list, 0, len(list)-newest)
		}
	}
	for i := range records {
		for _, e := range records[i].Events {
			switch e.Name {
			case decisionName:
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
