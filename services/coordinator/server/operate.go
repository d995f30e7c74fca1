package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/coordinator/operate"
)

// Command has a built-in command run where its entity is. An operator's command is rare, so
// each attempt opens a link of its own, as a gateway would. It has a key: an attempt that was
// not answered is repeated.
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

// operate does what the core of an operator's command wants done, until it ends.
func (a admin) operate(ctx context.Context, c link.Command) (*adminv1.CommandResponse, error) {
	m := operate.New(operate.DefaultConfig(), c.Envelope.Deadline)
	in := operate.Input(operate.Begin{})
	for {
		for _, o := range m.Step(time.Now(), in) {
			switch o := o.(type) {
			case operate.End:
				if o.Err != nil {
					return nil, o.Err
				}
				return &adminv1.CommandResponse{Outcome: o.Reply.Outcome.String(), Code: string(o.Reply.Code), Message: o.Reply.Message, Payload: o.Reply.Payload, Region: o.Region}, nil
			case operate.Find:
				in = a.find(ctx, &c.Envelope, o)
			case operate.Allocate:
				_ = a.s.look(ctx, func() error { // if it cannot, that is seen when the entity is looked for again
					a.s.step(coordinator.Received{Msg: control.GetShardHome{Shard: o.Shard, Refused: o.Refused}})
					return nil
				})
			case operate.Send:
				c.Epoch = o.Row.Epoch
				in = a.s.sendOnce(ctx, o.Row, c)
			case operate.Wait:
				in = waitUntil(ctx, o.Until)
			}
		}
	}
}

func waitUntil(ctx context.Context, t time.Time) operate.Input {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return operate.Tick{}
	case <-ctx.Done():
		return operate.CallerGone{}
	}
}

// find looks up where an entity is.
func (a admin) find(ctx context.Context, env *sharding.Envelope, o operate.Find) operate.Input {
	in := operate.Found{}
	err := a.s.lookActive(ctx, func() error {
		v := a.s.core.View()
		desc, err := typeOf(&v, env.Entity.Type)
		if err != nil {
			return err
		}
		for _, t := range v.Types {
			in.Types = append(in.Types, t.Type)
		}
		in.Row = sharding.Row{Shard: desc.ShardOf(env.Entity.ID)}
		if j := slices.IndexFunc(v.Rows, func(r sharding.Row) bool { return r.Shard == in.Row.Shard }); j >= 0 {
			in.Row = v.Rows[j]
		}
		in.Region = cmp.Or(names(&v)[in.Row.Owner], in.Row.Owner.Addr)
		return nil
	})
	if err != nil {
		return operate.NotFound{Err: err}
	}
	if o.Target {
		in.Target = a.target(ctx, in.Row.Shard, env)
	}
	return in
}

// target looks up the target of the dead letter that a command would send again.
func (a admin) target(ctx context.Context, shard sharding.ShardID, env *sharding.Envelope) (none sharding.Entity) {
	var in sharding.DeadLetterInput
	if env.Command != sharding.SendAgainCommand || sharding.ReadBuiltin(env.Payload, &in) != nil || in.Record == 0 {
		return none
	}
	page, err := a.s.journal.Sends(ctx, journal.SendRequest(shard, env.Entity, in.Record, true))
	if err != nil {
		return none
	}
	state, x, err := journal.FindSend(page.Rows, env.Entity, in.Record, int(in.Place))
	if err != nil || !state.Dead() {
		return none
	}
	return x.To
}

// sendOnce sends a command to a region and waits for the answer.
func (s *Server) sendOnce(ctx context.Context, row sharding.Row, c link.Command) operate.Input {
	cfg := link.DefaultConfig()
	cfg.Cluster, cfg.Self, cfg.Dial, cfg.Lanes = s.cfg.ClusterName, s.self, s.peers.Of(control.Region).Dial, 1
	cfg.Generation = s.journal.Generation
	up := make(chan *link.Link, 1)
	lost := make(chan error, 1)
	answers := make(chan link.Answer, 1)
	report := func(err error) {
		select {
		case lost <- err:
		default:
		}
	}
	client, err := link.NewClient(cfg, row.Owner, link.Events{
		Up: func(l *link.Link) {
			select {
			case up <- l:
			default:
			}
		},
		Down:   func(_ *link.Link, d link.Down) { report(d.Reason) },
		Failed: func(err error, _ bool) { report(err) },
		Answers: func(_ *link.Link, as []link.Answer) {
			for _, a := range as {
				select {
				case answers <- a:
				default:
				}
			}
		},
	})
	if err != nil {
		return operate.Failed{Err: err}
	}
	defer client.Close()
	select {
	case l := <-up:
		if err := l.Send(row.Shard.Index, &c); err != nil {
			return operate.Failed{Err: err}
		}
	case err := <-lost:
		return operate.Failed{Err: err}
	case <-ctx.Done():
		return operate.Failed{Err: ctx.Err()}
	}
	select {
	case answer := <-answers:
		if answer.NotMine != nil {
			return operate.NotMine{}
		}
		return operate.Answered{Reply: answer.Reply}
	case err := <-lost:
		return operate.Failed{Sent: true, Err: err}
	case <-ctx.Done():
		return operate.Failed{Sent: true, Err: ctx.Err()}
	}
}
