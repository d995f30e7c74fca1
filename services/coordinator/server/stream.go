package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/control/wire"
	"github.com/roost-cluster/roost/libs/factstream"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/coordinator/console"
)

// The coordinator's facts are one entity stream of the journal, fenced like
// any other: claimed with the term, appended with term and sequence checked.
var (
	streamShard  = sharding.ShardID{Type: wire.FactsEntity.Type}
	streamEntity = wire.FactsEntity
	// journalTestShard belongs to no type; reading its fence has no side effect.
	journalTestShard = sharding.ShardID{Type: "roost.probe"}
)

// firstEntities is the page size for listing a journal without facts. It exceeds the number of Roost's own entities,
// so a user's entity shows up if there is one.
const firstEntities = 16

// performJournal does what the core asks of the journal, and steps it with the
// answer.
func (s *Server) performJournal(o coordinator.Output) {
	switch o := o.(type) {
	case coordinator.Survey:
		s.read(o.Number, func(ctx context.Context) (coordinator.Input, error) { return s.survey(ctx, o.Number) })
	case coordinator.Load:
		s.read(o.Number, func(ctx context.Context) (coordinator.Input, error) { return s.loadFacts(ctx, o.Number) })
	case coordinator.Claim:
		op := journal.Op{Claim: &sharding.Claim{Shard: streamShard, Epoch: sharding.MakeEpoch(o.Term, 0), Owner: s.self.UID}}
		s.submit(op, func(r journal.Result) {
			if r.Verdict != sharding.Durable {
				s.log.Warn("the facts cannot be claimed yet", "term", o.Term, "verdict", r.Verdict, "stored", r.Fence.Epoch, "error", r.Err)
			}
			s.step(coordinator.Claimed{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch})
		})
	case coordinator.Append:
		s.storeFacts(o)
	case coordinator.WriteJournalHeartbeat:
		s.writeJournalHeartbeat(o)
	case coordinator.CheckFacts:
		s.checkFacts(o)
	case coordinator.WriteCheckpoint:
		op := journal.Op{Snapshot: &journal.WriteSnapshot{
			Shard: streamShard, Epoch: sharding.MakeEpoch(o.Term, 0), Entity: streamEntity,
			Snapshot: journal.Snapshot{Seq: o.Seq, Encoding: sharding.Protobuf},
			Cut:      o.Seq, // the checkpoint after it has all of these facts
		}}
		s.submit(op, func(r journal.Result) {
			if r.Verdict != sharding.Durable {
				s.telemetry.noCheckpoint.Add(s.ctx, 1)
				s.log.Warn("storing the checkpoint of facts failed, retrying", "term", o.Term, "verdict", r.Verdict, "error", r.Err)
			}
			s.step(coordinator.CheckpointWritten{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch})
		})
	case coordinator.FenceShard:
		s.fenceShard(o)
	case coordinator.ReadForms:
		go func() {
			in := console.StoredForms{Journal: s.journal, Log: s.log}.Read(s.ctx, o)
			s.inbox.Put(func() { s.step(in) })
		}()
	case coordinator.TestJournal:
		s.submit(journal.Op{Fence: &sharding.ReadFence{Shard: journalTestShard}}, func(r journal.Result) {
			s.step(coordinator.JournalTested{Verdict: r.Verdict})
		})
	}
}

// submit hands an operation to the journal; done runs in the loop.
func (s *Server) submit(op journal.Op, done func(journal.Result)) {
	s.journal.Submit(op, func(r journal.Result) { s.inbox.Put(func() { done(r) }) })
}

// read runs in the background, and steps the core with the result.
func (s *Server) read(number uint64, f func(context.Context) (coordinator.Input, error)) {
	go func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.limits.TakeoverTimeout)
		defer cancel()
		in, err := f(ctx)
		if err != nil {
			in = coordinator.ReadFailed{Number: number}
		}
		s.inbox.Put(func() {
			if err != nil {
				s.cannotTakeOver(err)
			}
			s.step(in)
		})
	}()
}

