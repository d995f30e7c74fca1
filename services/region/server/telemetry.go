package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/node"
	"github.com/roost-cluster/roost/libs/node/histogram"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

const scope = "github.com/roost-cluster/roost/services/region"

// telemetry is what the region tells about itself. No metric has an entity id as an attribute:
// there are too many ids. Spans have it.
type telemetry struct {
	tracer  trace.Tracer
	command *histogram.Histogram
	mailbox *histogram.Histogram
	commit  *histogram.Series
	batch   *histogram.Series
	load    map[sharding.EntityType]*histogram.Series
	replay  map[sharding.EntityType]*histogram.Series
	// reminder is how late reminders are.
	reminder map[sharding.EntityType]*histogram.Series
	fenced   metric.Int64Counter
	// noSnapshot counts snapshots that could not be stored.
	noSnapshot metric.Int64Counter
	// rebuilt counts loads that ignored a snapshot, because it is of another form.
	rebuilt metric.Int64Counter
	damaged metric.Int64Counter
	// statesLost counts states of volatile entities that did not move with their shard.
	statesLost metric.Int64Counter
	// dropped counts reports that were dropped because the queue of reports to the coordinator was full.
	dropped metric.Int64Counter
}

func (s *shared) instrument(tp trace.TracerProvider, mp metric.MeterProvider, histograms *histogram.Registry) error {
	t := &s.telemetry
	t.tracer = tp.Tracer(scope)
	seconds := func(name, help string) *histogram.Histogram {
		return histograms.New(histogram.Desc{Scope: scope, Name: name, Unit: "s", Description: help, Bounds: histogram.Seconds})
	}
	number := func(name, unit, help string) *histogram.Histogram {
		return histograms.New(histogram.Desc{Scope: scope, Name: name, Unit: unit, Description: help, Bounds: histogram.Numbers})
	}
	byType := func(h *histogram.Histogram) map[sharding.EntityType]*histogram.Series {
		m := map[sharding.EntityType]*histogram.Series{}
		for typ := range s.types { // order-free: fills a map
			m[typ] = h.With(typeAttribute(typ))
		}
		return m
	}
	t.command = seconds("roost.entity.command.duration", "time from a command's arrival in its region to its answer; for a tell, or the command of a timer, to its end")
	t.mailbox = seconds("roost.entity.mailbox.wait", "time from a command's arrival to the start of its turn")
	t.commit = seconds("roost.journal.append.duration", "time of one group commit").With()
	t.batch = number("roost.journal.batch.size", "{operation}", "operations in one group commit").With()
	t.load = byType(seconds("roost.journal.replay.duration", "time to read one entity back"))
	t.replay = byType(number("roost.journal.replay.events", "{record}", "records replayed after the snapshot, per entity read back"))
	t.reminder = byType(seconds("roost.region.reminders.lateness", "time from when a reminder was due to when it fired, for each attempt to run its command"))
	meter := node.NewInstruments(mp.Meter(scope))
	t.fenced = meter.Counter("roost.journal.fenced", "{operation}",
		"claims, appends, fence reads and snapshots that the journal refused, because the shard belongs to another epoch")
	t.noSnapshot = meter.Counter("roost.entity.snapshot.failures", "{snapshot}",
		"snapshots of entities that could not be taken or stored: too large, or the journal has no room")
	t.rebuilt = meter.Counter("roost.entity.snapshot.ignored", "{snapshot}",
		"loads that replayed all events of an entity, because its snapshot was taken by another version of its type")
	t.damaged = meter.Counter("roost.journal.damaged", "{operation}",
		"loads, claims, appends, fence reads and snapshots that were refused, because what the journal has stored for them is damaged")
	t.statesLost = meter.Counter("roost.entity.states.lost", "{state}",
		"states that should have moved with their shard, of volatile types with KeepOnMoves, and did not: the entities begin empty")
	t.dropped = meter.Counter("roost.region.reports.dropped", "{report}",
		"reports about shards that were dropped because too many reports waited to be sent to the coordinator; the coordinator asks again")
	return meter.Err()
}

