package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/lease"
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
	retryPause = 100 * time.Millisecond
	// electTimeout bounds one attempt to take over, but for the time in which signs
	// of life are waited for: the stream of a large table is read within it.
	electTimeout = 20 * time.Second
)

// elect makes this process the active coordinator of a term: it checks that
// the journal is not another cluster's and the term above every epoch there, claims
// the stream and folds it. It runs beside the loop; nothing is answered before.
func (s *Server) elect(l lease.Acquired) {
	term := l.Term
	for {
		if t, ok := s.keeper.Valid(); !ok || t != term || s.ctx.Err() != nil {
			return // lost meanwhile
		}
		err := s.tryElect(l)
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

func (s *Server) tryElect(l lease.Acquired) error {
	ctx, cancel := context.WithTimeout(s.ctx, electTimeout+2*s.cfg.patience())
	defer cancel()
	if may, err := s.mayClaim(ctx, l); !may {
		return err
	}
	term := l.Term
	r, err := s.ask(ctx, journal.Op{Claim: &sharding.Claim{Shard: streamShard, Epoch: sharding.MakeEpoch(term, 0), Owner: s.self.UID}})
	sign := sharding.Sign{Coordinator: s.self, Cluster: l.Cluster, Term: term, N: 1}
	if err == nil && r.Verdict == sharding.Durable {
		if r, err = s.firstSign(ctx, sign); err == nil && (r.Verdict == sharding.RefusedFull || r.Verdict == sharding.RefusedDamaged) {
			s.log.Error("whose cluster the journal is was not stored", "error", r.Err)
			r, sign.N = journal.Result{Verdict: sharding.Durable}, 0
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("claiming the fact stream: %w", err)
	case r.Verdict == sharding.RefusedEpoch:
		s.inbox.put(s.takeover.Fenced)
		s.keeper.RaiseTerm(r.Fence.Epoch.Term())
		return nil
	case r.Verdict != sharding.Durable:
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
		s.term, s.gate = term, coordinator.NewGate(s.limits, found.LastSeq, n)
		s.signs = signs{sign: sign, last: time.Now()}
		s.reviewMembers()
		elected := coordinator.Elected{Term: term, Facts: facts}
		if sign.N > 0 { // it is stored
			elected.Cluster = sign.Cluster
		}
		s.step(elected)
	})
	return nil
}

// storeFacts stores facts as one record.
func (s *Server) storeFacts(facts []coordinator.Fact) {
	events := make([]sharding.Event, len(facts))
	for i, f := range facts {
		events[i] = encodeFact(f)
	}
	s.trouble.since = time.Now()
	s.submit(s.term, &sharding.Append{
		Shard: streamShard, Epoch: sharding.MakeEpoch(s.term, 0), Entity: streamEntity,
		Records: []sharding.Record{{Seq: s.gate.Seq(), Events: events}},
	})
}

func (s *Server) submit(term sharding.Term, a *sharding.Append) {
	s.journal.Submit(journal.Op{Append: a}, func(r journal.Result) {
		s.inbox.put(func() { s.stored(term, a, r) })
	})
}

// stored takes the journal's verdict on a record of facts.
func (s *Server) stored(term sharding.Term, a *sharding.Append, r journal.Result) {
	if s.term != term {
		if r.Verdict == sharding.UnknownOutcome {
			s.fail(fmt.Errorf("whether facts of term %d were stored is not known: %w", term, r.Err))
		}
		return // deposed meanwhile
	}
	switch r.Verdict {
	case sharding.Durable:
		s.journalAnswers()
		s.step(coordinator.Stored{Facts: s.gate.Stored()})
	case sharding.RefusedEpoch:
		s.fenced(r)
	case sharding.RefusedFull, sharding.RefusedDamaged:
		s.journalRefuses(r.Err)
		s.later(term, func() { s.submit(term, a) })
	default:
		s.fail(fmt.Errorf("facts of term %d: %s, this process does not know what is true any more: %w", term, r.Verdict, r.Err))
	}
}

// fenced ends the term: the stream has been claimed with a higher one.
func (s *Server) fenced(r journal.Result) {
	s.log.Warn("fenced: another coordinator is active", "term", s.term, "stored", r.Fence.Epoch.Term())
	if t, ok := s.keeper.Valid(); ok && t == s.term {
		s.takeover.Fenced() // not by this lease
	}
	s.depose()
	s.keeper.RaiseTerm(r.Fence.Epoch.Term())
}

// later runs f in the loop after a pause, if the term still lasts.
func (s *Server) later(term sharding.Term, f func()) {
	time.AfterFunc(retryPause, func() {
		s.inbox.put(func() {
			if s.term == term {
				f()
			}
		})
	})
}

// writeSnapshot says that the stream is read from after seq: what the table was
// then has been stored once more since. One that is not stored is tried again.
func (s *Server) writeSnapshot(seq uint64) {
	term := s.term
	op := journal.Op{Snapshot: &journal.WriteSnapshot{
		Shard: streamShard, Epoch: sharding.MakeEpoch(term, 0), Entity: streamEntity,
		Snapshot: journal.Snapshot{Seq: seq, Encoding: sharding.Protobuf},
	}}
	s.journal.Submit(op, func(r journal.Result) {
		s.inbox.put(func() {
			switch {
			case s.term != term:
			case r.Verdict == sharding.Durable:
				s.gate.Compacted(true)
			case r.Verdict == sharding.RefusedEpoch:
				s.fenced(r)
			default:
				s.telemetry.noSnapshot.Add(s.ctx, 1)
				s.log.Warn("the snapshot of the facts was not stored, trying again", "term", term, "verdict", r.Verdict, "error", r.Err)
				s.later(term, func() { s.gate.Compacted(false) })
			}
		})
	})
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

// decodeFacts reads the stream: the snapshot, which holds facts only if an
// earlier version wrote it, then the records. n counts the facts after the snapshot.
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
