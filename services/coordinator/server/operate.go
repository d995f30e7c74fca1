package server

import (
	"cmp"
	"context"
	"encoding/json"
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
	h := home{entity: c.Envelope.Entity}
	doubt := false
	var last error // of the attempt before
	for {
		err := a.find(ctx, &h)
		if err == nil && h.refusal == nil && !doubt {
			h.refusal = a.refuseAgain(ctx, &h, &c.Envelope)
		}
		switch {
		case err != nil && !doubt:
			return nil, err // of a standby, mostly: another coordinator knows more
		case err != nil:
			last = err
		case h.refusal != nil:
			return toCommandResponse(h.refusal, "", doubt), nil
		case !h.served:
			last = fmt.Errorf("no region serves shard %s at the moment", h.row.Shard)
		default:
			c.Epoch = h.row.Epoch
			answer, sent, err := a.s.sendOnce(ctx, h.row, c)
			if err == nil && answer.NotMine == nil {
				return toCommandResponse(&answer.Reply, h.region, doubt), nil
			}
			if err == nil {
				h.refused = h.row.Epoch
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

// home is where the entity of a command is.
type home struct {
	entity  sharding.Entity
	refused sharding.Epoch // the epoch at which a region has refused the command; 0: none has
	row     sharding.Row
	region  string // the name of its owner
	served  bool   // the command can be sent by the row
	types   []sharding.EntityType
	// refusal says why it makes no sense to wait until it can; nil: nothing is known against it.
	refusal *sharding.Reply
}

// find looks up where an entity is. Like a gateway, it has a shard allocated that no region
// serves, or that its owner does not know.
func (a admin) find(ctx context.Context, h *home) error {
	return a.s.look(ctx, func() error {
		if a.s.core.Active() == 0 {
			return a.s.errStandby()
		}
		v := a.s.core.View()
		i := slices.IndexFunc(v.Types, func(t sharding.TypeDesc) bool { return t.Type == h.entity.Type })
		if i < 0 {
			return twirp.NewErrorf(twirp.NotFound, "no entity type %s; declared are %s", h.entity.Type, typeNames(&v))
		}
		h.types = h.types[:0]
		for _, t := range v.Types {
			h.types = append(h.types, t.Type)
		}
		h.row = sharding.Row{Shard: sharding.ShardID{Type: h.entity.Type, Index: sharding.ShardOf(h.entity.ID, v.Types[i].Shards)}}
		if j := slices.IndexFunc(v.Rows, func(r sharding.Row) bool { return r.Shard == h.row.Shard }); j >= 0 {
			h.row = v.Rows[j]
		}
		h.region = cmp.Or(names(&v)[h.row.Owner], h.row.Owner.Addr)
		h.served = h.row.Phase == sharding.Serving && h.row.Epoch > h.refused
		switch {
		case h.row.Reason == sharding.Unreadable:
			refusal := sharding.Reject(sharding.Unavailable, "not applied: no region that runs now reads what is stored of shard "+h.row.Shard.String()+"; start one of a version that reads it, see roost shards")
			h.refusal = &refusal
		case !h.served:
			a.s.step(coordinator.Received{Msg: control.GetShardHome{Shard: h.row.Shard, Refused: h.refused}})
		}
		return nil
	})
}

// refuseAgain refuses to send a dead letter again to a type that no region declares: it would
// only become one again. What else is against it, the region that serves its sender says.
func (a admin) refuseAgain(ctx context.Context, h *home, env *sharding.Envelope) *sharding.Reply {
	var in sharding.DeadLetterInput
	if env.Command != sharding.SendAgainCommand || json.Unmarshal(env.Payload, &in) != nil || in.Record == 0 {
		return nil
	}
	page, err := a.s.journal.Sends(ctx, journal.SendRequest(h.row.Shard, env.Entity, in.Record, true))
	if err != nil {
		return nil
	}
	state, x, err := journal.FindSend(page.Rows, env.Entity, in.Record, int(in.Place))
	if err != nil || !state.Dead() || slices.Contains(h.types, x.To.Type) {
		return nil
	}
	refusal := sharding.Reject(sharding.NotFound, fmt.Sprintf("not applied: the target is %s, and no region declares the type %s; declared are %s. Start a region with that type, or drop the dead letter", x.To, x.To.Type, h.types))
	return &refusal
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
