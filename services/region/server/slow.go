package server

import (
	"context"
	"time"

	"github.com/roost-cluster/roost/libs/node/telemetry/slowest"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	inspectionv1 "github.com/roost-cluster/roost/proto/roost/inspection/v1"
)

// A region keeps the slowest of the commands that no gateway sees: what its entities send to others, and what
// reminders, timers and tells run in it.

// origin identifies the entity that sends a command to another one, and the kind of sending. The zero value is
// the origin of commands that are not kept for operators, such as probes.
type origin struct {
	kind string // [slowest.OriginAsk] or [slowest.OriginSend]
	from sharding.Entity
}

// asked returns the origin of a command that a turn asks.
func asked(env *sharding.Envelope) origin {
	o := origin{kind: slowest.OriginAsk}
	if n := len(env.Chain); n > 0 {
		o.from = env.Chain[n-1]
	}
	return o
}

// slowRouted keeps a command that an entity of this region has sent to another one, if it is one of the slowest.
func (s *shared) slowRouted(env *sharding.Envelope, from origin, began time.Time, f *router.Finish) {
	now := time.Now()
	if total := now.Sub(began); from.kind != "" && s.slow.Wants(now, total) {
		s.slow.Add(now, slowest.Entry{
			At: began, Entity: env.Entity, Command: env.Command, Trace: slowest.TraceID(env.Trace), Region: f.Region.Addr, Attempts: f.Attempts,
			Code: string(f.Reply.Code), Total: total, Timing: f.Reply.Timing, Origin: from.kind, From: from.from.String(),
		})
	}
}

// slowUnwatched keeps a command that no caller waits for, if it is one of the slowest.
func (s *shared) slowUnwatched(now time.Time, o *turn.UnwatchedDone) {
	total := now.Sub(o.Arrived)
	if !s.slow.Wants(now, total) {
		return
	}
	e := slowest.Entry{
		At: o.Arrived, Entity: o.Entity, Command: o.Command, Trace: slowest.TraceID(o.Trace), Region: s.self.Addr,
		Code: string(o.Reply.Code), Total: total, Timing: o.Reply.Timing, Origin: slowest.OriginTell, From: o.Wakeup.Name,
	}
	switch {
	case o.Timer:
		e.Origin = slowest.OriginTimer
	case o.Wakeup.Kind == sharding.ReminderWake:
		e.Origin = slowest.OriginReminder
	case o.Wakeup.Kind == sharding.SendWake:
		e.Origin = slowest.OriginAnswer
	}
	s.slow.Add(now, e)
}

// Slow returns the slowest commands of the last minutes that no gateway has seen.
func (i inspection) Slow(ctx context.Context, req *inspectionv1.SlowRequest) (*inspectionv1.SlowResponse, error) {
	done, err := i.admit(ctx, req.Cluster, req.To)
	if err != nil {
		return nil, err
	}
	defer done()
	return i.s.runner.slow.Answer(req.Limit), nil
}
