package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

// steer asks the core what a request would do, and has it done unless it is only a question.
func (a admin) steer(ctx context.Context, r coordinator.Request, dryRun bool) (*adminv1.SteerResponse, error) {
	out := &adminv1.SteerResponse{}
	err := a.s.look(ctx, func() error {
		if a.s.core.Active() == 0 {
			return a.s.errStandby()
		}
		e, err := a.s.core.Ask(r)
		if err != nil {
			return refusal(err)
		}
		if !dryRun && !e.Already {
			by, reason := r.Said()
			a.s.log.Info("an operator steers placement", "request", fmt.Sprintf("%T", r), "region", e.Region, "changes", e.Changes, "by", by, "reason", reason)
			a.s.step(r)
		}
		out.Already, out.Stored, out.Changes, out.Region = e.Already, e.Stored && !dryRun, uint32(e.Changes), e.Region
		out.UntilUnixMs, out.Remarks = unixMs(e.Until), e.Remarks
		return nil
	})
	return out, err
}

// refusal turns a refusal of the core into an answer.
func refusal(err error) error {
	var r *coordinator.Refusal
	if !errors.As(err, &r) {
		return err
	}
	codes := map[coordinator.RefusalKind]twirp.ErrorCode{
		coordinator.Malformed: twirp.InvalidArgument, coordinator.NotFound: twirp.NotFound,
		coordinator.NotNow: twirp.Aborted, // a failed precondition is what a standby answers
	}
	return twirp.NewError(codes[r.Kind], r.Text)
}

// Cordon has the regions with a name get no more shards, or ends that.
func (a admin) Cordon(ctx context.Context, req *adminv1.CordonRequest) (*adminv1.SteerResponse, error) {
	return a.steer(ctx, coordinator.CordonRegion{Region: req.Region, Lift: req.Lift, Ahead: req.Ahead, By: req.By, Reason: req.Reason}, req.DryRun)
}

// Freeze has nothing move that need not, or ends that.
func (a admin) Freeze(ctx context.Context, req *adminv1.FreezeRequest) (*adminv1.SteerResponse, error) {
	const longest = 10 * 365 * 24 * time.Hour
	if req.ForMs > longest.Milliseconds() {
		return nil, twirp.NewErrorf(twirp.InvalidArgument, "for_ms is %d, which is more than ten years; leave it out to freeze until you thaw", req.ForMs)
	}
	return a.steer(ctx, coordinator.FreezeMoves{
		Thaw: req.Thaw, For: time.Duration(req.ForMs) * time.Millisecond, Until: fromUnixMs(req.UntilUnixMs), By: req.By, Reason: req.Reason,
	}, req.DryRun)
}

// Pin has shards be at certain regions, or ends that.
func (a admin) Pin(ctx context.Context, req *adminv1.PinRequest) (*adminv1.SteerResponse, error) {
	in := coordinator.PinShards{Ahead: req.Ahead, By: req.By, Reason: req.Reason}
	for _, p := range req.Pins {
		in.Pins = append(in.Pins, coordinator.Pin{Shard: sharding.ShardID{Type: sharding.EntityType(p.GetType()), Index: p.GetIndex()}, Region: p.GetRegion()})
	}
	return a.steer(ctx, in, req.DryRun)
}

// Move moves a shard to a region once.
func (a admin) Move(ctx context.Context, req *adminv1.MoveRequest) (*adminv1.SteerResponse, error) {
	return a.steer(ctx, coordinator.MoveShard{
		Shard: sharding.ShardID{Type: sharding.EntityType(req.Type), Index: req.Index}, Region: req.Region, By: req.By, Reason: req.Reason,
	}, req.DryRun)
}

// Steering lists what operators want.
func (a admin) Steering(ctx context.Context, req *adminv1.SteeringRequest) (*adminv1.SteeringResponse, error) {
	var out *adminv1.SteeringResponse
	err := a.s.look(ctx, func() error {
		if a.s.core.Active() == 0 {
			return a.s.errStandby()
		}
		out = toSteering(a.s.core.Steering(), req.Type)
		return nil
	})
	return out, err
}

func toSteering(v coordinator.SteeringView, typ string) *adminv1.SteeringResponse {
	out := &adminv1.SteeringResponse{Freeze: toFreeze(v.Freeze), Brake: toBrake(v.Brake)}
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
