package adminclient

import (
	"context"
	"errors"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
)

// Command sends a built-in command, such as roost.delete, to an entity, through the active coordinator. If the
// setting coordinator.try_commands is true, it sends any other command too. The request must have an idempotency
// key. Command sends the request again under this key until the outcome is known, or until the timeout is over.
// It sets req.TimeoutMs for each attempt.
//
// If Command returns an error, the command was not applied: either no coordinator has accepted it, or the active
// coordinator has refused it. If the command may have been applied, the error is nil, and the outcome in the
// answer is "unknown". Then the same command can be sent again under the same key.
func (a *Client) Command(ctx context.Context, req *adminv1.CommandRequest, timeout time.Duration) (*adminv1.CommandResponse, error) {
	deadline := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(answerGrace))
	defer cancel()
	mayBeApplied := false
	var last *adminv1.CommandResponse
	for {
		res, err := ask(ctx, a, func(ctx context.Context, c adminv1.Admin) (*adminv1.CommandResponse, error) {
			remaining := min(time.Until(deadline), askTimeout-answerGrace)
			if err := ctx.Err(); err != nil {
				return nil, err
			} else if remaining < time.Millisecond {
				return nil, context.DeadlineExceeded
			}
			req.TimeoutMs = remaining.Milliseconds()
			res, err := c.Command(ctx, req)
			mayBeApplied = mayBeApplied || err != nil && classify(err) == nobodyAnswered && !failedToConnect(err)
			return res, err
		})
		if err == nil {
			last = res
			mayBeApplied = mayBeApplied || res.Outcome == sharding.Unknown.String()
		}
		inconclusive := err == nil && (res.Outcome == sharding.Unknown.String() && res.Code != string(sharding.KeyExpired) ||
			res.Outcome == sharding.NotApplied.String() && (res.Code == string(twirp.DeadlineExceeded) || res.Code == string(twirp.Unavailable)))
		again := inconclusive || errors.Is(err, ErrUnreachable)
		if again && time.Until(deadline) > askPause {
			pause := time.NewTimer(askPause)
			select {
			case <-pause.C:
				continue
			case <-ctx.Done():
				pause.Stop()
			}
		}
		switch {
		case err != nil && mayBeApplied:
			return &adminv1.CommandResponse{
				Outcome: sharding.Unknown.String(), Code: string(twirp.DeadlineExceeded),
				Message: "it may have been applied; send it again under the same key: " + err.Error(),
			}, nil
		case err != nil && again && last != nil: // the last answer says more than that the time is over
			return last, nil
		case inconclusive && mayBeApplied && res.Outcome == sharding.NotApplied.String():
			res.Outcome = sharding.Unknown.String()
			res.Message = "an earlier attempt may have been applied; send it again under the same key: " + res.Message
		}
		return res, err
	}
}
