package server

import (
	"context"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	coordinatorv1 "github.com/roost-cluster/roost/proto/roost/coordinator/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// Quarantine quarantines an entity, or ends that.
func (a admin) Quarantine(ctx context.Context, req *adminv1.QuarantineRequest) (*adminv1.SteerResponse, error) {
	return a.steer(ctx, coordinator.QuarantineEntity{
		Entity: sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}, Release: req.Release, By: req.By, Reason: req.Reason,
	}, req)
}

// quarantineChanged logs that an entity is a suspect, or quarantined, or not any more.
func (s *Server) quarantineChanged(f coordinator.QuarantineFact) {
	args := []any{"entity.type", f.Entity.Type, "entity.id", f.Entity.ID, "by", f.By, "reason", f.Reason}
	switch f.State {
	case coordinator.Quarantined:
		s.log.Error("an entity is quarantined", append(args, "hint", "its commands are refused until it is released: roost entity quarantine --undo")...)
	case coordinator.Suspected:
		s.log.Warn("an entity is suspected of crashing regions", append(args, "hint", "it runs, but not concurrently with another suspect")...)
	default:
		s.log.Info("an entity is not suspected any more", args...)
	}
}

func toQuarantine(f coordinator.QuarantineFact) *coordinatorv1.QuarantineFact {
	out := &coordinatorv1.QuarantineFact{
		Type: string(f.Entity.Type), Id: string(f.Entity.ID), State: uint32(f.State), Command: f.Command, Cause: f.Cause, Note: toNote(f.Note),
	}
	for _, c := range f.Crashes {
		out.Crashes = append(out.Crashes, &coordinatorv1.CountedCrash{Uid: uint64(c.Process), Region: c.Region, AtUnixMs: unixMs(c.At), Evident: c.Evident})
	}
	return out
}

func fromQuarantine(q *coordinatorv1.QuarantineFact) coordinator.QuarantineFact {
	out := coordinator.QuarantineFact{
		Entity: sharding.Entity{Type: sharding.EntityType(q.Type), ID: sharding.EntityID(q.Id)}, State: coordinator.QuarantineState(min(q.State, 255)),
		Command: q.Command, Cause: q.Cause, Note: fromNote(q.Note),
	}
	for _, c := range q.Crashes {
		out.Crashes = append(out.Crashes, coordinator.CountedCrash{Process: sharding.NodeUID(c.Uid), Region: c.Region, At: fromUnixMs(c.AtUnixMs), Evident: c.Evident})
	}
	return out
}
