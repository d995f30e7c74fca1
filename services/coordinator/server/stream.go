package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/wire"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// The coordinator's facts are one entity stream of the journal, fenced like
// any other: claimed with the term, appended with term and sequence checked.
var (
	streamShard  = sharding.ShardID{Type: "roost.coordinator"}
	streamEntity = sharding.Entity{Type: "roost.coordinator", ID: "facts"}
)

const (
	factsPerRecord   = 1024
	factsPerSnapshot = 4096
	retryPause       = 100 * time.Millisecond
)

// stream is where the loop stands in the fact stream.
type stream struct {
	seq   uint64 // of the last durable record
	busy  bool   // a record is under way
	facts int    // since the newest snapshot
}

// elect makes this process the active coordinator of a term: it checks that
// the term is above every epoch of the journal, claims the stream and folds
// it. It runs beside the loop; nothing is answered before.
func (s *Server) elect(term sharding.Term) {
	for {
		if t, ok := s.keeper.Valid(); !ok || t != term || s.ctx.Err() != nil {
			return // lost meanwhile
		}
		err := s.tryElect(term)
		if err == nil {
			return
		}
		s.log.Warn("cannot take over yet", "term", term, "error", err)
		select {
		case <-time.After(retryPause):
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *Server) tryElect(term sharding.Term) error {
	ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
	defer cancel()
	epoch := sharding.MakeEpoch(term, 0)
	highest, err := s.journal.MaxEpoch(ctx)
	if errors.Is(err, journal.ErrCorrupt) {
		// Of the epochs that some coordinator gave, none is above the claim of the
		// stream by that coordinator, and the claim below asks for that one.
		s.log.Error("not all epochs of the journal can be read, that of the fact stream decides", "error", err)
		highest, err = 0, nil
	}
	if err != nil {
		return fmt.Errorf("reading the highest epoch: %w", err)
	}
	if highest.Term() >= term && highest != epoch {
		// A lost lease record must not start below the fence.
		s.keeper.RaiseTerm(highest.Term())
		return nil
	}
	claimed := make(chan journal.Result, 1)
	s.journal.Submit(journal.Op{Claim: &sharding.Claim{Shard: streamShard, Epoch: epoch, Owner: s.self.UID}},
		func(r journal.Result) { claimed <- r })
	r := <-claimed
	switch r.Verdict {
	case sharding.Durable:
	case sharding.RefusedEpoch:
		s.keeper.RaiseTerm(r.Fence.Epoch.Term())
		return nil
	default:
		return fmt.Errorf("claiming the fact stream: %s: %w", r.Verdict, r.Err)
	}
	found, err := s.journal.Load(ctx, journal.LoadRequest{Entity: streamEntity})
	if err != nil {
		return fmt.Errorf("reading the fact stream: %w", err)
	}
	facts, n, err := decodeFacts(found)
	if err != nil {
		s.fail(fmt.Errorf("the fact stream cannot be read: %w", err))
		return nil
	}
	s.inbox.put(func() {
		if t, ok := s.keeper.Valid(); !ok || t != term {
			return
		}
		s.log.Info("active", "term", term, "facts", len(facts))
		s.term, s.stream = term, stream{seq: found.LastSeq, facts: n}
		s.reviewMembers()
		s.step(coordinator.Elected{Term: term, Facts: facts})
	})
	return nil
}

// storeFacts stores all facts that have gathered in the queue as one record.
func (s *Server) storeFacts() {
	var events []sharding.Event
	through := 0 // the queue up to here follows from the stored facts
	for i, o := range s.queue {
		p, ok := o.(coordinator.Persist)
		if !ok {
			continue
		}
		if len(events) == factsPerRecord {
			break
		}
		events = append(events, encodeFact(p.Fact))
		through = i + 1
	}
	for through < len(s.queue) {
		if _, ok := s.queue[through].(coordinator.Persist); ok {
			break
		}
		through++
	}
	s.stream.busy = true
	a := &sharding.Append{
		Shard: streamShard, Epoch: sharding.MakeEpoch(s.term, 0), Entity: streamEntity,
		Records: []sharding.Record{{Seq: s.stream.seq + 1, Events: events}},
	}
	s.submit(s.term, a, through)
}

func (s *Server) submit(term sharding.Term, a *sharding.Append, through int) {
	s.journal.Submit(journal.Op{Append: a}, func(r journal.Result) {
		s.inbox.put(func() { s.stored(term, a, through, r) })
	})
}

// stored takes the journal's verdict on a record of facts.
func (s *Server) stored(term sharding.Term, a *sharding.Append, through int, r journal.Result) {
	if s.term != term {
		if r.Verdict == sharding.UnknownOutcome {
			s.fail(fmt.Errorf("whether facts of term %d were stored is not known: %w", term, r.Err))
		}
		return // deposed meanwhile
	}
	switch r.Verdict {
	case sharding.Durable:
		s.stream.busy = false
		s.stream.seq++
		s.stream.facts += len(a.Records[0].Events)
		for _, o := range s.queue[:through] {
			s.perform(o)
		}
		s.queue = s.queue[through:]
	case sharding.RefusedEpoch:
		s.log.Warn("fenced: another coordinator is active", "term", term, "stored", r.Fence.Epoch.Term())
		s.depose()
		s.keeper.RaiseTerm(r.Fence.Epoch.Term())
	case sharding.RefusedFull, sharding.RefusedDamaged:
		s.log.Error("facts cannot be stored, nothing moves meanwhile", "verdict", r.Verdict, "error", r.Err)
		time.AfterFunc(retryPause, func() {
			s.inbox.put(func() {
				if s.term == term {
					s.submit(term, a, through)
				}
			})
		})
	default:
		s.fail(fmt.Errorf("facts of term %d: %s, this process does not know what is true any more: %w", term, r.Verdict, r.Err))
	}
}

// compact stores a snapshot of the table when the stream has grown long and
// nothing is under way.
func (s *Server) compact() {
	if s.term == 0 || s.stream.busy || s.stream.facts < factsPerSnapshot {
		return
	}
	b, err := encodeSnapshot(s.core.Snapshot())
	if err != nil {
		s.log.Error("the table cannot be written as a snapshot", "error", err)
		return
	}
	s.stream.facts = 0
	s.journal.Submit(journal.Op{Snapshot: &journal.WriteSnapshot{
		Shard: streamShard, Epoch: sharding.MakeEpoch(s.term, 0), Entity: streamEntity,
		Snapshot: journal.Snapshot{Seq: s.stream.seq, Encoding: sharding.Protobuf, Payload: b},
	}}, func(journal.Result) {})
}

func encodeFact(f coordinator.Fact) sharding.Event {
	var name string
	var m proto.Message
	switch f := f.(type) {
	case coordinator.RowFact:
		name, m = "row", wire.ToRow(f.Row)
	case coordinator.TypeFact:
		name, m = "type", wire.ToType(&f.Desc)
	case coordinator.DrainFact:
		name, m = "drain", wire.ToNode(f.Region)
		if f.Resume {
			name = "resume"
		}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a fact cannot be written: %v", err)) // names are checked UTF-8
	}
	return sharding.Event{Name: name, Encoding: sharding.Protobuf, Payload: b}
}

func encodeSnapshot(facts []coordinator.Fact) ([]byte, error) {
	w := &coordinatorv1.Facts{}
	for _, f := range facts {
		switch f := f.(type) {
		case coordinator.RowFact:
			w.Rows = append(w.Rows, wire.ToRow(f.Row))
		case coordinator.TypeFact:
			w.Types = append(w.Types, wire.ToType(&f.Desc))
		case coordinator.DrainFact:
			w.Draining = append(w.Draining, wire.ToNode(f.Region))
		}
	}
	return proto.Marshal(w)
}

// decodeFacts reads the stream: types before rows, as a snapshot has them, then
// the records. n counts the facts after the snapshot.
func decodeFacts(found journal.Loaded) (facts []coordinator.Fact, n int, err error) {
	if found.Snapshot.Seq > 0 {
		var w coordinatorv1.Facts
		if err := proto.Unmarshal(found.Snapshot.Payload, &w); err != nil {
			return nil, 0, fmt.Errorf("the snapshot at %d: %w", found.Snapshot.Seq, err)
		}
		for _, t := range w.Types {
			facts = append(facts, coordinator.TypeFact{Desc: wire.FromType(t)})
		}
		for _, r := range w.Rows {
			facts = append(facts, coordinator.RowFact{Row: wire.FromRow(r)})
		}
		for _, n := range w.Draining {
			facts = append(facts, coordinator.DrainFact{Region: wire.FromNode(n)})
		}
	}
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
	case "row":
		var r coordinatorv1.Row
		if err := proto.Unmarshal(e.Payload, &r); err != nil {
			return nil, err
		}
		return coordinator.RowFact{Row: wire.FromRow(&r)}, nil
	case "type":
		var t coordinatorv1.Type
		if err := proto.Unmarshal(e.Payload, &t); err != nil {
			return nil, err
		}
		return coordinator.TypeFact{Desc: wire.FromType(&t)}, nil
	case "drain", "resume":
		var n coordinatorv1.Node
		if err := proto.Unmarshal(e.Payload, &n); err != nil {
			return nil, err
		}
		return coordinator.DrainFact{Region: wire.FromNode(&n), Resume: e.Name == "resume"}, nil
	}
	return nil, fmt.Errorf("unknown fact %q; this coordinator is older than the journal", e.Name)
}
