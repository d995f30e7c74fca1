package server

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/propagation"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/services/region"
)

// asks are what the running turns of a shard core wait for. The handler waits on its own
// goroutine, which is a worker's: so the worker gives away what it has still to do.
type asks struct {
	last atomic.Uint64 // number of the newest ask
	// waiting has where the replies go. It belongs to the core's side.
	waiting map[uint64]chan<- sharding.Reply
}

// Ask implements [entity.Asker]: the context of a turn sends what the turn asks.
func (c *turnContext) Ask(ctx context.Context, in turn.Ask) sharding.Reply {
	s := c.loop
	in.Incarnation, in.Request, in.Number = c.run.Incarnation, c.run.Request, s.asks.last.Add(1)
	in.Trace = traceOf(ctx, c.run.Env.Trace)
	replies := make(chan sharding.Reply, 1)
	s.pool.Block(c.worker)
	s.put(item{do: func() {
		s.asks.waiting[in.Number] = replies
		s.input(region.Turn{Input: in})
	}})
	select {
	case reply := <-replies:
		return reply
	case <-ctx.Done():
	case <-c.Done(): // ctx may be another one
	}
	s.put(item{do: func() {
		delete(s.asks.waiting, in.Number)
		s.input(region.Turn{Input: turn.WithdrawAsk{Incarnation: in.Incarnation, Number: in.Number}})
	}})
	if in.ReadOnly {
		return sharding.Reject(sharding.DeadlineExceeded, "the turn's time was over before "+in.Target.String()+" had answered")
	}
	return sharding.Doubt(sharding.DeadlineExceeded, "the turn's time was over before "+in.Target.String()+" had answered")
}

// sendAsk sends the command that a turn asks.
func (s *shardLoop) sendAsk(o turn.SendAsk) {
	s.route(o.Env, o.ReadOnly, func(reply sharding.Reply) {
		s.put(item{in: region.Turn{Input: turn.Asked{Incarnation: o.Incarnation, Number: o.Number, Reply: reply}}})
	})
}

// sendProbe sends a probe. It is sent again if it gets lost.
func (s *shardLoop) sendProbe(o turn.SendProbe) { s.route(o.Env, true, func(sharding.Reply) {}) }

// askDone lets a turn go on that has asked.
func (s *shardLoop) askDone(o turn.AskDone) {
	if replies := s.asks.waiting[o.Number]; replies != nil {
		delete(s.asks.waiting, o.Number)
		replies <- o.Reply
	}
}

// traceOf returns the trace context of ctx, or else that of the command.
func traceOf(ctx context.Context, command string) string {
	if command == "" {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if own := carrier.Get("traceparent"); own != "" {
		return own
	}
	return command
}