// gauges are read from the counts of the shard cores.
func (s *Runner) gauges(meter *node.Instruments) error {
	shards := meter.Gauge("roost.region.shards", "{shard}", "shards that this region holds")
	byType := newTypeGauges(meter)
	loads := meter.Gauge("roost.entity.loads", "{load}", "unfinished loads of entities, including loads that nobody waits for any more")
	waiting := meter.Gauge("roost.region.buffer.messages", "{message}", "commands delivered and not answered")
	activations := meter.Count("roost.entity.activations", "{activation}", "entities brought to life")
	unknown := meter.Count("roost.journal.unknown", "{append}", "appends whose outcome was unknown")
	duplicates := meter.Count("roost.entity.duplicates", "{command}", "commands answered with a stored or joined reply")
	abandoned := meter.Count("roost.entity.abandoned", "{turn}", "turns given up at a handoff timeout")
	lost := meter.Count("roost.entity.tells.lost", "{command}", "accepted tells and timer firings that were not done, or not with success")
	asking := meter.Gauge("roost.region.asks.waiting", "{turn}", "turns that wait for the answer of another entity")
	asks := meter.Count("roost.region.asks", "{command}", "commands that turns have sent to other entities to wait for their answers")
	deadlocks := meter.Count("roost.region.asks.deadlocks", "{command}", "asks that were given up because entities waited for each other in a circle")
	soon := meter.Gauge("roost.region.reminders.held", "{reminder}", "reminders in memory, because they are due soon or fail")
	failing := meter.Gauge("roost.region.reminders.failing", "{reminder}", "reminders in memory whose command has failed and will run again, by type")
	fired := meter.Count("roost.region.reminders.fired", "{firing}", "durable firings of reminders")
	failed := meter.Count("roost.region.reminders.failed", "{firing}", "firings of reminders whose command failed and will run again")
	obsolete := meter.Count("roost.region.reminders.obsolete", "{firing}", "firings of reminders that the journal refused, because they had fired or were changed before")
	unread := meter.Count("roost.region.reminders.reads.failed", "{read}", "failed reads of reminders; the reminders fire later")
	sends := meter.Gauge("roost.region.sends.held", "{send}", "commands from entity to entity that are in memory, until it is stored how they have ended")
	sendBytes := meter.Gauge("roost.region.sends.bytes", "By", "size of the sends in memory, with the answers that their senders have not taken")
	sendsFailing := meter.Gauge("roost.region.sends.failing", "{pair}", "pairs of a sender and a target whose next command has failed and will be sent again, by the type of the sender")
	sendsDelivered := meter.Count("roost.region.sends.delivered", "{send}", "sends that were answered, and whose sender has taken the answer if it wanted it")
	sendsDead := meter.Count("roost.region.sends.dead", "{send}", "sends that have become dead letters: refused, or in doubt")
	sendsInDoubt := meter.Count("roost.region.sends.in_doubt", "{send}", "sends that have become dead letters and may have had their effect")
	sendsFailed := meter.Count("roost.region.sends.failed", "{attempt}", "attempts to deliver a send, or to have its answer taken, that will be repeated")
	sendsObsolete := meter.Count("roost.region.sends.obsolete", "{answer}", "answers that were dropped, because the sender had taken them before or was deleted meanwhile")
	sendsUnread := meter.Count("roost.region.sends.reads.failed", "{read}", "failed reads of sends; the sends are delivered later")
	starting := meter.Gauge("roost.region.remembered.starting", "{entity}", "remembered entities that are being started")
	startsFailing := meter.Gauge("roost.region.remembered.failing", "{entity}", "remembered entities that could not be started, or have died, and will be started again, by type")
	started := meter.Count("roost.region.remembered.started", "{entity}", "remembered entities that are alive without a command, because their shard has started")
	startFailed := meter.Count("roost.region.remembered.failed", "{start}", "starts of remembered entities that have failed and will be tried again")
	startUnread := meter.Count("roost.region.remembered.reads.failed", "{read}", "failed reads of the list of remembered entities; the entities are started later")
	purges := meter.Count("roost.region.purges.done", "{purge}", "operations by which the journal has removed records of deleted entities, or has found that it was too early to remove them")
	purgesFailed := meter.Count("roost.region.purges.failed", "{operation}", "failed operations that remove records of deleted entities, and failed reads of what can be removed; both are repeated")
	purgesFailing := meter.Gauge("roost.region.purges.failing", "{shard}", "shards whose list of deleted entities could not be read")
	return meter.Observe(func(ctx context.Context, o metric.Observer) error {
		if s.ctx.Err() != nil {
			return nil // the cores have stopped; the last export has only the metrics that do not come from them
		}
		c, err := s.counts(ctx)
		if err != nil {
			return err
		}
		st, types, wakeups, held := c.st, c.types, c.wakeups, c.held
		o.ObserveInt64(asking, int64(st.Waiting))
		o.ObserveInt64(deadlocks, int64(st.Deadlocks))
		o.ObserveInt64(asks, int64(st.Asks))
		o.ObserveInt64(sends, int64(c.sends.Sends))
		o.ObserveInt64(sendBytes, int64(c.sends.Bytes))
		o.ObserveInt64(sendsDelivered, int64(c.sends.Delivered))
		o.ObserveInt64(sendsDead, int64(c.sends.Refused+c.sends.InDoubt))
		o.ObserveInt64(sendsInDoubt, int64(c.sends.InDoubt))
		o.ObserveInt64(sendsFailed, int64(c.sends.Failed))
		o.ObserveInt64(sendsObsolete, int64(c.sends.Obsolete))
		o.ObserveInt64(sendsUnread, int64(c.sends.ReadsFailed))
		o.ObserveInt64(starting, int64(c.starts.Starting))
		o.ObserveInt64(started, int64(c.starts.Started))
		o.ObserveInt64(startFailed, int64(c.starts.Failed))
		o.ObserveInt64(startUnread, int64(c.starts.ReadsFailed))
		o.ObserveInt64(soon, int64(wakeups.Rows))
		o.ObserveInt64(fired, int64(wakeups.Fired))
		o.ObserveInt64(failed, int64(wakeups.Failed))
		o.ObserveInt64(obsolete, int64(wakeups.Obsolete))
		o.ObserveInt64(unread, int64(wakeups.ReadsFailed))
		o.ObserveInt64(purges, int64(c.purges.Purges))
		o.ObserveInt64(purgesFailed, int64(c.purges.Failed))
		o.ObserveInt64(purgesFailing, int64(c.purges.Failing))
		o.ObserveInt64(shards, int64(held))
		byType.observe(o, types)
		for typ := range s.types { // order-free: series
			of := metric.WithAttributes(typeAttribute(typ))
			o.ObserveInt64(failing, int64(c.failing.reminders[typ]), of)
			o.ObserveInt64(sendsFailing, int64(c.failing.sends[typ]), of)
			o.ObserveInt64(startsFailing, int64(c.failing.starts[typ]), of)
		}
		o.ObserveInt64(loads, int64(st.Loads))
		o.ObserveInt64(waiting, int64(st.Commands))
		o.ObserveInt64(activations, int64(st.Activations))
		o.ObserveInt64(unknown, int64(st.Unknown))
		o.ObserveInt64(duplicates, int64(st.Duplicates))
		o.ObserveInt64(abandoned, int64(st.Abandoned))
		o.ObserveInt64(lost, int64(st.LostTells))
		return nil
	})
}

