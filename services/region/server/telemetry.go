package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	nodetelemetry "github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
	"github.com/roost-cluster/roost/libs/outbox"
	"github.com/roost-cluster/roost/libs/purge"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/libs/wakeup"
)

const scope = "github.com/roost-cluster/roost/services/region"

// telemetry holds the metrics and the tracer of the region. No metric has an entity id as an
// attribute, because there are too many ids. A span has the id of its entity as an attribute.
type telemetry struct {
	tracer  trace.Tracer
	command *histogram.Histogram
	mailbox *histogram.Histogram
	commit  *histogram.Series
	batch   *histogram.Series
	load    map[sharding.EntityType]*histogram.Series
	replay  map[sharding.EntityType]*histogram.Series
	// reminder measures how late reminders fire.
	reminder map[sharding.EntityType]*histogram.Series
	// fenced counts operations that the journal refused because the shard belongs to another epoch.
	fenced metric.Int64Counter
	// noSnapshot counts snapshots that could not be stored.
	noSnapshot metric.Int64Counter
	// rebuilt counts loads that ignored a snapshot, because the snapshot has another form.
	rebuilt metric.Int64Counter
	// damaged counts operations that failed because their stored data are damaged.
	damaged metric.Int64Counter
	// notCommitted counts group commits that failed.
	notCommitted metric.Int64Counter
	// databaseDown identifies the databases that do not answer, if the journal has several.
	databaseDown *nodetelemetry.Flags
	// statesLost counts states of volatile entities that did not move with their shard.
	statesLost metric.Int64Counter
	// dropped counts reports that the region dropped because the queue of reports to the coordinator
	// was full.
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
			m[typ] = h.With(typeAttribute(typ)).Declare()
		}
		return m
	}
	t.command = seconds("roost.entity.command.duration", "time from the arrival of a command in its region to the answer. For a tell, and for the command of a timer, the time to the end of its turn")
	t.mailbox = seconds("roost.entity.mailbox.wait", "time from the arrival of a command in its region to the start of its turn")
	byType(t.mailbox)
	t.commit = seconds("roost.journal.append.duration", "time that one group commit takes, also one that fails").With().Declare()
	t.batch = number("roost.journal.batch.size", "{operation}", "number of operations in one group commit").With().Declare()
	t.load = byType(seconds("roost.journal.replay.duration", "time that it takes to read one entity from the journal"))
	t.replay = byType(number("roost.journal.replay.records", "{record}", "number of records that are replayed after the snapshot when one entity is read from the journal"))
	t.reminder = byType(seconds("roost.region.reminders.lateness", "time from the due time of a reminder to its firing. Each attempt to run the command counts"))
	meter := nodetelemetry.NewInstruments(mp.Meter(scope))
	t.fenced = meter.Counter("roost.journal.fenced", "{operation}",
		"operations that the journal refused because the shard belongs to another epoch: claims, appends, fence reads and snapshots",
		operation("claim"), operation("append"), operation("fence"), operation("snapshot"))
	t.noSnapshot = meter.Counter("roost.entity.snapshot.failures", "{snapshot}",
		"snapshots of entities that the region could not take or store, because they are too large, or because the journal has no room")
	t.rebuilt = meter.Counter("roost.entity.snapshot.ignored", "{snapshot}",
		"loads that replayed all events of an entity, because another version of its type had taken its snapshot")
	t.damaged = meter.Counter("roost.journal.damaged", "{operation}",
		"operations that failed because their stored data are damaged: loads, claims, appends, fence reads and snapshots",
		operation("load"), operation("claim"), operation("append"), operation("fence"), operation("snapshot"))
	t.notCommitted = meter.Counter("roost.journal.commits.failed", "{commit}",
		"group commits that have failed, by reason. Most are tried again", commitsFailed()...)
	t.databaseDown = meter.Flags("roost.journal.database.down", "{database}",
		"1 for each database of the journal that does not answer this process, 0 for the others. A journal in one database has only 0: see roost.journal.commits.failed", "roost.journal.database")
	t.statesLost = meter.Counter("roost.entity.states.lost", "{state}",
		"states of entities that did not move with their shard, although their type is volatile with KeepOnMoves. These entities begin empty", s.lostSeries()...)
	t.dropped = meter.Counter("roost.region.reports.dropped", "{report}",
		"reports about shards that the region dropped, because too many reports to the coordinator were waiting. The coordinator asks again")
	return meter.Err()
}