func (s *Server) survey(ctx context.Context, number uint64) (coordinator.Input, error) {
	in := coordinator.Surveyed{Number: number, Generation: s.journal.Generation()}
	var err error
	if in.Highest, err = s.journal.MaxEpoch(ctx); errors.Is(err, journal.ErrCorrupt) {
		s.log.Error("cannot read all epochs of the journal", "hint", "the epoch of the fact stream decides", "error", err)
		in.Highest, in.Damaged, err = 0, true, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the highest epoch: %w", err)
	}
	if in.Heartbeat, err = s.journal.Heartbeat(ctx); errors.Is(err, journal.ErrCorrupt) {
		s.log.Error("cannot read the previous coordinator's journal heartbeat", "hint", "another cluster might be using this journal", "error", err)
		in.Heartbeat, err = sharding.JournalHeartbeat{}, nil
	}
	return in, err
}

func (s *Server) loadFacts(ctx context.Context, number uint64) (coordinator.Input, error) {
	found, err := s.journal.Load(ctx, journal.LoadRequest{Entity: streamEntity})
	if err != nil {
		return nil, fmt.Errorf("reading the fact stream: %w", err)
	}
	facts, since, err := decodeFacts(found)
	if err != nil {
		return nil, fmt.Errorf("reading the fact stream: %w: %w", journal.ErrCorrupt, err)
	}
	go s.tellContradictions(found)
	unknown := 0
	for _, f := range facts {
		if u, is := f.(coordinator.UnknownFact); is && u.Name != factstream.RepairedName {
			unknown++
		}
	}
	if unknown > 0 {
		s.log.Warn("ignoring facts of a later release", "hint", "they are kept; run that release here as well", "facts", unknown)
	}
	in := coordinator.Loaded{Number: number, Facts: facts, FactsAfterMark: since, LastSeq: found.LastSeq}
	if in.LastSeq == 0 {
		if in.Stored, err = s.journal.List(ctx, journal.ListRequest{Limit: firstEntities}); err != nil {
			return nil, fmt.Errorf("listing the entities: %w", err)
		}
	}
	return in, nil
}

// tellContradictions logs facts that were ignored because they contradict others.
func (s *Server) tellContradictions(found journal.Loaded) {
	stream := factstream.Stream{Start: found.LastSeq - uint64(len(found.Records)), Last: found.LastSeq}
	for i := range found.Records {
		stream.Records = append(stream.Records, factstream.Record{Seq: found.Records[i].Seq, Events: found.Records[i].Events})
	}
	if list := factstream.Examine(stream).Findings; len(list) > 0 {
		s.log.Error("contradicting facts, some are ignored", "hint", "\"roost journal check --facts\" lists them, and \"roost journal repair facts\" drops them", "facts", len(list), "first", list[0].String())
	}
}

// storeFacts stores facts as one record.
func (s *Server) storeFacts(o coordinator.Append) {
	events := make([]sharding.Event, len(o.Facts))
	for i, f := range o.Facts {
		events[i] = encodeFact(f)
	}
	s.trouble.begin()
	op := journal.Op{Append: &sharding.Append{
		Shard: streamShard, Epoch: sharding.MakeEpoch(o.Term, 0), Entity: streamEntity,
		Records: []sharding.Record{{Seq: o.Seq, Events: events}},
	}}
	s.submit(op, func(r journal.Result) {
		if o.Term == s.core.ActiveTerm() {
			if r.Verdict == sharding.Durable {
				s.journalAnswers()
			} else {
				s.journalRefuses(r)
			}
		}
		if r.Verdict == sharding.Durable {
			s.measure(o.Facts[:o.NewFacts])
		}
		s.step(coordinator.Appended{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch})
	})
}

// writeJournalHeartbeat stores a journal heartbeat.
func (s *Server) writeJournalHeartbeat(o coordinator.WriteJournalHeartbeat) {
	journal.WriteHeartbeat(s.submit, o.Heartbeat, func(r journal.Result) {
		if r.Verdict != sharding.Durable {
			s.log.Warn("no journal heartbeat was stored", "term", o.Heartbeat.Term, "verdict", r.Verdict, "error", r.Err)
		}
		s.step(coordinator.JournalHeartbeatWritten{Number: o.Number, Verdict: r.Verdict, Fence: r.Fence.Epoch})
	})
}

