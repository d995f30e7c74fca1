package server

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/loop"
	nodetelemetry "github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
	"github.com/roost-cluster/roost/libs/router"
	"github.com/roost-cluster/roost/libs/router/driver"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region"
)

// The entities of a region send commands to others, wherever these are. A router, the same as
// in gateways, does that here too. It starts with the first command, and gets the route table
// from the control core: until then it costs nothing, and afterwards it does not poll. Links
// to other regions are made when they are first needed, and closed when they are not needed
// for a while. A command for a shard of this region goes into its inbox, at the epoch of the
// row, like a command from a link: the same checks are made, with the same refusals.

// routing is the router of a region.
type routing struct {
	runner  *Runner
	loop    *driver.Driver
	hops    *histogram.Series
	retries metric.Int64Counter
	running sync.WaitGroup

	started atomic.Bool // and not ended
	mu      sync.Mutex
	ended   bool
}

// errNoRouter refuses the commands of a runner that was made without a router.
var errNoRouter = sharding.Reject(sharding.Unimplemented, "not applied: this region sends no commands to other entities")

// Route sends a command of an entity of this region to another entity, here or elsewhere, and
// calls done once with the reply, from some goroutine: done must not wait. If the reply is
// Rejected, the command was not applied. If the sender relies on the command to change nothing,
// readOnly is set: such a command is refused if it may change something.
//
// A command without key gets an id. After a doubt it is never sent again, unless it is read-only. The caller
// must not change the payload any more.
func (s *Runner) Route(env sharding.Envelope, readOnly bool, done func(sharding.Reply)) {
	s.routeFrom(env, readOnly, origin{}, done)
}

// routeFrom is Route for a command whose origin is known. If it is one of the slowest, it is kept for operators.
func (s *Runner) routeFrom(env sharding.Envelope, readOnly bool, from origin, done func(sharding.Reply)) {
	r := s.routing
	if r == nil {
		done(errNoRouter)
		return
	}
	if err := checkRouted(&env); err != nil {
		done(sharding.Reject(sharding.InvalidArgument, "not applied: "+err.Error()))
		return
	}
	c := &driver.Call{Env: env, ReadOnly: readOnly}
	began := time.Now()
	c.End = func(f *router.Finish) {
		s.slowRouted(&c.Env, from, began, f)
		r.finish(f, done)
	}
	r.loop.Number(c)
	err := loop.ErrClosed
	if r.start() {
		err = r.loop.Submit(c)
	}
	if err != nil {
		done(r.loop.Refusal(err))
	}
}

// checkRouted refuses what no region would take: a command that stays here passes no other such check.
func checkRouted(env *sharding.Envelope) error {
	if err := env.CheckFromPeer(); err != nil {
		return err
	}
	if n := len(env.Payload); n > sharding.MaxPayload {
		return fmt.Errorf("the payload has %d bytes, at most %d are allowed", n, sharding.MaxPayload)
	}
	return nil
}

// finish passes a reply on.
func (r *routing) finish(f *router.Finish, done func(sharding.Reply)) {
	r.hops.Record(float64(f.Attempts))
	if f.Attempts > 1 {
		r.retries.Add(context.Background(), int64(f.Attempts-1))
	}
	r.loop.Delivered(f.Held)
	done(f.Reply)
}

// start starts the router with the first command. It reports false if the router has ended.
func (r *routing) start() bool {
	if r.started.Load() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended && !r.started.Load() {
		r.started.Store(true)
		r.running.Go(r.run)
		r.runner.Put(region.FeedRouter{})
	}
	return !r.ended
}

func (r *routing) run() { r.runner.noter.stepsCore(func() { r.loop.Run() }) }

// feed passes on what the route table has gained.
func (r *routing) feed(o region.Feed) {
	r.loop.Put(router.TableChange{Delta: o.Delta, Active: o.Active})
}

// end answers what is outstanding. Nothing is routed any more.
func (r *routing) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.loop.End()
	r.running.Wait()
}