// gauges registers the metrics whose values come from the counts of the shard cores.
func (s *Runner) gauges(meter *nodetelemetry.Instruments) error {
	shards := meter.Gauge("roost.region.shards", "{shard}", "shards that this region holds")
	byType := newTypeGauges(meter)
	loads := meter.Gauge("roost.entity.loads", "{load}", "loads of entities that have not ended, including abandoned loads")
	waiting := meter.Gauge("roost.region.commands.unanswered", "{command}", "commands that the region has received and not answered yet")
	activations := meter.Count("roost.entity.activations", "{activation}", "entities that the region has brought to life")
	unknown := meter.Count("roost.journal.unknown", "{append}", "appends whose outcome was unknown")
	duplicates := meter.Count("roost.entity.duplicates", "{command}", "repeated commands that the region answered with a stored reply, or with the reply of the first command")
	abandoned := meter.Count("roost.entity.abandoned", "{turn}", "turns that were abandoned because a handoff reached its time limit")
	longest := meter.Gauge("roost.entity.turn.longest", "s", "how long the handler has been running that runs longest now, by type. Handlers of abandoned turns count until they return. Handlers that wait for another entity do not count")
	lost := meter.Count("roost.entity.tells.lost", "{command}", "accepted tells, and firings of timers, that did not succeed")
	asking := meter.Gauge("roost.region.asks.waiting", "{turn}", "turns that wait for the answer of another entity")
	asks := meter.Count("roost.region.asks", "{command}", "commands that turns have sent to other entities in order to wait for the answers")
	deadlocks := meter.Count("roost.region.asks.deadlocks", "{command}", "asks that were given up because entities waited for each other in a cycle")
	overdue := meter.Gauge("roost.region.reminders.overdue", "s", "time since the oldest reminder in memory that waits to fire was due. 0: none is due. It rises while more reminders are due than can fire")
	soon := meter.Gauge("roost.region.reminders.held", "{reminder}", "reminders in memory. A reminder is in memory if it is due soon, or if its command has failed")
	failing := meter.Gauge("roost.region.reminders.failing", "{reminder}", "reminders in memory whose command has failed and will run again, by type")
	fired := meter.Count("roost.region.reminders.fired", "{firing}", "firings of reminders that have ended and are stored")
	failed := meter.Count("roost.region.reminders.failed", "{firing}", "firings of reminders whose command has failed and will run again")
	obsolete := meter.Count("roost.region.reminders.obsolete", "{firing}", "firings of reminders that the journal refused, because the reminder had already fired, or had been changed or removed")
	unread := meter.Count("roost.region.reminders.reads.failed", "{read}", "reads of reminders that have failed. The reminders fire later")
	sends := meter.Gauge("roost.region.sends.held", "{send}", "sends (commands from one entity to another) in memory. A send stays in memory until its end is stored")
	sendBytes := meter.Gauge("roost.region.sends.bytes", "By", "size of the sends in memory, including answers that their senders have not taken yet")
	sendsFailing := meter.Gauge("roost.region.sends.failing", "{pair}", "pairs of a sender and a target whose next send has failed and will be repeated, by the type of the sender")
	sendsDelivered := meter.Count("roost.region.sends.delivered", "{send}", "sends that were answered. If a sender wants the answer, its send counts when the sender has taken the answer")
	sendsDead := meter.Count("roost.region.sends.dead", "{send}", "sends that have become dead letters, because they were refused, or because their outcome is in doubt")
	sendsInDoubt := meter.Count("roost.region.sends.in_doubt", "{send}", "sends that have become dead letters although they may have had their effect")
	sendsFailed := meter.Count("roost.region.sends.failed", "{attempt}", "failed attempts to deliver a send, or to give its answer to the sender. Each attempt will be repeated")
	sendsObsolete := meter.Count("roost.region.sends.obsolete", "{answer}", "answers to sends that the region dropped, because the sender had already taken the answer, or because the sender was deleted meanwhile")
	sendsUnread := meter.Count("roost.region.sends.reads.failed", "{read}", "reads of sends that have failed. The sends are delivered later")
	starting := meter.Gauge("roost.region.remembered.starting", "{entity}", "remembered entities that are being started")
	startsFailing := meter.Gauge("roost.region.remembered.failing", "{entity}", "remembered entities that could not be started, or have died, and will be started again, by type")
	started := meter.Count("roost.region.remembered.started", "{entity}", "remembered entities that the region has started without a command, because their shard has started")
	startFailed := meter.Count("roost.region.remembered.failed", "{start}", "starts of remembered entities that have failed and will be tried again")
	startUnread := meter.Count("roost.region.remembered.reads.failed", "{read}", "reads of the list of remembered entities that have failed. The entities are started later")
	purges := meter.Count("roost.region.purges.done", "{purge}", "purges of deleted entities that the journal has carried out. A purge removes records, or finds that it is too early to remove them")
	purgesFailed := meter.Count("roost.region.purges.failed", "{operation}", "purges of deleted entities that have failed, and failed reads of the list of deleted entities. Each will be repeated")
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
		o.ObserveInt64(soon, int64(wakeups.Wakes))
		o.ObserveInt64(overdue, int64(wakeups.Overdue.Seconds()))
		o.ObserveInt64(fired, int64(wakeups.Fired))
		o.ObserveInt64(failed, int64(wakeups.Failed))
		o.ObserveInt64(obsolete, int64(wakeups.Obsolete))
		o.ObserveInt64(unread, int64(wakeups.ReadsFailed))
		o.ObserveInt64(purges, int64(c.purges.Purges))
		o.ObserveInt64(purgesFailed, int64(c.purges.Failed))
		o.ObserveInt64(purgesFailing, int64(c.purges.Failing))
		o.ObserveInt64(shards, int64(held))
		byType.observe(o, types)
		running := s.longestTurns(time.Now())
		for typ := range s.types { // order-free: series
			of := metric.WithAttributes(typeAttribute(typ))
			o.ObserveInt64(failing, int64(c.failing.reminders[typ]), of)
			o.ObserveInt64(sendsFailing, int64(c.failing.sends[typ]), of)
			o.ObserveInt64(startsFailing, int64(c.failing.starts[typ]), of)
			o.ObserveInt64(longest, int64(running[typ]/time.Second), of)
		}
		o.ObserveInt64(loads, int64(st.Loads))
		o.ObserveInt64(waiting, int64(st.Commands))
		o.ObserveInt64(activations, int64(st.Activations))
		o.ObserveInt64(unknown, int64(st.Unknown))
		o.ObserveInt64(duplicates, int64(st.Duplicates))
		o.ObserveInt64(abandoned, int64(st.Abandoned))
		o.ObserveInt64(lost, int64(st.FailedUnwatched))
		return nil
	})
}

