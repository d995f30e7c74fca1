package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// The active coordinator leaves signs of life in the journal, which say whose
// cluster it is, so that another cluster of the same name, with a lease of its own,
// is noticed: see [coordinator.Takeover].

const (
	// signEvery is the time between two signs of life.
	signEvery = time.Second
	// quietFor is how long no sign must come before a journal counts as nobody's.
	quietFor = 4 * time.Second
	// lookEvery is the time between two looks for signs of others.
	lookEvery = 500 * time.Millisecond
)

// patience is longer than a lease, too.
func (c *Config) patience() time.Duration { return max(quietFor, 2*c.LeaseTTL) }

// signs is where the writing stands in this term.
type signs struct {
	sign    sharding.Sign // the last one
	writing bool
	last    time.Time
}

// signLife writes a sign if it is time. One that is not stored is followed by the
// next.
func (s *Server) signLife() {
	if s.gate == nil || s.signs.writing || time.Since(s.signs.last) < signEvery {
		return
	}
	term := s.term
	s.signs.sign.N++
	s.signs.writing, s.signs.last = true, time.Now()
	s.journal.Submit(signOp(s.signs.sign), func(r journal.Result) {
		s.inbox.put(func() {
			if s.term != term {
				return
			}
			s.signs.writing = false
			switch r.Verdict {
			case sharding.RefusedEpoch:
				s.fenced(r)
			case sharding.Durable:
			default:
				s.log.Debug("no sign of life was stored, trying again", "verdict", r.Verdict, "error", r.Err)
			}
		})
	})
}

// signOp replaces the last sign: a snapshot of an entity that has one record.
func signOp(sign sharding.Sign) journal.Op {
	return journal.Op{Snapshot: &journal.WriteSnapshot{
		Shard: streamShard, Epoch: sharding.MakeEpoch(sign.Term, 0), Entity: journal.SignEntity,
		Snapshot: journal.Snapshot{Seq: 1, Encoding: sharding.JSON, Payload: journal.EncodeSign(sign)},
	}}
}

// firstSign says whose the journal is before anything is decided in the term. It
// returns the verdict on it; a journal that is full or damaged does not keep the
// shards that are placed from being served.
func (s *Server) firstSign(ctx context.Context, sign sharding.Sign) (journal.Result, error) {
	a := &sharding.Append{Shard: streamShard, Epoch: sharding.MakeEpoch(sign.Term, 0), Entity: journal.SignEntity, Records: []sharding.Record{{Seq: 1}}}
	r, err := s.ask(ctx, journal.Op{Append: a})
	if err == nil && (r.Verdict == sharding.Durable || r.Verdict == sharding.RefusedSeq) { // the record was there
		r, err = s.ask(ctx, signOp(sign))
	}
	return r, err
}

// ask waits for the result of an operation. What comes of one that is not
// waited for any more is harmless: its term is ours, or over.
func (s *Server) ask(ctx context.Context, op journal.Op) (journal.Result, error) {
	done := make(chan journal.Result, 1)
	s.journal.Submit(op, func(r journal.Result) { done <- r })
	select {
	case r := <-done:
		return r, nil
	case <-ctx.Done():
		return journal.Result{}, fmt.Errorf("no answer in time: %w", ctx.Err())
	}
}

// errContested is wrapped when another cluster uses the journal.
var errContested = errors.New("another cluster uses this journal")

// mayClaim looks at the journal until it is known whether the stream may be
// claimed. If not, either the term is raised or the process ends.
func (s *Server) mayClaim(ctx context.Context, l lease.Acquired) (bool, error) {
	for looks := 0; ; looks++ {
		f := coordinator.Found{Term: l.Term, Cluster: l.Cluster}
		var err error
		if f.Highest, err = s.journal.MaxEpoch(ctx); errors.Is(err, journal.ErrCorrupt) {
			// Of the epochs that some coordinator gave, none is above the claim of the
			// stream by that coordinator, and our claim asks for that one.
			s.log.Error("not all epochs of the journal can be read, that of the fact stream decides", "error", err)
			f.Highest, err = 0, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading the highest epoch: %w", err)
		}
		if f.Sign, err = s.journal.Sign(ctx); errors.Is(err, journal.ErrCorrupt) {
			s.log.Error("the sign of life of the coordinator before this one cannot be read; whether another cluster uses this journal is not known", "error", err)
			f.Sign, err = sharding.Sign{}, nil
		}
		if err != nil {
			return false, err
		}
		var next coordinator.TakeoverStep
		if err := s.look(ctx, func() error { next = s.takeover.Look(time.Now(), f); return nil }); err != nil {
			return false, err
		}
		switch next {
		case coordinator.Claim:
			if f.Sign.Cluster != 0 && f.Sign.Cluster != l.Cluster {
				s.log.Warn("the journal was another cluster's, which leaves no sign of life any more; it is this one's from now on",
					"former", f.Sign.Cluster, "coordinator", f.Sign.Coordinator.Addr, "cluster", l.Cluster)
			}
			return true, nil
		case coordinator.RaiseTerm:
			// A lost lease record must not start below the fence.
			s.keeper.RaiseTerm(f.Highest.Term())
			return false, nil
		case coordinator.Contested:
			s.fail(s.contested(f))
			return false, nil
		}
		if looks == 0 {
			s.log.Info("the journal may be another cluster's: waiting for signs of its life before it is claimed",
				"term", l.Term, "cluster", l.Cluster, "other", f.Sign.Cluster, "coordinator", f.Sign.Coordinator.Addr)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// contested says what an operator can do about another cluster.
func (s *Server) contested(f coordinator.Found) error {
	return fmt.Errorf("%w, also named %q: it is cluster %s and its active coordinator is at %s, this one is cluster %s by the lease that lease.url names. "+
		"To join that cluster, give this process its lease.url and discovery.url; to run a second one, give it a journal.url and a cluster.name of its own; "+
		"to let this one have the journal, stop all coordinators of the other first and wait %s",
		errContested, s.cfg.ClusterName, f.Sign.Cluster, f.Sign.Coordinator.Addr, f.Cluster, s.cfg.patience())
}