// counts are those of shard cores.
type counts struct {
	st      turn.Stats
	types   []turn.TypeStats
	wakeups wakeup.Stats
	starts  wakeup.StartStats
	sends   outbox.Stats
	purges  purge.Stats
	held    int
	failing failingTypes
}

// counts asks the shard cores for their counts.
func (s *Runner) counts(ctx context.Context) (all counts, err error) {
	got := make(chan counts, len(s.shards))
	for _, l := range s.shards {
		l.put(item{do: func() {
			c := counts{
				st: l.core.Stats(), types: l.core.TypeStats(), wakeups: l.core.Wakeups(), starts: l.core.Starts(), sends: l.core.Sends(),
				purges: l.core.Purges(), held: l.core.Held(),
			}
			c.failing.reminders, c.failing.sends, c.failing.starts = l.core.FailingTypes()
			got <- c
		}})
	}
	for range s.shards {
		select {
		case c := <-got:
			all.st.Add(c.st)
			all.types = addTypeStats(all.types, c.types)
			all.wakeups.Add(c.wakeups)
			all.starts.Add(c.starts)
			all.sends.Add(c.sends)
			all.purges.Add(c.purges)
			all.held += c.held
			all.failing.add(&c.failing)
		case <-ctx.Done():
			return counts{}, ctx.Err()
		case <-s.ctx.Done():
			return counts{}, s.ctx.Err()
		}
	}
	return all, nil
}

// failingTypes counts what is failing by the type of entities.
type failingTypes struct{ reminders, sends, starts map[sharding.EntityType]int }

// add adds the counts of another shard core.
func (f *failingTypes) add(o *failingTypes) {
	if f.reminders == nil {
		*f = *o
		return
	}
	for typ, n := range o.reminders { // order-free: sums
		f.reminders[typ] += n
	}
	for typ, n := range o.sends { // order-free: sums
		f.sends[typ] += n
	}
	for typ, n := range o.starts { // order-free: sums
		f.starts[typ] += n
	}
}

func (s *shared) journalObserver() journal.Observer {
	return journal.Observer{
		Batch: func(b journal.BatchStats) {
			s.telemetry.commit.Record(b.Took.Seconds())
			s.telemetry.batch.Record(float64(b.Ops))
		},
		Op: func(o journal.OpStats) {
			switch {
			case isProbe(&o.Op):
			case o.Result.Verdict == sharding.RefusedEpoch:
				s.telemetry.fenced.Add(s.ctx, 1, operation(o.Op.Kind()))
			case o.Result.Verdict == sharding.RefusedDamaged:
				s.telemetry.damaged.Add(s.ctx, 1, operation(o.Op.Kind()))
			}
		},
		Load: func(l journal.LoadStats) {
			switch {
			case errors.Is(l.Err, journal.ErrCorrupt):
				s.telemetry.damaged.Add(s.ctx, 1, operation("load"))
			case l.Err == nil && !l.Request.LookupOnly:
				typ := l.Request.Entity.Type // probes and journal heartbeats have no series
				s.telemetry.load[typ].Record(l.Took.Seconds())
				s.telemetry.replay[typ].Record(float64(l.Records))
			}
		},
		Damage: func(d journal.Damaged) { journalDamage(s.log, d) },
		Upkeep: func(err error) { journalUpkeep(s.log, err) },
	}
}

