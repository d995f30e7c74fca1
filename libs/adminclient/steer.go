package adminclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twitchtv/twirp"
	"google.golang.org/protobuf/proto"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// ErrUnknownOutcome is wrapped when a request of an operator may take effect, although no coordinator has confirmed
// it: the time was over, the connection broke, or the coordinator lost its lease before the request was durable. The
// same request can be made again.
var ErrUnknownOutcome = errors.New("it is not known whether the request takes effect")

const (
	// requestTimeout bounds a request whose context has no deadline, and which sets no time.
	requestTimeout = 10 * time.Second
	// maxRequestTimeout is the longest time that a coordinator takes for a request.
	maxRequestTimeout = 50 * time.Second
)

// steer makes a request of an operator. It first looks for the active coordinator, and then makes the request at this
// one only: a coordinator answers when the request is durable, so it may not answer for long, and another one must not
// be waited for behind a process that hangs. The field ms of the request becomes the time that the context leaves.
func steer[A any](ctx context.Context, a *Client, ms *int64, call func(context.Context, adminv1.Admin) (*A, error)) (*A, error) {
	timeout := requestTimeout
	if *ms > 0 {
		timeout = time.Duration(*ms) * time.Millisecond
	}
	if deadline, ok := ctx.Deadline(); ok && *ms == 0 {
		timeout = time.Until(deadline) - answerGrace
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+answerGrace)
	defer cancel()
	for begin := time.Now(); ; {
		active := -1
		_, err := ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteeringResponse, error) {
			active = slices.Index(a.clients, c)
			return c.Steering(ctx, &adminv1.SteeringRequest{Type: "-"}) // of no type: all pins are not wanted
		})
		if err != nil {
			return nil, err
		}
		*ms = max(1, min(timeout-time.Since(begin), maxRequestTimeout).Milliseconds())
		answer, err := call(ctx, a.withoutTimeout.clients[active])
		switch kind := classify(err); {
		case err == nil:
			return answer, nil
		case isUnknown(err), kind == nobodyAnswered && !failedToConnect(err):
			return nil, fmt.Errorf("%w: %s: %w", ErrUnknownOutcome, a.urls[active], withoutURL(err))
		case kind == activeAnswered:
			return nil, err
		}
		// It has lost its lease, or ended, before it got the request.
		pause := time.NewTimer(askPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, fmt.Errorf("%w: %s: %w", ErrUnreachable, a.urls[active], withoutURL(err))
		}
	}
}

// isUnknown reports whether a coordinator has answered that a request may still take effect.
func isUnknown(err error) bool {
	var e twirp.Error
	return errors.As(err, &e) && e.Meta("outcome") == sharding.Unknown.String()
}

// Drain begins a drain of a region: the coordinator hands off all shards of the region. If req.Resume is
// set, Drain ends the drain. The answer has the number of shards that the region still has, and lists those
// that no other region can be given now. A repeat with another reason replaces the reason. A repeat without
// a reason keeps it.
//
// The answer comes when the request is durable, see [Client.Cordon]. A repeat must name the process (Node of
// the first answer) as the region, because another process with the same name may have come. If DryRun is set,
// nothing changes.
func (a *Client) Drain(ctx context.Context, req *adminv1.DrainRequest) (*adminv1.DrainResponse, error) {
	req = proto.CloneOf(req)
	return steer(ctx, a, &req.TimeoutMs, func(ctx context.Context, c adminv1.Admin) (*adminv1.DrainResponse, error) { return c.Drain(ctx, req) })
}

// UnmovableShards returns, in Stays, the shards of a region that no other region can be given now, and why. It
// changes nothing: it is [Client.Drain] with DryRun.
func (a *Client) UnmovableShards(ctx context.Context, region string) (*adminv1.DrainResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.DrainResponse, error) {
		return c.Drain(ctx, &adminv1.DrainRequest{Region: region, DryRun: true})
	})
}

// Cordon makes the coordinator give no more shards to regions with a certain name. They keep their shards, and
// get others only if no other region can be given these. If req.Lift is set, Cordon ends the cordon.
//
// The requests Drain, Cordon, Freeze, Pin, Move, Quarantine and SetTarget are answered when they are durable, so
// that they outlive the coordinator, or refused. They wait until the deadline of the context, or for TimeoutMs, or
// for 10 s if there is neither. If the error wraps [ErrUnknownOutcome], the request may take effect: make it again. If
// it has taken effect by then, the repeat changes nothing, and Already is set in the answer.
//
// If DryRun is set, nothing changes, and the answer describes the changes that the request would make. By and
// Reason are kept, for operators.
func (a *Client) Cordon(ctx context.Context, req *adminv1.CordonRequest) (*adminv1.SteerResponse, error) {
	req = proto.CloneOf(req)
	return steer(ctx, a, &req.TimeoutMs, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteerResponse, error) { return c.Cordon(ctx, req) })
}