// counts are the counts of one shard core, or their sums over several.
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

// counts asks all shard cores for their counts, and returns the sums.
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

// longestTurns returns, by entity type, how long the handler has been running that runs longest. It leaves out
// handlers that wait for another entity: if that one is stuck, it counts itself.
func (s *Runner) longestTurns(now time.Time) map[sharding.EntityType]time.Duration {
	longest := map[sharding.EntityType]time.Duration{}
	for _, l := range s.shards {
		l.pool.HeldUp(func(j work, since time.Time) {
			if j.run == nil || j.ctx.asking.Load() > 0 {
				return
			}
			typ := j.run.Entity.Type
			longest[typ] = max(longest[typ], now.Sub(since))
		})
	}
	return longest
}

// failingTypes counts failing reminders, failing pairs of a sender and a target, and failing starts
// of remembered entities, by entity type.
type failingTypes struct{ reminders, sends, starts map[sharding.EntityType]int }

// add adds the counts o of another shard core to f.
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

func (s *shared) journalObserver() commit.Observer {
	return commit.Observer{
		Batch: func(b commit.BatchStats) {
			s.telemetry.commit.Record(b.Took.Seconds())
			s.telemetry.batch.Record(float64(b.Ops))
			if b.Err != nil {
				s.telemetry.notCommitted.Add(s.ctx, 1, commitFailed(commit.Reason(b.Err)))
			}
		},
		Op: func(o commit.OpStats) {
			switch {
			case isJournalTest(&o.Op):
			case o.Result.Verdict == sharding.RefusedEpoch:
				s.telemetry.fenced.Add(s.ctx, 1, operation(o.Op.Kind()))
			case o.Result.Verdict == sharding.RefusedDamaged:
				s.telemetry.damaged.Add(s.ctx, 1, operation(o.Op.Kind()))
			}
		},
		Load: func(l commit.LoadStats) {
			switch {
			case errors.Is(l.Err, journal.ErrCorrupt):
				s.telemetry.damaged.Add(s.ctx, 1, operation("load"))
			case l.Err == nil && !l.Request.LookupOnly:
				typ := l.Request.Entity.Type // the type of journal tests and journal heartbeats has no series
				s.telemetry.load[typ].Record(l.Took.Seconds())
				s.telemetry.replay[typ].Record(float64(l.Records))
			}
		},
		Damage: func(d journal.Damaged) {
			s.damage.add(time.Now(), d)
			journalDamage(s.log, d)
		},
		Upkeep:  func(err error) { journalUpkeep(s.log, err) },
		Failing: func(database int, p commit.Path, err error) { journalFails(s.log, database, p, err) },
		Down: func(database int, err error) {
			if was := s.telemetry.databaseDown.Set(strconv.Itoa(database), err != nil); was || err != nil {
				databaseDown(s.log, database, err)
			}
		},
	}
}

