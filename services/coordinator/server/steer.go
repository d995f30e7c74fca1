package server

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/twitchtv/twirp"

	"github.com/roost-cluster/roost/libs/sharding"
	adminv1 "github.com/roost-cluster/roost/proto/roost/admin/v1"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/coordinator/console"
)

const (
	// requestTimeout is the time until a request must be durable, if it names none. A journal stores it in some
	// milliseconds.
	requestTimeout = 10 * time.Second
	// maxRequestTimeout is the longest time that a request may name. It is shorter than the management listener
	// waits before it closes a connection without an answer.
	maxRequestTimeout = 50 * time.Second
)

// timeoutOf returns the time until a request must be durable, if its operator names ms milliseconds.
func timeoutOf(ms int64) (time.Duration, error) {
	if ms < 0 || ms > maxRequestTimeout.Milliseconds() {
		return 0, twirp.NewErrorf(twirp.InvalidArgument, "timeout_ms is %d, must be at most %d, or 0 for %d", ms, maxRequestTimeout.Milliseconds(), requestTimeout.Milliseconds())
	}
	return cmp.Or(time.Duration(ms)*time.Millisecond, requestTimeout), nil
}

// pending is a request that the core works at.
type pending struct {
	effect coordinator.Effect
	err    error
	// ended receives nil when the effect is durable, or the reason why that is not known because the term has ended.
	ended chan error
}

// inDoubt returns the error for a request that may still take effect. Clients recognize it by meta.outcome.
func inDoubt(code twirp.ErrorCode, why string) error {
	return twirp.NewErrorf(code, "%s; the request may still take effect, so send it again: if it has taken effect, that changes nothing", why).
		WithMeta("outcome", sharding.Unknown.String())
}

// request carries out a request, or with dryRun only reports what it would do. Then it calls after, if that
// is not nil, in the loop. It returns when the effect is durable. If it returned sooner, clients would repeat the
// request until it is durable, and two clients that want different things would keep undoing each other's change.
// If the effect is not durable within ms milliseconds, or if the term ends first, the error is one of inDoubt.
func (a admin) request(ctx context.Context, r coordinator.Request, dryRun bool, ms int64, after func()) (e coordinator.Effect, err error) {
	timeout, err := timeoutOf(ms)
	if err != nil {
		return e, err
	}
	w, number := &pending{ended: make(chan error, 1)}, uint64(0)
	err = a.s.lookActive(ctx, func() (err error) {
		if dryRun {
			if e, err = a.s.core.Preview(r); err != nil {
				return console.Refusal(err)
			}
		} else {
			w.err = standsBy{a.s.known.Node} // if the term ends in this step
			a.s.asks++
			number = a.s.asks
			a.s.asked[number] = w
			a.s.step(coordinator.Ask{Number: number, Request: r})
			if e = w.effect; w.err != nil {
				delete(a.s.asked, number)
				return console.Refusal(w.err)
			}
			if by, reason := r.Origin(); !e.Already {
				a.s.log.Info("operator request", "request", requestName(r), "region", e.Region, "changes", e.Changes, "by", by, "reason", reason)
			}
		}
		if after != nil {
			after()
		}
		return nil
	})
	if err != nil || dryRun {
		return e, err
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case err = <-w.ended:
		return e, err
	case <-timer.C:
	case <-ctx.Done():
	case <-a.s.ctx.Done():
		return e, inDoubt(twirp.Unavailable, "the coordinator stopped before the request was durable")
	}
	return e, a.giveUp(number, w, timeout)
}

// giveUp ends the wait for a request that is not durable in time, and returns the error for its operator, or nil if
// it has become durable meanwhile.
func (a admin) giveUp(number uint64, w *pending, timeout time.Duration) error {
	err := inDoubt(twirp.Unavailable, "the coordinator stopped before the request was durable")
	// The context of the request may be over, and the loop answers at once.
	_ = a.s.look(a.s.ctx, func() error {
		if a.s.asked[number] == nil { // done came first
			err = <-w.ended
			return nil
		}
		delete(a.s.asked, number)
		a.s.step(coordinator.AskEnded{Number: number})
		err = inDoubt(twirp.DeadlineExceeded, fmt.Sprintf("the request is not durable after %v: %s", timeout, a.s.notDurable()))
		return nil
	})
	return err
}