// Freeze stops all moves of shards that can stay where they are, until req.UntilUnixMs or for req.ForMs,
// both in milliseconds; both 0: until an operator ends the freeze. If req.Thaw is set, Freeze ends it. ForMs of a
// repeat counts from the repeat. See [Client.Cordon] for the answer.
func (a *Client) Freeze(ctx context.Context, req *adminv1.FreezeRequest) (*adminv1.SteerResponse, error) {
	req = proto.CloneOf(req)
	return steer(ctx, a, &req.TimeoutMs, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteerResponse, error) { return c.Freeze(ctx, req) })
}

// Pin pins shards to regions with certain names: each shard is there whenever such a region can be given the
// shard. A pin with an empty name ends the pin of its shard. Either all pins of the request are set, or none. A
// request has at most [MaxPins] pins. See [Client.Cordon] for the answer.
func (a *Client) Pin(ctx context.Context, req *adminv1.PinRequest) (*adminv1.SteerResponse, error) {
	req = proto.CloneOf(req)
	return steer(ctx, a, &req.TimeoutMs, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteerResponse, error) { return c.Pin(ctx, req) })
}

// Move moves a shard to a region once. Later the coordinator may move it again, for example for balance.
// See [Client.Cordon] for the answer.
func (a *Client) Move(ctx context.Context, req *adminv1.MoveRequest) (*adminv1.SteerResponse, error) {
	req = proto.CloneOf(req)
	return steer(ctx, a, &req.TimeoutMs, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteerResponse, error) { return c.Move(ctx, req) })
}

// Quarantine quarantines an entity: the entity does not run, and its commands are refused. If req.Release is
// set, Quarantine ends the quarantine. See [Client.Cordon] for the answer.
func (a *Client) Quarantine(ctx context.Context, req *adminv1.QuarantineRequest) (*adminv1.SteerResponse, error) {
	req = proto.CloneOf(req)
	return steer(ctx, a, &req.TimeoutMs, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteerResponse, error) {
		return c.Quarantine(ctx, req)
	})
}

// Quarantines lists the entities that are quarantined, and the suspects: the entities that ran when processes
// of regions crashed.
func (a *Client) Quarantines(ctx context.Context, req *adminv1.QuarantinesRequest) (*adminv1.QuarantinesResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.QuarantinesResponse, error) {
		return c.Quarantines(ctx, req)
	})
}

// Steering lists what operators and programs have requested of placement: drains, cordons, pins, freezes and
// moves. If typ is not empty, it lists the pins and moves of this type only.
func (a *Client) Steering(ctx context.Context, typ string) (*adminv1.SteeringResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.SteeringResponse, error) {
		return c.Steering(ctx, &adminv1.SteeringRequest{Type: typ})
	})
}

// Rollout returns which versions of the application run, and which shards are still to move to regions of the
// target version.
func (a *Client) Rollout(ctx context.Context) (*adminv1.RolloutResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.RolloutResponse, error) {
		return c.Rollout(ctx, &adminv1.RolloutRequest{})
	})
}

// Look makes the coordinator read the data stored in the unreadable shards, and assign those that some
// region can read after all. The answer lists the shards that are still unreadable. Repeat the call until
// Looked is set in all of them.
func (a *Client) Look(ctx context.Context) (*adminv1.LookResponse, error) {
	return ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.LookResponse, error) {
		return c.Look(ctx, &adminv1.LookRequest{})
	})
}

// SetTarget makes a version of the application the target of rollouts. The parameter by names the person or the
// program that asks. See [Client.Cordon] for the answer.
func (a *Client) SetTarget(ctx context.Context, version, by string) (*adminv1.SetTargetResponse, error) {
	req := &adminv1.SetTargetRequest{Version: version, By: by}
	return steer(ctx, a, &req.TimeoutMs, func(ctx context.Context, c adminv1.Admin) (*adminv1.SetTargetResponse, error) {
		return c.SetTarget(ctx, req)
	})
}
