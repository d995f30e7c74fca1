package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// RunnerConfig is what a [Runner] needs.
type RunnerConfig struct {
	Self  sharding.NodeID
	Name  string // of the node, for people
	Types []entity.Definition
	// Core, if set, changes the configuration of the core before it is made.
	Core func(*region.Config)
	// Inbox is how many messages may wait for the loop before [Runner.Submit]
	// waits.
	Inbox int
	// StopTimeout is the time an entity's stop hook has.
	StopTimeout time.Duration
	Log         *slog.Logger
	// Tracers and Meters take what the runner tells about itself; nil: nobody
	// wants to know.
	Tracers trace.TracerProvider
	Meters  metric.MeterProvider
	// Outside performs, inside the loop, what the core wants done outside: all
	// that concerns the coordinator. It must not wait.
	Outside func(region.Output)
}

// Runner runs the entities of a region: it owns the loop of the core, the
// instances and their turns, and hands what must be durable to the journal. It
// knows no network; commands come in by [Runner.Submit].
type Runner struct {
	log         *slog.Logger
	self        sharding.NodeID
	name        string
	stopTimeout time.Duration
	descs       []turn.Type
	types       map[sharding.EntityType]entity.Definition
	// commands are the known ones per type, for metrics.
	commands  map[sharding.EntityType]map[string]struct{}
	telemetry telemetry
	outside   func(region.Output)

	ctx context.Context // ends when the loop and its jobs do
	end context.CancelFunc

	journal *journal.Journal
	inbox   *inbox
	crew    crew

	// Of the loop only.
	now            time.Time // of the step that is under way
	core           *region.Machine
	outs           []region.Output
	callers        callers
	replies        map[Sink]*replies
	lastReplies    *replies
	answered       []*replies
	jobs           []job
	slots          map[turn.Incarnation]*slot
	attributes     map[attributeKey]*measures
	lastAttributes attributeKey
	lastMeasures   *measures
}

// NewRunner makes a runner. Its journal must be set by [Runner.Use] before it
// runs.
func NewRunner(c RunnerConfig) (*Runner, error) {
	s := &Runner{
		log: c.Log, self: c.Self, name: c.Name, stopTimeout: c.StopTimeout, outside: c.Outside,
		types:      map[sharding.EntityType]entity.Definition{},
		commands:   map[sharding.EntityType]map[string]struct{}{},
		inbox:      newInbox(c.Inbox),
		replies:    map[Sink]*replies{},
		slots:      map[turn.Incarnation]*slot{},
		attributes: map[attributeKey]*measures{},
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.crew.context, s.crew.turn = s.turnContext, s.turn
	var errs []error
	for _, t := range c.Types {
		d, err := entity.Describe(t)
		errs = append(errs, err)
		s.descs = append(s.descs, d)
		s.types[d.Desc.Type] = t
		known := map[string]struct{}{}
		for _, command := range d.Desc.Commands {
			known[command.Name] = struct{}{}
		}
		s.commands[d.Desc.Type] = known
	}
	if c.Tracers == nil {
		c.Tracers = tracenoop.NewTracerProvider()
	}
	if c.Meters == nil {
		c.Meters = metricnoop.NewMeterProvider()
	}
	errs = append(errs, s.instrument(c.Tracers, c.Meters))
	core := region.DefaultConfig(s.self, s.name, s.descs...)
	if c.Core != nil {
		c.Core(&core)
	}
	if err := errors.Join(append(errs, core.Validate())...); err != nil {
		return nil, err
	}
	s.core = region.New(core)
	return s, nil
}

// Types describe the types that the runner hosts.
func (s *Runner) Types() []turn.Type { return s.descs }

// Use sets the journal.
func (s *Runner) Use(j *journal.Journal) { s.journal = j }

// Observer is what a journal should tell the runner's metrics.
func (s *Runner) Observer() journal.Observer { return s.journalObserver() }

// Submit hands commands over. It waits while the runner has too much to take
// in. The slice is the caller's again, what it points to is not. Each command
// gets one answer, sent to to, with its Corr.
func (s *Runner) Submit(to Sink, cmds []link.Command) { s.inbox.arrive(to, cmds) }

// Forget drops what is kept for a sink that gets no commands any more.
func (s *Runner) Forget(to Sink) {
	s.inbox.put(item{do: func() {
		delete(s.replies, to)
		if s.lastReplies != nil && s.lastReplies.to == to {
			s.lastReplies = nil
		}
	}})
}

// Put gives the core an input.
func (s *Runner) Put(inputs ...region.Input) {
	items := make([]item, len(inputs))
	for i := range inputs {
		items[i].in = inputs[i]
	}
	s.inbox.put(items...)
}

// End ends the loop and the context of all turns.
func (s *Runner) End() { s.end() }
