package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region"
)

// testJournal sends the journal a request that has no effect: it asks for the fence of a shard that no region
// has, or for an entity that does not exist.
func (l *controlLoop) testJournal(o region.TestJournal) {
	s := l.runner
	answer := func(v sharding.Verdict) {
		l.put(controlItem{in: region.JournalTested{Path: o.Path, Number: o.Number, Verdict: v}})
	}
	if o.Path == region.Loads {
		go func() {
			ctx, cancel := context.WithTimeout(s.ctx, s.loadTimeout)
			defer cancel()
			_, err := s.journal.Load(ctx, journal.LoadRequest{Entity: sharding.Entity{Type: journalTestType, ID: "none"}})
			switch {
			case err == nil:
				answer(sharding.Durable)
			case errors.Is(err, journal.ErrCorrupt):
				answer(sharding.RefusedDamaged)
			default:
				answer(sharding.UnknownOutcome)
			}
		}()
		return
	}
	s.journal.Submit(journal.Op{Fence: &sharding.ReadFence{Shard: sharding.ShardID{Type: journalTestType}}}, func(r journal.Result) {
		answer(r.Verdict)
	})
}

// journalTestType is reserved: no shard and no entity is of this type.
const journalTestType = "roost.probe"

// journalChanged logs the region's judgement of its journal.
func (s *shared) journalChanged(o region.JournalChanged) {
	switch o.State {
	case sharding.JournalSilent:
		s.log.Warn("cut off from the journal", "hint", "the shards move to regions that reach it", "since", o.Heard, "error", s.journal.Failure())
	case sharding.JournalRecovering:
		s.log.Info("the journal answers again", "hint", "this region gets no shards for a while")
	default:
		s.log.Info("the journal answers")
	}
}

// isJournalTest reports whether the operation only asks whether the journal answers.
func isJournalTest(op *journal.Op) bool {
	return op.Fence != nil && op.Fence.Shard.Type == journalTestType
}

// journalReadiness returns that this region is cut off from the journal, since when,
// and why; or warns that the journal has no room, that its upkeep fails, or that commits or reads fail.
func (s *Server) journalReadiness() error {
	state, _, heard := s.runner.control.core.Journal()
	failure := s.runner.journal.Failure()
	if state != sharding.JournalSilent {
		if err := errors.Join(s.runner.journal.Warning(), failure); err != nil {
			return node.Warning(err)
		}
		return nil
	}
	if failure == nil {
		failure = errors.New("check that this host reaches the server of journal.url")
	}
	return fmt.Errorf("the journal has not answered since %s (%s): shards of this region go to others until it does; %w",
		heard.UTC().Format(time.RFC3339), time.Since(heard).Round(time.Second), failure)
}
