package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/link"
	"github.com/roost-cluster/roost/libs/node/histogram"
	"github.com/roost-cluster/roost/libs/replies"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
	"github.com/roost-cluster/roost/services/region/server/executor"
)

// RunnerConfig is what a [Runner] needs.
type RunnerConfig struct {
	Self  sharding.NodeID
	Name  string // of the node, for people
	Types []entity.Definition
	// Core, if set, changes the configuration of the core before it is made.
	Core func(*region.Config)
	// Inbox is how many messages may wait for the core before [Runner.Submit]
	// waits.
	Inbox int
	// StopTimeout is the time an entity's stop hook has.
	StopTimeout time.Duration
	// Failures is how many lines per second failures of entities write into the
	// log.
	Failures int
	Log      *slog.Logger
	// Tracers, Meters and Histograms take what the runner tells about itself;
	// nil: nobody wants to know.
	Tracers    trace.TracerProvider
	Meters     metric.MeterProvider
	Histograms *histogram.Registry
	// Outside performs what the core wants done outside: all that concerns the
	// coordinator. It is called between two steps of the core, and must not wait.
	Outside func(region.Output)
}

// Runner runs the entities of a region: it owns the core, the instances and
// their turns, and hands what must be durable to the journal. It
// knows no network; commands come in by [Runner.Submit].
type Runner struct {
	log           *slog.Logger
	self          sharding.NodeID
	name          string
	stopTimeout   time.Duration
	loadTimeout   time.Duration
	lookupTimeout time.Duration
	descs         []turn.Type
	types         map[sharding.EntityType]entity.Definition
	// commands are the known ones per type, for metrics and for the inbox.
	commands  map[sharding.EntityType]map[string]*replies.Kind
	paces     map[sharding.EntityType]*paces
	telemetry telemetry
	failures  failures
	outside   func(region.Output)

	ctx context.Context // of all turns
	end context.CancelFunc

	journal *journal.Journal
	inbox   *inbox
	pool    *pool

	// stepping is held by the goroutine that steps the core; no other one waits for
	// it. It guards what follows.
	stepping       sync.Mutex
	worker         *worker   // of that goroutine
	now            time.Time // of the step that is under way
	core           *region.Machine
	batch          batch
	taken          int         // of its arrivals
	left           atomic.Bool // some are not taken; may be read by all
	outs           []region.Output
	callers        callers
	rest           []job           // that the worker does not take on
	cuts           map[*slot][]job // snapshots that are being cut, and what waits for each
	slots          []*slot         // by place
	attributes     map[attributeKey]*measures
	lastAttributes attributeKey
	lastMeasures   *measures
}

// NewRunner makes a runner. Its journal must be set by [Runner.Use] before it
// runs.
func NewRunner(c RunnerConfig) (*Runner, error) {
	s := &Runner{
		log: c.Log, self: c.Self, name: c.Name, stopTimeout: c.StopTimeout, outside: c.Outside,
		failures:   failures{limit: c.Failures},
		types:      map[sharding.EntityType]entity.Definition{},
		commands:   map[sharding.EntityType]map[string]*replies.Kind{},
		paces:      map[sharding.EntityType]*paces{},
		attributes: map[attributeKey]*measures{},
		cuts:       map[*slot][]job{},
	}
	s.inbox = newInbox(c.Inbox, s.commands)
	s.ctx, s.end = context.WithCancel(context.Background())
	s.pool = executor.New(s.work, s.handIn, s.ctx.Done())
	var errs []error
	for _, t := range c.Types {
		d, err := entity.Describe(t)
		errs = append(errs, err)
		s.descs = append(s.descs, d)
		s.types[d.Desc.Type] = t
		s.paces[d.Desc.Type] = &paces{}
		known := map[string]*replies.Kind{}
		for _, command := range d.Desc.Commands {
			known[command.Name] = &replies.Kind{}
		}
		s.commands[d.Desc.Type] = known
	}
	if c.Tracers == nil {
		c.Tracers = tracenoop.NewTracerProvider()
	}
	if c.Meters == nil {
		c.Meters = metricnoop.NewMeterProvider()
	}
	errs = append(errs, s.instrument(c.Tracers, c.Meters, c.Histograms))
	core := region.DefaultConfig(s.self, s.name, s.descs...)
	if c.Core != nil {
		c.Core(&core)
	}
	if err := errors.Join(append(errs, core.Validate())...); err != nil {
		return nil, err
	}
	s.loadTimeout, s.lookupTimeout = core.Turn.LoadTimeout, core.Turn.LookupTimeout
	s.core, s.inbox.budget = region.New(core), replies.NewBudget(core.Replies)
	return s, nil
}

// Types describe the types that the runner hosts.
func (s *Runner) Types() []turn.Type { return s.descs }

// Use sets the journal.
func (s *Runner) Use(j *journal.Journal) { s.journal = j }

// Observer is what a journal should tell the runner's metrics.
func (s *Runner) Observer() journal.Observer { return s.journalObserver() }

// Submit hands commands over. It waits while the runner has too much to take
// in, or no room even to refuse one. The slice is the caller's again, what it points to
// is not. Each command gets one answer, sent to to, with its Corr.
func (s *Runner) Submit(to Sink, cmds []link.Command) {
	s.arrive(to, cmds)
	s.call()
}

// arrive puts commands into the inbox. If it has to wait, what is there already is
// done meanwhile.
func (s *Runner) arrive(to Sink, cmds []link.Command) {
	s.inbox.arrive(to, cmds, s.malformed(cmds), func() {
		to.Waiting()
		s.call()
	})
}

// Forget drops what is known of a sink that will bring no more commands.
func (s *Runner) Forget(to Sink) { s.inbox.forget(to) }

// Serve is Submit for a caller that brings commands all the time: what they ask for
// is done by its goroutine, as far as that is quick. If a turn turns out not to be,
// yield is called, from another goroutine: then somebody else should do what the
// caller is for until Serve returns.
func (s *Runner) Serve(to Sink, cmds []link.Command, yield func()) {
	s.arrive(to, cmds)
	s.runInline(yield)
}

// Put gives the core an input.
func (s *Runner) Put(inputs ...region.Input) {
	items := make([]item, len(inputs))
	for i := range inputs {
		items[i].in = inputs[i]
	}
	s.put(items...)
}

// End ends [Runner.Run] and the context of all turns.
func (s *Runner) End() { s.end() }