// notDurable returns the reason why requests are not durable.
func (s *Server) notDurable() string {
	if _, facts, _ := s.core.Held(); facts > 0 {
		return "the journal has not stored it: " + s.trouble.why(s.journal.Failure())
	}
	return "not every region that may run the entity knows of it"
}

// answered takes the effect of a request, or the reason why it is refused.
func (s *Server) answered(o coordinator.Asked) {
	if w := s.asked[o.Number]; w != nil {
		w.effect, w.err = o.Effect, o.Err
	}
}

// done ends the wait for a request: err is nil if it is durable.
func (s *Server) done(number uint64, err error) {
	if w := s.asked[number]; w != nil {
		w.ended <- err
		delete(s.asked, number)
	}
}

// requestName says in the log what a request asks for. Of very many pins it names the first.
func requestName(r coordinator.Request) string {
	switch r := r.(type) {
	case coordinator.CordonRegion:
		return map[bool]string{false: "cordon", true: "uncordon"}[r.Lift]
	case coordinator.DrainRegion:
		return map[bool]string{false: "drain", true: "end the drain"}[r.Resume]
	case coordinator.FreezeMoves:
		return map[bool]string{false: "freeze", true: "thaw"}[r.Thaw]
	case coordinator.MoveShard:
		return fmt.Sprintf("move %v", r.Shard)
	case coordinator.PinShards:
		text := "pin"
		if r.Pins[0].Region == "" {
			text = "unpin"
		}
		text += fmt.Sprintf(" %v", r.Pins[0].Shard)
		if more := len(r.Pins) - 1; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return text
	case coordinator.SetTarget:
		return "target " + r.Version
	}
	return fmt.Sprintf("%T", r)
}

// steer answers a request that has no answer of its own.
func (a admin) steer(ctx context.Context, r coordinator.Request, req interface {
	GetDryRun() bool
	GetTimeoutMs() int64
},
) (*adminv1.SteerResponse, error) {
	e, err := a.request(ctx, r, req.GetDryRun(), req.GetTimeoutMs(), nil)
	if err != nil {
		return nil, err
	}
	return &adminv1.SteerResponse{
		Already: e.Already, Changes: uint32(e.Changes), Region: e.Region, UntilUnixMs: unixMs(e.Until), Remarks: e.Remarks,
	}, nil
}

// Cordon has the regions with a name get no more shards, or ends that.
func (a admin) Cordon(ctx context.Context, req *adminv1.CordonRequest) (*adminv1.SteerResponse, error) {
	return a.steer(ctx, coordinator.CordonRegion{Region: req.Region, Lift: req.Lift, Ahead: req.Ahead, By: req.By, Reason: req.Reason}, req)
}

// Freeze stops every move of a shard that can stay where it is, or ends that.
func (a admin) Freeze(ctx context.Context, req *adminv1.FreezeRequest) (*adminv1.SteerResponse, error) {
	// The core refuses what is longer than MaxFreeze, or negative. So many milliseconds may be no Duration.
	forMs := max(-1, min(req.ForMs, 2*coordinator.MaxFreeze.Milliseconds()))
	return a.steer(ctx, coordinator.FreezeMoves{
		Thaw: req.Thaw, For: time.Duration(forMs) * time.Millisecond, Until: fromUnixMs(req.UntilUnixMs), By: req.By, Reason: req.Reason,
	}, req)
}

// Pin has shards be at certain regions, or ends that.
func (a admin) Pin(ctx context.Context, req *adminv1.PinRequest) (*adminv1.SteerResponse, error) {
	in := coordinator.PinShards{Ahead: req.Ahead, By: req.By, Reason: req.Reason}
	for _, p := range req.Pins {
		in.Pins = append(in.Pins, coordinator.Pin{Shard: sharding.ShardID{Type: sharding.EntityType(p.GetType()), Index: p.GetIndex()}, Region: p.GetRegion()})
	}
	return a.steer(ctx, in, req)
}

// Move moves a shard to a region once.
func (a admin) Move(ctx context.Context, req *adminv1.MoveRequest) (*adminv1.SteerResponse, error) {
	return a.steer(ctx, coordinator.MoveShard{
		Shard: sharding.ShardID{Type: sharding.EntityType(req.Type), Index: req.Index}, Region: req.Region, By: req.By, Reason: req.Reason,
	}, req)
}
