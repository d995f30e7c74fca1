package server

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	nodetelemetry "github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// keptGauges are read from the counts of the shard cores.
func (s *Runner) keptGauges(meter *nodetelemetry.Instruments) error {
	given := meter.Count("roost.region.states.given", "{state}", "states of volatile entities that this region has given to the next owner of their shard")
	fetched := meter.Count("roost.region.states.fetched", "{state}", "states of volatile entities that this region has fetched from the previous owner of their shard")
	unfetched := meter.Count("roost.region.states.unfetched", "{state}", "states of volatile entities that this region has dropped, because the next owner did not fetch them in time")
	over := meter.Count("roost.region.states.over_limit", "{state}", "states of volatile entities that this region has not kept, because there were too many states, or because they were too large")
	timedOut := meter.Count("roost.region.states.timed_out", "{shard}", "shards that this region served without the states of their entities, because the states did not come in time")
	late := meter.Count("roost.region.states.late", "{state}", "states of volatile entities that this region ignored, because they came after it had begun to serve their shard without them")
	return meter.Observe(func(ctx context.Context, o metric.Observer) error {
		if s.ctx.Err() != nil {
			return nil
		}
		st, err := s.keptStats(ctx)
		if err != nil {
			return err
		}
		o.ObserveInt64(given, int64(st.Given))
		o.ObserveInt64(fetched, int64(st.Fetched))
		o.ObserveInt64(unfetched, int64(st.Unfetched))
		o.ObserveInt64(over, int64(st.OverLimit))
		o.ObserveInt64(timedOut, int64(st.TimedOut))
		o.ObserveInt64(late, int64(st.Late))
		return nil
	})
}

// keptStats asks the shard cores for their counts.
func (s *Runner) keptStats(ctx context.Context) (all region.KeptStats, err error) {
	got := make(chan region.KeptStats, len(s.shards))
	for _, l := range s.shards {
		l.put(item{do: func() { got <- l.core.KeptStats() }})
	}
	for range s.shards {
		select {
		case st := <-got:
			all.Add(st)
		case <-ctx.Done():
			return all, ctx.Err()
		case <-s.ctx.Done():
			return all, s.ctx.Err()
		}
	}
	return all, nil
}

// Why the state of a volatile entity did not move with its shard.
const (
	lostUnwritten = "unwritten" // the entity could not write it down
	lostUnread    = "unread"    // the type cannot read it
)

// lostSeries returns the attributes of the states that can get lost, for each type.
func (s *shared) lostSeries() (of []metric.AddOption) {
	for typ := range s.types { // order-free: series
		for _, why := range []string{lostUnwritten, lostUnread} {
			of = append(of, lostBecause(typ, why))
		}
	}
	return of
}

func lostBecause(typ sharding.EntityType, why string) metric.MeasurementOption {
	return metric.WithAttributes(typeAttribute(typ), attribute.String("roost.reason", why))
}

// lostState identifies a kind of lost states, which is logged once.
type lostState struct {
	typ sharding.EntityType
	why string
}

// stateLost counts that an entity of a type that keeps its state begins empty after a move, and
// logs the first time per type and reason: all entities of the type fail alike.
func (s *shared) stateLost(of sharding.Entity, why string, err error) {
	s.telemetry.statesLost.Add(s.ctx, 1, lostBecause(of.Type, why))
	if _, logged := s.lostLogged.LoadOrStore(lostState{of.Type, why}, true); !logged {
		s.log.Warn("entity state does not move with its shard", "hint", "the entity starts empty; more of this type and reason are only counted",
			"entity.type", of.Type, "entity.id", of.ID, "reason", why, "error", err)
	}
}

// resume makes an instance of a volatile type, from the state that the owner before has kept if
// there is one.
func (s *shardLoop) resume(o turn.Load) (*entity.Instance, error) {
	if o.Kept == nil {
		return entity.NewInstance(s.types[o.Entity.Type], o.Entity.ID)
	}
	inst, unread, err := entity.Resume(s.types[o.Entity.Type], o.Entity.ID, o.Kept)
	if unread != nil {
		s.stateLost(o.Entity, lostUnread, unread)
	}
	return inst, err
}

// keep returns the state of a stopped instance, nil if it cannot be written down.
func (s *shardLoop) keep(o *turn.Stop, inst *entity.Instance, hook error) *turn.Kept {
	if errors.Is(hook, context.DeadlineExceeded) || errors.Is(hook, context.Canceled) { // the hook may still change the state
		s.stateLost(o.Entity, lostUnwritten, hook)
		return nil
	}
	kept, err := (*turn.Kept)(nil), entity.ErrGoexit
	defer func() { // the author's code may end this goroutine
		if err != nil {
			s.stateLost(o.Entity, lostUnwritten, err)
		}
	}()
	kept, err = inst.Keep()
	return kept
}

// stopAndKeep runs the stop hook of an instance, and writes its state down if it is to be kept.
func (s *shardLoop) stopAndKeep(o *turn.Stop, inst *entity.Instance) *turn.Kept {
	err := s.stopHook(inst, o.Reason)
	if err != nil {
		s.log.Warn("a stop hook failed", "entity.type", o.Entity.Type, "entity.id", o.Entity.ID, "error", err)
	}
	if !o.Keep {
		return nil
	}
	return s.keep(o, inst, err)
}
