package console

import (
	"cmp"
	"context"
	"errors"

	"github.com/twitchtv/twirp"

	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// Steering lists what operators want.
func (a *API) Steering(ctx context.Context, req *adminv1.SteeringRequest) (*adminv1.SteeringResponse, error) {
	var out *adminv1.SteeringResponse
	err := a.cfg.LookActive(ctx, func(core Core) error {
		out = toSteering(core.Steering(), req.Type)
		return nil
	})
	return out, err
}

func toSteering(v coordinator.SteeringView, typ string) *adminv1.SteeringResponse {
	out := &adminv1.SteeringResponse{Freeze: toFreeze(v.Freeze), Brake: toBrake(v.Brake)}
	for _, d := range v.Drains {
		out.Drains = append(out.Drains, &adminv1.Drain{
			Region: cmp.Or(d.Name, d.Region.Addr), Node: d.Region.String(), Shards: uint32(d.Shards), By: d.By, Reason: d.Reason, SinceUnixMs: unixMs(d.At),
		})
	}
	for _, c := range v.Cordons {
		out.Cordons = append(out.Cordons, &adminv1.Cordon{
			Region: c.Region, Here: c.Here, Shards: uint32(c.Shards), Given: uint32(c.Since), By: c.By, Reason: c.Reason, SinceUnixMs: unixMs(c.At),
		})
	}
	for _, p := range v.Pins {
		if typ == "" || typ == string(p.Shard.Type) {
			out.Pins = append(out.Pins, &adminv1.PinnedShard{
				Type: string(p.Shard.Type), Index: p.Shard.Index, Region: p.Region, Owner: cmp.Or(p.Name, p.Owner.Addr),
				By: p.By, Reason: p.Reason, SinceUnixMs: unixMs(p.At),
			})
		}
	}
	for _, f := range v.Moves {
		if typ == "" || typ == string(f.Shard.Type) {
			out.Moves = append(out.Moves, &adminv1.MovingShard{
				Type: string(f.Shard.Type), Index: f.Shard.Index, Region: f.Region, By: f.By, Reason: f.Reason, SinceUnixMs: unixMs(f.At),
			})
		}
	}
	return out
}

func toFreeze(f coordinator.FreezeFact) *adminv1.Freeze {
	if !f.Frozen {
		return nil
	}
	return &adminv1.Freeze{UntilUnixMs: unixMs(f.Until), By: f.By, Reason: f.Reason, SinceUnixMs: unixMs(f.At)}
}

// Quarantines lists the suspects and the quarantined entities.
func (a *API) Quarantines(ctx context.Context, req *adminv1.QuarantinesRequest) (*adminv1.QuarantinesResponse, error) {
	out := &adminv1.QuarantinesResponse{}
	err := a.cfg.LookActive(ctx, func(core Core) error {
		for _, q := range core.Quarantine() {
			if req.Type == "" || req.Type == string(q.Entity.Type) {
				out.Entities = append(out.Entities, toQuarantined(&q))
			}
		}
		return nil
	})
	return out, err
}

func toQuarantined(q *coordinator.QuarantineView) *adminv1.QuarantinedEntity {
	out := &adminv1.QuarantinedEntity{
		Type: string(q.Entity.Type), Id: string(q.Entity.ID), Index: q.Shard.Index, Region: q.Region, State: q.State.String(),
		Command: q.Command, Cause: q.Cause, By: q.By, Reason: q.Reason, SinceUnixMs: unixMs(q.At),
	}
	for _, c := range q.Crashes {
		out.Crashes = append(out.Crashes, &adminv1.Crash{Region: c.Region, AtUnixMs: unixMs(c.At)})
	}
	return out
}

// Refusal turns a refusal of the core into an answer for operators.
func Refusal(err error) error {
	var r *coordinator.Refusal
	if !errors.As(err, &r) {
		return err
	}
	codes := map[coordinator.RefusalKind]twirp.ErrorCode{
		coordinator.Malformed: twirp.InvalidArgument, coordinator.NotFound: twirp.NotFound,
		coordinator.NotNow: twirp.Aborted, // a standby answers with a failed precondition
	}
	return twirp.NewError(codes[r.Kind], r.Text)
}
