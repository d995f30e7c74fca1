package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
)

const (
	// operateTimeout is how long a built-in command is tried if the operator does not say.
	operateTimeout = 10 * time.Second
	// operatePause is the pause before it is tried again: the shard is moving, or its region
	// cannot be reached.
	operatePause = 100 * time.Millisecond
)

// Command has a built-in command run where its entity is. An operator's command is rare, so
// each attempt opens a link of its own, as a gateway would. It has a key: an attempt that was
// not answered is repeated.
func (a admin) Command(ctx context.Context, req *adminv1.CommandRequest) (*adminv1.CommandResponse, error) {
	c, err := toOperation(req)
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

// toOperation checks a request.
func toOperation(req *adminv1.CommandRequest) (link.Command, error) {
	timeout := cmp.Or(time.Duration(req.TimeoutMs)*time.Millisecond, operateTimeout)
	c := link.Command{Envelope: sharding.Envelope{
		Entity: sharding.Entity{Type: sharding.EntityType(req.Type), ID: sharding.EntityID(req.Id)}, Command: req.Command,
		ID: sharding.CommandID(req.IdempotencyKey), Keyed: true, Payload: req.Payload, Deadline: time.Now().Add(timeout),
	}}
	errs := []error{c.Envelope.Check(), sharding.CheckText("reason", req.Reason, maxReason)}
	if req.By != "" {
		errs = append(errs, sharding.CheckText("by", req.By, sharding.MaxTypeLen))
	}
	if !sharding.IsBuiltin(req.Command) {
		errs = append(errs, fmt.Errorf("%q is not a built-in command; send it through a gateway", req.Command))
	}
	if timeout < 0 || len(req.Payload) > sharding.MaxPayload {
		errs = append(errs, errors.New("the time-out is negative, or the payload too large"))
	}
	return c, errors.Join(errs...)
}

// maxReason is the longest reason for an operator's command, in bytes.
const maxReason = 1024

// operate repeats a command until it is answered.
func (a admin) operate(ctx context.Context, c link.Command) (*adminv1.CommandResponse, error) {
	doubt, last := false, errors.New("no attempt was made")
	for {
		v, err := a.view(ctx)
		if err == nil && !slices.ContainsFunc(v.Types, func(t sharding.TypeDesc) bool { return t.Type == c.Envelope.Entity.Type }) {
			err = twirp.NewErrorf(twirp.NotFound, "no entity type %s; declared are %s", c.Envelope.Entity.Type, typeNames(&v))
		}
		if err != nil && !doubt {
			return nil, err // of a standby, mostly: another coordinator knows more
		}
		if err == nil {
			var answer link.Answer
			var sent bool
			var row sharding.Row
			if row, err = rowOf(&v, c.Envelope.Entity); err == nil {
				c.Epoch = row.Epoch
				answer, sent, err = a.s.sendOnce(ctx, row, c)
			}
			if err == nil && answer.NotMine == nil {
				return toCommandResponse(&answer.Reply, cmp.Or(names(&v)[row.Owner], row.Owner.Addr), doubt), nil
			}
			doubt = doubt || sent && err != nil
			last = cmp.Or(err, errors.New("the shard is moving"))
		}
		timer := time.NewTimer(operatePause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			reply := sharding.Reject(sharding.DeadlineExceeded, "not applied within its time: "+last.Error())
			return toCommandResponse(&reply, "", doubt), nil
		}
	}
}

func toCommandResponse(r *sharding.Reply, region string, doubt bool) *adminv1.CommandResponse {
	if r.Outcome == sharding.Rejected && doubt { // by the last attempt; an earlier one may have been applied
		*r = sharding.Doubt(r.Code, "it may have been applied; send it again under the same key: "+r.Message)
	}
	return &adminv1.CommandResponse{Outcome: r.Outcome.String(), Code: string(r.Code), Message: r.Message, Payload: r.Payload, Region: region}
}

// rowOf returns the row of the region that serves an entity.
func rowOf(v *coordinator.View, e sharding.Entity) (sharding.Row, error) {
	for _, t := range v.Types {
		if t.Type != e.Type {
			continue
		}
		id := sharding.ShardID{Type: e.Type, Index: sharding.ShardOf(e.ID, t.Shards)}
		for _, r := range v.Rows {
			if r.Shard == id && r.Phase == sharding.Serving {
				return r, nil
			}
		}
		return sharding.Row{}, fmt.Errorf("no region serves shard %s at the moment", id)
	}
	return sharding.Row{}, fmt.Errorf("there is no entity type %s", e.Type)
}

// sendOnce sends a command to a region and waits for the answer. sent says that the region may
// have got it.
func (s *Server) sendOnce(ctx context.Context, row sharding.Row, c link.Command) (answer link.Answer, sent bool, err error) {
	cfg := link.DefaultConfig()
	cfg.Cluster, cfg.Self, cfg.Dial, cfg.Lanes = s.cfg.ClusterName, s.self, s.peers.Dial, 1
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
		return answer, false, err
	}
	defer client.Close()
	select {
	case l := <-up:
		if err := l.Send(row.Shard.Index, &c); err != nil {
			return answer, false, err
		}
	case err := <-lost:
		return answer, false, err
	case <-ctx.Done():
		return answer, false, ctx.Err()
	}
	select {
	case answer := <-answers:
		return answer, true, nil
	case err := <-lost:
		return answer, true, err
	case <-ctx.Done():
		return answer, true, ctx.Err()
	}
}