func operation(kind string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("roost.journal.operation", kind))
}

// journalDamage logs which data in the journal are damaged, and what the damage means for commands.
func journalDamage(log *slog.Logger, d journal.Damaged) {
	if d.Entity == (sharding.Entity{}) {
		log.Error("the stored epoch of a shard is damaged", "hint", "its commands are refused until it can be read again", "shard", d.Shard, "error", d.Err)
		return
	}
	log.Error("stored data of an entity is damaged", "hint", "its commands are refused with data_loss until it can be read again",
		"entity.type", d.Entity.Type, "entity.id", d.Entity.ID, "error", d.Err)
}

// journalUpkeep logs that the upkeep of the journal has failed or, if err is nil, works again.
func journalUpkeep(log *slog.Logger, err error) {
	if err != nil {
		log.Error("maintenance of the journal failed, retrying", "error", err)
		return
	}
	log.Info("the upkeep of the journal works again")
}

// journalFails logs that the commits or reads of a database fail or, if err is nil, succeed again.
func journalFails(log *slog.Logger, database int, p commit.Path, err error) {
	if err != nil {
		log.Error("the journal fails", "database", database, "of", p.String(), "reason", commit.Reason(err), "error", err)
		return
	}
	log.Info("the journal succeeds again", "database", database, "of", p.String())
}

// commitFailed returns the series of failed commits with a reason.
func commitFailed(reason string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("roost.journal.reason", reason))
}

// commitsFailed returns all series of failed commits.
func commitsFailed() (series []metric.AddOption) {
	for _, reason := range commit.Reasons() {
		series = append(series, commitFailed(reason))
	}
	return series
}

// databaseDown logs that a database of the journal does not answer or, if err is nil, answers again.
func databaseDown(log *slog.Logger, database int, err error) {
	if err != nil {
		log.Error("a database of the journal does not answer", "hint", "commands of its types are refused, others are not", "database", database, "error", err)
		return
	}
	log.Info("a database of the journal answers again", "database", database)
}

// traceContext returns a context that continues the trace of a command's sender.
func (s *shared) traceContext(traceparent string) context.Context {
	if traceparent == "" {
		return s.ctx
	}
	return propagation.TraceContext{}.Extract(s.ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// observe records the durations of an answered command. If the trace of the command is sampled,
// observe also records a span for the command, with one span each for mailbox, handler and journal.
// The core has measured the durations of these spans.
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
	if r.Outcome != sharding.Executed {
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

// attributeKey holds the attributes of an answered command.
type attributeKey struct {
	typ     sharding.EntityType
	command string
	code    sharding.Code
	outcome sharding.Outcome // counts only if code is empty
}

// end returns the attribute with the code of the answer: "ok" without one.
func (k *attributeKey) end() attribute.KeyValue {
	code := string(k.code)
	switch {
	case code != "":
	case k.outcome == sharding.Executed:
		code = "ok"
	default:
		code = string(sharding.Internal)
	}
	return attribute.String("roost.code", code)
}

// measures are the series in which commands with the same attributes are counted.
type measures struct{ command, mailbox *histogram.Series }

// measures returns the series for the attributes k. Many commands of one kind follow each other, so
// the loop remembers the last attributes and their series.
func (s *shardLoop) measures(k attributeKey) *measures {
	if s.lastMeasures != nil && s.lastAttributes == k {
		return s.lastMeasures
	}
	named := k
	if _, known := s.types[k.typ]; !known {
		named.typ, named.command = "", "" // a name that only a client has chosen must not become an attribute
	} else if _, known := s.commands[k.typ][k.command]; !known {
		named.command = ""
	}
	if k.code != "" {
		named.outcome = 0
		if !slices.Contains(sharding.Codes(), k.code) { // a code that only the entity's author has chosen must not become an attribute
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
