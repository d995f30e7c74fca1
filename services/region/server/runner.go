package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/loop"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/security"
	nodetelemetry "github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
	"github.com/roost-cluster/roost/libs/node/telemetry/slowest"
	"github.com/roost-cluster/roost/libs/pace"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// RunnerConfig configures a [Runner].
type RunnerConfig struct {
	Self  sharding.NodeID
	Name  string // of the node, for people
	Types []entity.Definition
	// Core configures the cores; nil: as by default. Self, Name and Types above are set in it.
	Core *region.Config
	// Passivation overrides the strategies in the code of types.
	Passivation map[sharding.EntityType]passivation.Strategy
	// Inbox is the number of messages that may wait for the shard cores before [Runner.Submit]
	// waits.
	Inbox int
	// StopTimeout is the time an entity's stop hook has.
	StopTimeout time.Duration
	// Failures is the maximum rate of log lines about failures of entities, per second.
	Failures int
	// Noter notes the turns that run; nil: nothing is noted.
	Noter *noter
	// Policy defines who may send which commands; nil: everybody may send all.
	Policy *security.PolicyFile
	Log    *slog.Logger
	// Tracers, Meters and Histograms receive the runner's telemetry; nil: none is made.
	Tracers    trace.TracerProvider
	Meters     metric.MeterProvider
	Histograms *histogram.Registry
	// Router routes the commands that entities send to others; nil: they cannot send any.
	Router *RouterConfig
	// Outside performs what the control core wants done outside: all that concerns the
	// coordinator. It is called between two steps of that core, and must not wait.
	Outside func(region.ControlOutput)
	// Fetch asks the region that had a shard before for the states that it has kept; nil: they cannot be
	// fetched.
	Fetch func(context.Context, region.FetchKept) ([]turn.Kept, error)
}

// Runner runs the entities of a region: it owns the cores, the instances and
// their turns, and hands what must be durable to the journal. It
// knows no network; commands come in by [Runner.Submit].
type Runner struct {
	*shared
	control *controlLoop
	shards  []*shardLoop
	routing *routing // nil: there is none
	cfg     region.Config
	heap    heap    // used by Run alone
	process process // likewise
	// Of Run alone: when ticks come, and the last one.
	pace   pace.Rest
	ticked time.Time
	ticks  atomic.Uint64 // how many there were
}

// shared holds the state that the control loop and all shard loops of a region use.
type shared struct {
	log           *slog.Logger
	self          sharding.NodeID
	name          string
	stopTimeout   time.Duration
	loadTimeout   time.Duration
	lookupTimeout time.Duration
	descs         []turn.Type
	types         map[sharding.EntityType]entity.Definition
	trying        atomic.Bool // an entity is read for an operator
	// commands has the known commands by type and name, for metrics and for the inbox.
	commands  map[sharding.EntityType]map[string]*replies.SizeEstimate
	paces     map[sharding.EntityType]*paces
	telemetry telemetry
	failures  failures
	// lostLogged has what was logged about states that did not move: each lostState once.
	lostLogged sync.Map
	fetch      func(context.Context, region.FetchKept) ([]turn.Kept, error)
	policy     *security.PolicyFile // nil: everything is allowed
	noter      *noter

	ctx context.Context // of all turns
	end context.CancelFunc

	journal *commit.Journal
	inbox   *inbox
	rest    rest
	// route sends a command of an entity to another one, and calls done once with the reply. It
	// does not wait.
	route  func(env sharding.Envelope, readOnly bool, from origin, done func(sharding.Reply))
	slow   slowest.Log
	damage damageLog
	// notAlive has the entities whose code cannot bring them to life from their stored data.
	notAlive damageLog
}

// NewRunner makes a runner. Its journal must be set by [Runner.Use] before it
// runs.
func NewRunner(c RunnerConfig) (*Runner, error) {
	s := &Runner{pace: region.NewRest(), shared: &shared{
		log: c.Log, self: c.Self, name: c.Name, stopTimeout: c.StopTimeout,
		failures: failures{limit: c.Failures}, fetch: c.Fetch, policy: c.Policy, noter: cmp.Or(c.Noter, newNoter()),
		types:    map[sharding.EntityType]entity.Definition{},
		commands: map[sharding.EntityType]map[string]*replies.SizeEstimate{},
		paces:    map[sharding.EntityType]*paces{},
	}}
	s.route = s.routeFrom
	s.ctx, s.end = context.WithCancel(context.Background())
	var errs []error
	for _, t := range c.Types {
		d, err := entity.Describe(t)
		errs = append(errs, err)
		s.descs = append(s.descs, d)
		s.types[d.Desc.Type] = t
		s.paces[d.Desc.Type] = &paces{}
		known := map[string]*replies.SizeEstimate{}
		for _, command := range d.Desc.Commands {
			known[command.Name] = &replies.SizeEstimate{}
		}
		s.commands[d.Desc.Type] = known
	}
	if c.Tracers == nil {
		c.Tracers = tracenoop.NewTracerProvider()
	}
	if c.Meters == nil {
		c.Meters = metricnoop.NewMeterProvider()
	}
	errs = append(errs, s.instrument(c.Tracers, c.Meters, c.Histograms), s.gauges(nodetelemetry.NewInstruments(c.Meters.Meter(scope))), s.keptGauges(nodetelemetry.NewInstruments(c.Meters.Meter(scope))))
	if s.self.Addr == "" || s.self.UID == 0 {
		errs = append(errs, errors.New("region: Self needs an address and a uid"))
	}
	s.cfg = region.DefaultConfig(s.self, s.name)
	if c.Core != nil {
		s.cfg = *c.Core
	}
	s.cfg.Self, s.cfg.Name, s.cfg.Turn.Types = s.self, s.name, s.descs
	for i := range s.descs {
		if strategy, own := c.Passivation[s.descs[i].Desc.Type]; own {
			s.descs[i].Passivation = strategy
		}
	}
	if err := errors.Join(append(errs, s.cfg.Validate())...); err != nil {
		return nil, err
	}
	s.loadTimeout, s.lookupTimeout = s.cfg.Turn.LoadTimeout, s.cfg.Turn.LookupTimeout
	s.inbox = newInbox(c.Inbox, s.cfg.ShardCores, s.coreOf, replies.NewBudget(s.cfg.Replies), s.commands)
	s.control = newControlLoop(s, c.Outside)
	s.rest.wake = s.control.inbox.Wake
	s.inbox.stir = s.rest.stir
	for i := range s.cfg.ShardCores {
		s.shards = append(s.shards, newShardLoop(s, i))
	}
	if c.Router == nil {
		return s, nil
	}
	var err error
	if s.routing, err = newRouting(s, c.Router); err != nil {
		return nil, err
	}
	return s, s.routing.observe(c.Histograms, nodetelemetry.NewInstruments(c.Meters.Meter(scope)))
}