// checkFacts reads the number of the last record of the fact stream, in the background.
func (s *Server) checkFacts(o coordinator.CheckFacts) {
	go func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.limits.TakeoverTimeout)
		defer cancel()
		found, err := s.journal.Load(ctx, journal.LoadRequest{Entity: streamEntity, LookupOnly: true})
		if err != nil {
			s.log.Debug("reading the last fact failed", "error", err)
			return
		}
		s.inbox.Put(func() { s.step(coordinator.FactsChecked{Number: o.Number, LastSeq: found.LastSeq}) })
	}()
}

// errContested is wrapped when another cluster uses the journal.
var errContested = errors.New("another cluster uses this journal")

// contested returns an error that describes the other cluster, and the remedy.
func (s *Server) contested(o coordinator.Contested) error {
	if o.By.Cluster == o.Cluster { // a second lease of one cluster, for example because the file of the first was removed while it was open
		return fmt.Errorf("another coordinator of this cluster uses this journal with another lease: the one at %s is active, and the lease that lease.url names here does not know of it; "+
			"the store of the lease was removed, replaced or restored, or this process has another lease.url. Give all coordinators the same lease.url; if they have it, stop all of them and start them again",
			o.By.Coordinator.Addr)
	}
	return fmt.Errorf("%w, also named %q: it is cluster %s and its active coordinator is at %s, this one is cluster %s by the lease that lease.url names. "+
		"To join that cluster, give this process its lease.url and discovery.url; to run a second one, give it a journal.url and a cluster.name of its own; "+
		"to let this one have the journal, stop all coordinators of the other first and wait %s",
		errContested, s.cfg.ClusterName, o.By.Cluster, o.By.Coordinator.Addr, o.Cluster, s.limits.JournalHeartbeatPatience)
}

func encodeFact(f coordinator.Fact) sharding.Event {
	var name string
	var m proto.Message
	switch f := f.(type) {
	case coordinator.RowFact:
		name, m = wire.RowFactName, wire.ToRowFact(wire.RowFact(f))
	case coordinator.TypeFact:
		name, m = wire.TypeFactName, wire.ToTypeFact(wire.TypeFact(f))
	case coordinator.DrainFact:
		name, m = wire.DrainFactName, &coordinatorv1.DrainFact{Region: wire.ToNode(f.Region), Note: toNote(f.Note)}
		if f.Resume {
			name = wire.ResumeFactName
		}
	case coordinator.UnknownFact:
		return sharding.Event{Name: f.Name, Version: f.Version, Encoding: f.Encoding, Payload: []byte(f.Payload)}
	case coordinator.TargetFact:
		name, m = wire.TargetFactName, &coordinatorv1.TargetFact{Version: f.Version, Seen: f.Seen}
	case coordinator.LossFact:
		name, m = wire.LossFactName, &coordinatorv1.LossFact{}
	case coordinator.CordonFact:
		name, m = wire.CordonFactName, &coordinatorv1.CordonFact{Region: f.Region, Lifted: f.Lifted, After: uint64(f.After), Note: toNote(f.Note)}
	case coordinator.QuarantineFact:
		name, m = wire.QuarantineFactName, toQuarantine(f)
	case coordinator.FreezeFact:
		name, m = wire.FreezeFactName, &coordinatorv1.FreezeFact{Frozen: f.Frozen, UntilUnixMs: unixMs(f.Until), Note: toNote(f.Note)}
	case coordinator.PinFact:
		name, m = wire.PinFactName, &coordinatorv1.PinFact{Shard: wire.ToShard(f.Shard), Region: f.Region, Note: toNote(f.Note)}
	case coordinator.MoveFact:
		name, m = wire.MoveFactName, &coordinatorv1.MoveFact{Shard: wire.ToShard(f.Shard), Region: f.Region, Epoch: uint64(f.Epoch), Note: toNote(f.Note)}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a fact cannot be written: %v", err)) // names are checked UTF-8
	}
	return sharding.Event{Name: name, Encoding: sharding.Protobuf, Payload: b}
}

// decodeFacts reads the stream after its mark, which is empty. n counts the facts.
func decodeFacts(found journal.Loaded) (facts []coordinator.Fact, n int, err error) {
	for _, r := range found.Records {
		for _, e := range r.Events {
			f, err := decodeFact(e)
			if err != nil {
				return nil, 0, fmt.Errorf("record %d: %w", r.Seq, err)
			}
			facts = append(facts, f)
			n++
		}
	}
	return facts, n, nil
}