// RouterConfig configures how a [Runner] routes the commands of its entities.
type RouterConfig struct {
	Core router.Config
	Link link.Config
	// Send sends a one-way message to a coordinator. It must not wait. Call makes a call.
	Send func(sharding.NodeID, control.Message)
	Call func(ctx context.Context, to string, msg control.Message) (control.Message, error)
}

// newRouting makes a router that is not started.
func newRouting(r *Runner, c *RouterConfig) (*routing, error) {
	s := &routing{runner: r}
	way := &wayIn{runner: r}
	var err error
	s.loop, err = driver.New(driver.Config{Core: c.Core, Link: c.Link, Local: way, Log: r.log, Send: c.Send, Call: c.Call, Inbox: c.Core.MaxTotal})
	way.answers = s.loop
	return s, err
}

// wayIn is the way of the router into its own region, in place of a link. Its methods are
// called by the router's loop alone, which must never wait: the turns that would make room in
// the region may be waiting for the router. So a command enters however full the inbox is.
// There are never more of them than the router admits. If there is no room for a reply, the
// router gets the same error as from a full link, and tries again.
type wayIn struct {
	runner  *Runner
	answers *driver.Driver
	ready   cores // that have new inputs
}

// Queue puts a command into the inbox.
func (w *wayIn) Queue(_ uint32, c *link.Command) error {
	ready, taken := w.runner.inbox.arriveHere(w, c)
	w.ready |= ready
	if !taken {
		return link.ErrBackpressure
	}
	return nil
}

// Flush wakes those who take in what was queued.
func (w *wayIn) Flush() {
	w.runner.wakeCores(w.ready)
	w.ready = 0
}

// SendBatch, Unsent, Ended and Waiting make wayIn the [Sink] of the answers. They are in the
// router as soon as they are sent.
func (w *wayIn) SendBatch(as []link.Answer) error { w.answers.Answers(as); return nil }

// Unsent is for [Sink].
func (w *wayIn) Unsent() int { return 0 }

// Ended is for [Sink].
func (w *wayIn) Ended() bool { return w.answers.Ended() }

// Waiting is for [Sink].
func (w *wayIn) Waiting() {}

// observe registers the metrics of the router.
func (r *routing) observe(histograms *histogram.Registry, meter *nodetelemetry.Instruments) error {
	r.hops = histograms.New(histogram.Desc{
		Scope: scope, Name: "roost.region.routed.hops", Unit: "{attempt}", Bounds: []float64{0, 1, 2, 3, 5, 8},
		Description: "number of times that one command from an entity to another was sent. More than 1: the shard of the target moved, or an answer was lost",
	}).With()
	r.retries = meter.Counter("roost.region.routed.retries", "{attempt}", "repeated sends of commands from one entity to another")
	requests := meter.Gauge("roost.region.routed.requests", "{command}", "commands from one entity to another that are not answered")
	size := meter.Gauge("roost.region.routed.bytes", "By", "size of the commands from one entity to another that are not answered")
	waiting := meter.Gauge("roost.region.routed.waiting", "{command}", "commands from one entity to another that wait to be sent")
	deferred := meter.Gauge("roost.region.routed.deferred", "{command}", "commands from one entity to another that are deferred: they wait, or have waited, until their shard moves to a version that has the command")
	up := meter.Gauge("roost.region.routed.links.up", "{link}", "open links to other regions, plus the path to this region itself")
	return meter.Observe(func(ctx context.Context, o metric.Observer) error {
		if !r.started.Load() || r.loop.Ended() {
			return nil
		}
		var st router.Stats
		var open int
		if err := r.loop.Inside(ctx, func() error { st, open = r.loop.Core().Stats(), r.loop.OpenLinks(); return nil }); err != nil {
			return err
		}
		o.ObserveInt64(requests, int64(st.Requests))
		o.ObserveInt64(size, int64(st.Bytes))
		o.ObserveInt64(waiting, int64(st.Waiting))
		o.ObserveInt64(deferred, int64(st.Deferred))
		o.ObserveInt64(up, int64(open))
		return nil
	})
}
