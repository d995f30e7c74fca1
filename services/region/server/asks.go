package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
)

// asks holds the asks that the running turns of a shard core wait for. The handler waits on its
// own goroutine, which belongs to a worker: so the worker gives away its remaining jobs. The
// core decides the result of an ask, however the turn has ended: only the core knows whether the
// command has left.
type asks struct {
	mu      sync.Mutex
	last    uint64 // number of the newest ask
	waiting map[uint64]waitingTurn
	ended   bool // no goroutine steps the core any more
}

// waitingTurn is a turn that waits for the answer to what it asks.
type waitingTurn struct {
	inc     turn.Incarnation
	replies chan<- sharding.Reply
}

// errEnded is the reply to an ask that the core has never seen.
var errEnded = turn.NotAsked("the region has ended")

// begin gives an ask its number. It returns false if it is too late for asks.
func (a *asks) begin(in *turn.Ask, replies chan<- sharding.Reply) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.last++
	in.Number = a.last
	a.waiting[a.last] = waitingTurn{inc: in.Incarnation, replies: replies}
	return true
}

// answer lets a turn go on.
func (a *asks) answer(number uint64, reply sharding.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w, ok := a.waiting[number]; ok {
		delete(a.waiting, number)
		w.replies <- reply
	}
}

// end lets no further ask begin, and returns those that wait.
func (a *asks) end() []turn.WithdrawAsk {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	var list []turn.WithdrawAsk
	for _, n := range slices.Sorted(maps.Keys(a.waiting)) {
		list = append(list, turn.WithdrawAsk{Incarnation: a.waiting[n].inc, Number: n})
	}
	return list
}

// Ask implements [entity.Asker]: the context of a turn sends what the turn asks.
func (c *turnContext) Ask(ctx context.Context, in turn.Ask) sharding.Reply {
	s := c.loop
	in.Incarnation, in.Turn, in.Trace = c.inc, c.turn, traceOf(ctx, c.trace)
	replies := make(chan sharding.Reply, 1)
	if !s.asks.begin(&in, replies) {
		return errEnded
	}
	c.asking.Add(1)
	defer c.asking.Add(-1)
	s.pool.Block(c.worker)
	if c.noted.suspect != nil { // others may run while this one waits
		s.noter.leave(&c.noted, time.Now(), false)
		defer s.noter.enter(&c.noted)
	}
	s.put(item{in: in})
	select {
	case reply := <-replies:
		return reply
	case <-ctx.Done():
	case <-c.Done(): // ctx may be another one
	}
	s.put(item{in: turn.WithdrawAsk{Incarnation: in.Incarnation, Number: in.Number}})
	return <-replies
}

// endAsks lets the waiting turns go on, after the last step: the core decides the result of each ask that it
// has seen.
func (s *shardLoop) endAsks() {
	for _, in := range s.asks.end() {
		s.input(in)
		s.asks.answer(in.Number, errEnded)
	}
}

// sendAsk sends the command that a turn asks.
func (s *shardLoop) sendAsk(o turn.SendAsk) {
	s.route(o.Env, o.ReadOnly, asked(&o.Env), func(reply sharding.Reply) {
		s.put(item{in: turn.AskAnswered{Incarnation: o.Incarnation, Number: o.Number, Reply: reply}})
	})
}

// sendProbe sends a probe. It is sent again if it gets lost.
func (s *shardLoop) sendProbe(o turn.SendProbe) {
	s.route(o.Env, true, origin{}, func(sharding.Reply) {})
}

// traceOf returns the trace context of ctx if there is one, otherwise the trace context of the command.
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