func decodeFact(e sharding.Event) (coordinator.Fact, error) {
	switch e.Name {
	case wire.RowFactName:
		f, err := wire.DecodeRowFact(e.Payload)
		if err != nil {
			return nil, err
		}
		return coordinator.RowFact(f), nil
	case wire.TypeFactName:
		f, err := wire.DecodeTypeFact(e.Payload)
		if err != nil {
			return nil, err
		}
		return coordinator.TypeFact(f), nil
	case wire.DrainFactName, wire.ResumeFactName:
		var d coordinatorv1.DrainFact
		if err := proto.Unmarshal(e.Payload, &d); err != nil {
			return nil, err
		}
		return coordinator.DrainFact{Region: wire.FromNode(d.Region), Resume: e.Name == wire.ResumeFactName, Note: fromNote(d.Note)}, nil
	case wire.TargetFactName:
		var g coordinatorv1.TargetFact
		if err := proto.Unmarshal(e.Payload, &g); err != nil {
			return nil, err
		}
		return coordinator.TargetFact{Version: g.Version, Seen: g.Seen}, nil
	case wire.LossFactName:
		return coordinator.LossFact{}, nil
	case wire.CordonFactName:
		var c coordinatorv1.CordonFact
		if err := proto.Unmarshal(e.Payload, &c); err != nil {
			return nil, err
		}
		return coordinator.CordonFact{Region: c.Region, Lifted: c.Lifted, After: sharding.Epoch(c.After), Note: fromNote(c.Note)}, nil
	case wire.QuarantineFactName:
		var q coordinatorv1.QuarantineFact
		if err := proto.Unmarshal(e.Payload, &q); err != nil {
			return nil, err
		}
		return fromQuarantine(&q), nil
	case wire.FreezeFactName:
		var z coordinatorv1.FreezeFact
		if err := proto.Unmarshal(e.Payload, &z); err != nil {
			return nil, err
		}
		return coordinator.FreezeFact{Frozen: z.Frozen, Until: fromUnixMs(z.UntilUnixMs), Note: fromNote(z.Note)}, nil
	case wire.PinFactName:
		var p coordinatorv1.PinFact
		if err := proto.Unmarshal(e.Payload, &p); err != nil {
			return nil, err
		}
		return coordinator.PinFact{Shard: wire.FromShard(p.Shard), Region: p.Region, Note: fromNote(p.Note)}, nil
	case wire.MoveFactName:
		var v coordinatorv1.MoveFact
		if err := proto.Unmarshal(e.Payload, &v); err != nil {
			return nil, err
		}
		return coordinator.MoveFact{Shard: wire.FromShard(v.Shard), Region: v.Region, Epoch: sharding.Epoch(v.Epoch), Note: fromNote(v.Note)}, nil
	}
	return coordinator.UnknownFact{Name: e.Name, Version: e.Version, Encoding: e.Encoding, Payload: string(e.Payload)}, nil
}

func toNote(n coordinator.Note) *coordinatorv1.Note {
	return &coordinatorv1.Note{By: n.By, Reason: n.Reason, AtUnixMs: unixMs(n.At)}
}

func fromNote(n *coordinatorv1.Note) coordinator.Note {
	return coordinator.Note{By: n.GetBy(), Reason: n.GetReason(), At: fromUnixMs(n.GetAtUnixMs())}
}

// unixMs writes a time of a fact; 0: the zero time.
func unixMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromUnixMs(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// fenceShard claims a shard that belongs to no region.
func (s *Server) fenceShard(o coordinator.FenceShard) {
	s.submit(journal.Op{Claim: &o.Claim}, func(r journal.Result) {
		if r.Verdict != sharding.Durable {
			s.log.Warn("cannot claim a shard for inspection", "shard", o.Claim.Shard, "verdict", r.Verdict, "stored", r.Fence.Epoch, "error", r.Err)
		}
		s.step(coordinator.ShardFenced{Shard: o.Claim.Shard, Epoch: o.Claim.Epoch, Verdict: r.Verdict})
	})
}