func operation(kind string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("roost.journal.operation", kind))
}

// journalDamage logs what an operator has to know of damage.
func journalDamage(log *slog.Logger, d journal.Damaged) {
	if d.Entity == (sharding.Entity{}) {
		log.Error("the stored epoch of a shard is damaged: its commands are refused until it can be read again", "shard", d.Shard, "error", d.Err)
		return
	}
	log.Error("what is stored of an entity is damaged: its commands are refused with data_loss until it can be read again",
		"entity.type", d.Entity.Type, "entity.id", d.Entity.ID, "error", d.Err)
}

// journalUpkeep logs that the journal's upkeep fails, or works again.
func journalUpkeep(log *slog.Logger, err error) {
	if err != nil {
		log.Error("the journal works, but not its upkeep, which is tried again", "error", err)
		return
	}
	log.Info("the upkeep of the journal works again")
}

// traceContext is a context that continues the trace of a command's sender.
func (s *shared) traceContext(traceparent string) context.Context {
	if traceparent == "" {
		return s.ctx
	}
	return propagation.TraceContext{}.Extract(s.ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// observe measures an answered command, and draws its spans if its trace is
// sampled: mailbox, handler and journal, from the times that the core has measured.
func (s *shardLoop) observe(c *caller, r *sharding.Reply) {
	now := s.now
	if s.telemetry.command != nil {
		m := s.measures(attributeKey{c.entity.Type, c.command, r.Code, r.Outcome})
		m.command.Record(now.Sub(c.arrived).Seconds())
		m.mailbox.Record(r.Timing.Mailbox.Seconds())
	}
	if c.trace == "" {
		return
	}
	ctx := s.traceContext(c.trace)
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return
	}
	ctx, span := s.telemetry.tracer.Start(ctx, string(c.entity.Type)+"/"+c.command,
		trace.WithTimestamp(c.arrived), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("roost.entity.type", string(c.entity.Type)), attribute.String("roost.entity.id", string(c.entity.ID)),
			attribute.String("roost.region", s.name), attribute.String("roost.outcome", r.Outcome.String())))
	if r.Outcome != sharding.OK {
		span.SetStatus(codes.Error, r.Message)
	}
	at := c.arrived
	part := func(name string, d time.Duration) {
		if d <= 0 {
			return
		}
		_, sp := s.telemetry.tracer.Start(ctx, name, trace.WithTimestamp(at))
		at = at.Add(d)
		sp.End(trace.WithTimestamp(at))
	}
	part("mailbox", r.Timing.Mailbox)
	part("handler", r.Timing.Handler)
	part("journal.append", r.Timing.Journal)
	span.End(trace.WithTimestamp(now))
}

// attributeKey names the attributes of an answered command.
type attributeKey struct {
	typ     sharding.EntityType
	command string
	code    sharding.Code
	outcome sharding.Outcome // if there is no code
}

// end is how the command ended.
func (k *attributeKey) end() attribute.KeyValue {
	end := string(k.code)
	if end == "" {
		end = k.outcome.String()
	}
	return attribute.String("roost.outcome", end)
}

// measures are where a command with certain attributes is counted.
type measures struct{ command, mailbox *histogram.Series }

// measures returns the series for some attributes. Many commands of one kind follow
// each other, so the last series are remembered.
func (s *shardLoop) measures(k attributeKey) *measures {
	if s.lastMeasures != nil && s.lastAttributes == k {
		return s.lastMeasures
	}
	named := k
	if _, known := s.types[k.typ]; !known {
		named.typ, named.command = "", "" // a name from outside must not become an attribute
	} else if _, known := s.commands[k.typ][k.command]; !known {
		named.command = ""
	}
	if k.code != "" {
		named.outcome = 0
		if !slices.Contains(sharding.Codes(), k.code) { // a code that the entity has made up must not become an attribute either
			named.code = sharding.Internal
		}
	}
	m := s.attributes[named]
	if m == nil {
		typ := typeAttribute(named.typ)
		m = &measures{
			command: s.telemetry.command.With(typ, attribute.String("roost.command", named.command), named.end()),
			mailbox: s.telemetry.mailbox.With(typ),
		}
		s.attributes[named] = m
	}
	s.lastAttributes, s.lastMeasures = k, m
	return m
}

func typeAttribute(t sharding.EntityType) attribute.KeyValue {
	return attribute.String("roost.entity.type", string(t))
}
