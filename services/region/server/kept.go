package server

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
)

// Why the state of a volatile entity did not move with its shard.
const (
	lostUnwritten = "unwritten" // the entity could not write it down
	lostUnread    = "unread"    // the type cannot read it
)

// lostState is what is logged once.
type lostState struct {
	typ sharding.EntityType
	why string
}

// stateLost counts that an entity of a type that keeps its state begins empty after a move, and
// logs the first time per type and reason: all entities of the type fail alike.
func (s *shared) stateLost(of sharding.Entity, why string, err error) {
	s.telemetry.statesLost.Add(s.ctx, 1, metric.WithAttributes(typeAttribute(of.Type), attribute.String("roost.reason", why)))
	if _, logged := s.lostLogged.LoadOrStore(lostState{of.Type, why}, true); !logged {
		s.log.Warn("the state of an entity does not move with its shard: the entity begins empty; more of this type and reason are only counted",
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
	kept, err := inst.Keep()
	if err != nil {
		s.stateLost(o.Entity, lostUnwritten, err)
		return nil
	}
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
