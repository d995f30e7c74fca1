package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/coordinator/operate"
)

// Command has a built-in command run where its entity is.
func (a admin) Command(ctx context.Context, req *adminv1.CommandRequest) (*adminv1.CommandResponse, error) {
	c, err := toOperation(req, a.s.cfg.TryCommands)
	if err != nil {
		return nil, twirp.NewError(twirp.InvalidArgument, err.Error())
	}
	ctx, cancel := context.WithDeadline(ctx, c.Envelope.Deadline)
	defer cancel()
	log := a.s.log.With("entity.type", req.Type, "entity.id", req.Id, "command", req.Command, "key", req.IdempotencyKey, "by", req.By, "reason", req.Reason)
	log.Info("an operator's command")
	out, err := a.operate(ctx, c)
	if err != nil {
		log.Warn("an operator's command was not sent", "error", err)
		return nil, err
	}
	log.Info("an operator's command has ended", "outcome", out.Outcome, "code", out.Code, "message", out.Message, "region", out.Region)
	return out, nil
}

// toOperation checks a request. With try, it may be any command, not only a built-in one.
func toOperation(req *adminv1.CommandRequest, try bool) (link.Command, error) {
	cfg := operate.DefaultConfig()
	timeout, err := cfg.TimeoutOf(req.TimeoutMs)
	c := link.Command{Envelope: sharding.Envelope{
		Entity: sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}, Command: req.Command,
		ID: sharding.CommandID(req.IdempotencyKey), Keyed: true, Payload: req.Payload, Deadline: time.Now().Add(timeout),
	}}
	errs := []error{err, c.Envelope.Check(), sharding.CheckText("reason", req.Reason, maxReason)}
	if req.By != "" {
		errs = append(errs, sharding.CheckText("by", req.By, sharding.MaxTypeLen))
	}
	if !sharding.IsBuiltin(req.Command) && !try {
		errs = append(errs, fmt.Errorf("%q is not a built-in command; send it through a gateway, or set coordinator.try_commands", req.Command))
	}
	if n := len(req.Payload); n > sharding.MaxPayload {
		errs = append(errs, fmt.Errorf("payload has %d bytes, at most %d are allowed", n, sharding.MaxPayload))
	}
	return c, errors.Join(errs...)
}

// maxReason is the longest reason for an operator's command, in bytes.
const maxReason = 1024

// operate brings a command to the region of its entity.
func (a admin) operate(ctx context.Context, c link.Command) (*adminv1.CommandResponse, error) {
	cfg := link.DefaultConfig()
	cfg.Cluster, cfg.Self, cfg.Dial, cfg.Lanes = a.s.cfg.ClusterName, a.s.self, a.s.peers.Of(control.Region).Dial, 1
	cfg.Generation = a.s.journal.Generation
	end := operate.Driver{Link: cfg, Find: a.Find, Allocate: func(ctx context.Context, o operate.Allocate) {
		_ = a.s.look(ctx, func() error { // if it cannot, that is seen when the entity is looked for again
			a.s.step(coordinator.Received{Msg: control.GetShardHome{Shard: o.Shard, Refused: o.Refused}})
			return nil
		})
	}}.Run(ctx, c)
	if end.Err != nil {
		return nil, end.Err
	}
	r := end.Reply
	return &adminv1.CommandResponse{Outcome: r.Outcome.String(), Code: string(r.Code), Message: r.Message, Payload: r.Payload, Region: end.Region}, nil
}