// coreOf returns the shard core of an entity, and any core if the type is not known here.
func (s *Runner) coreOf(e sharding.Entity) int {
	if s.cfg.ShardCores == 1 {
		return 0
	}
	for i := range s.descs {
		if d := &s.descs[i].Desc; d.Type == e.Type {
			return s.cfg.CoreOf(d.ShardOf(e.ID))
		}
	}
	return 0
}

// Types describe the types that the runner hosts.
func (s *Runner) Types() []turn.Type { return s.descs }

// Use sets the journal.
func (s *Runner) Use(j *commit.Journal) { s.journal = j }

// Observer returns the journal observer that feeds the runner's metrics.
func (s *Runner) Observer() commit.Observer { return s.journalObserver() }

// Run steps the control core, and sends ticks to all cores, until [Runner.End]; then no goroutine steps any of
// them any more.
func (s *Runner) Run() {
	takeIn := func(batch []controlItem, tick bool) {
		if tick {
			s.ticked = time.Now()
			s.ticks.Add(1)
			if s.rest.stirred.Swap(false) { // before anything is looked at: what happens from now on counts
				s.pace.Stir(s.ticked)
			}
			s.pace.Tick(s.ticked)
		}
		s.control.takeIn(batch)
		if tick {
			s.tick()
		}
	}
	s.noter.stepsCore(func() {
		if clock := s.journal.StoreClock(); clock.Known() {
			for _, l := range s.shards { // before any command: its turn may set a reminder
				l.put(item{in: region.StoreClock{Clock: clock}})
			}
		}
		loop.Run(s.ctx, s.control.inbox, tickEvery, s.due, takeIn)
	})
	if s.routing != nil {
		s.routing.end() // turns wait for its answers
	}
	s.control.inbox.Close()
	s.inbox.end()
	for _, l := range s.shards {
		l.stop()
	}
}

// loops adds the control loop and the loops of the shard cores to the node's liveness, and that their turns begin: a
// core may take in commands whose turns no goroutine runs.
func (s *Runner) loops(n *node.Node) {
	n.Loop("control loop", s.ctx.Done(), s.control.do)
	for _, l := range s.shards {
		n.Loop(fmt.Sprintf("shard core %d", l.index), s.ctx.Done(), func(f func()) { l.put(item{do: f}) })
		n.Loop(fmt.Sprintf("turns of shard core %d", l.index), s.ctx.Done(), l.afterTurns)
	}
}

func (s *Runner) tick() {
	s.inbox.refresh() // the cores take in with the tick what has entered
	s.control.step(region.Tick{})
	s.noter.alive(s.ticked)
	s.lookAtHeap()
	s.lookAtProcess()
	for _, l := range s.shards {
		l.put(item{in: region.Tick{}})
	}
}

// wakeCores wakes a worker for each of the given cores.
func (s *Runner) wakeCores(c cores) {
	for c != 0 {
		s.shards[c.next()].wake()
	}
}

// Submit hands commands over. It waits while the runner has too much to take in, or no room
// even to refuse a command. After Submit the caller may reuse the slice, but not the memory
// that its elements point to. Each command gets one answer, with its Number, sent to to.
func (s *Runner) Submit(to Sink, cmds []link.Command) { s.wakeCores(s.arrive(to, cmds)) }

// arrive puts commands into the inbox, and returns the cores that have new inputs. If it has
// to wait, those cores are woken first.
func (s *Runner) arrive(to Sink, cmds []link.Command) cores {
	refused, inputs := s.look(cmds)
	return s.inbox.arrive(to, cmds, refused, inputs, func(c cores) {
		to.Waiting()
		s.wakeCores(c)
	})
}

// Forget drops the queue of a sink that will bring no more commands.
func (s *Runner) Forget(to Sink) { s.inbox.forget(to) }

// Serve is Submit for a caller that brings commands all the time. The caller's goroutine
// steps one of the shard cores that got commands, and runs the turns that are quick; the
// other cores are left to their pools. If a turn is not quick, yield is called, from
// another goroutine: until Serve returns, yet another one should do what the caller
// usually does, for example read a link.
func (s *Runner) Serve(to Sink, cmds []link.Command, yield func()) {
	c := s.arrive(to, cmds)
	if c == 0 {
		return
	}
	own := c.next()
	s.wakeCores(c)
	s.shards[own].runInline(yield)
}

// Put gives the control core inputs.
func (s *Runner) Put(inputs ...region.ControlInput) {
	for _, in := range inputs {
		s.control.put(controlItem{in: in})
	}
}

// End ends [Runner.Run] and the context of all turns.
func (s *Runner) End() { s.end() }
