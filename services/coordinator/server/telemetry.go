package server

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	nodetelemetry "github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/node/telemetry/histogram"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

const scope = "github.com/roost-cluster/roost/services/coordinator"

// telemetry holds the values that are counted as they happen; the rest is read from the core.
type telemetry struct {
	handoff *histogram.Histogram
	moves   metric.Int64Counter
	fenced  metric.Int64Counter
	// commit and batch measure the attempts to commit facts; notCommitted counts those that failed.
	commit, batch *histogram.Series
	notCommitted  metric.Int64Counter
	// databaseDown flags the databases of the journal that do not answer, if there are several.
	databaseDown *nodetelemetry.Flags
	// noCheckpoint counts checkpoints of the facts that were not stored.
	noCheckpoint metric.Int64Counter
	// refused counts calls that found no room in the inbox, and dropped messages to
	// regions that found none in the outbox.
	refused, dropped metric.Int64Counter
	// lost counts explanations that were not kept; lostBefore is the number already counted.
	lost       metric.Int64Counter
	lostBefore uint64
}

// countLost counts the explanations that were not kept; n is their number now.
func (t *telemetry) countLost(ctx context.Context, n uint64) {
	t.lost.Add(ctx, int64(n-t.lostBefore))
	t.lostBefore = n
}

// measure takes the time of handoffs: from the fact that a shard hands off to
// the one that it is served again.
func (s *Server) measure(facts []coordinator.Fact) {
	for _, f := range facts {
		row, ok := f.(coordinator.RowFact)
		if !ok {
			continue
		}
		shard := row.Row.Shard
		switch row.Row.Phase {
		case sharding.HandingOff:
			s.moves[shard] = time.Now()
			s.telemetry.moves.Add(s.ctx, 1)
		case sharding.Serving:
			if since, ok := s.moves[shard]; ok {
				delete(s.moves, shard)
				s.telemetry.handoff.With(typeAttribute(shard.Type)).Record(time.Since(since).Seconds())
			}
		}
	}
}

func (s *Server) journalObserver() commit.Observer {
	return commit.Observer{
		Batch: func(b commit.BatchStats) {
			s.telemetry.commit.Record(b.Took.Seconds())
			s.telemetry.batch.Record(float64(b.Ops))
			if b.Err != nil {
				s.telemetry.notCommitted.Add(s.ctx, 1, commitFailed(commit.Reason(b.Err)))
			}
		},
		Op: func(o commit.OpStats) {
			if o.Result.Verdict == sharding.RefusedEpoch {
				s.telemetry.fenced.Add(s.ctx, 1, operation(o.Op.Kind()))
			}
		},
		Damage: func(d journal.Damaged) {
			if d.Entity == streamEntity || d.Entity == (sharding.Entity{}) && d.Shard == streamShard { // no test, and no journal heartbeat
				s.log.Error("stored facts are damaged", "hint", "no shard moves until they can be read again; entities are served where they are",
					"shard", d.Shard, "error", d.Err)
				return
			}
			s.log.Error("other journal data of the coordinator is damaged", "shard", d.Shard, "entity.id", d.Entity.ID, "error", d.Err)
		},
		Upkeep: func(err error) {
			if err != nil {
				s.log.Error("maintenance of the journal failed, retrying", "error", err)
				return
			}
			s.log.Info("the upkeep of the journal works again")
		},
		Failing: func(database int, p commit.Path, err error) {
			if err != nil {
				s.log.Error("the journal fails", "database", database, "of", p.String(), "reason", commit.Reason(err), "error", err)
				return
			}
			s.log.Info("the journal succeeds again", "database", database, "of", p.String())
		},
		Down: func(database int, err error) {
			was := s.telemetry.databaseDown.Set(strconv.Itoa(database), err != nil)
			switch {
			case err != nil:
				s.log.Warn("a database of the journal does not answer", "hint", "operators see none of its entities", "database", database, "error", err)
			case was:
				s.log.Info("a database of the journal answers again", "database", database)
			}
		},
	}
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

// instrument registers what the coordinator tells about itself.
func (s *Server) instrument(mp metric.MeterProvider, histograms *histogram.Registry) error {
	meter := nodetelemetry.NewInstruments(mp.Meter(scope))
	s.telemetry.handoff = histograms.New(histogram.Desc{
		Scope: scope, Name: "roost.shard.handoff.duration", Unit: "s", Bounds: histogram.Seconds,
		Description: "time from the decision to move a shard until a region serves the shard again",
	})
	s.telemetry.commit = histograms.New(histogram.Desc{
		Scope: scope, Name: "roost.journal.append.duration", Unit: "s", Bounds: histogram.Seconds,
		Description: "time that one group commit takes, also one that fails",
	}).With().Declare()
	s.telemetry.batch = histograms.New(histogram.Desc{
		Scope: scope, Name: "roost.journal.batch.size", Unit: "{operation}", Bounds: histogram.Numbers,
		Description: "number of operations in one group commit",
	}).With().Declare()
	s.telemetry.notCommitted = meter.Counter("roost.journal.commits.failed", "{commit}",
		"group commits that have failed, by reason. Most are tried again", commitsFailed()...)
	s.telemetry.databaseDown = meter.Flags("roost.journal.database.down", "{database}",
		"1 for each database of the journal that does not answer this process, 0 for the others. A journal in one database has only 0: see roost.journal.commits.failed", "roost.journal.database")
	s.telemetry.moves = meter.Counter("roost.coordinator.rebalance.moves", "{shard}",
		"shards that the coordinator has ordered to move: for balance, for a drain, or because their region leaves")
	s.telemetry.fenced = meter.Counter("roost.journal.fenced", "{operation}",
		"operations on the facts that the journal refused because another coordinator is active: claims, appends and checkpoints",
		operation("claim"), operation("append"), operation("checkpoint"))
	s.telemetry.noCheckpoint = meter.Counter("roost.coordinator.checkpoint.failures", "{checkpoint}",
		"checkpoints of the facts that the journal did not store. Each will be tried again")
	s.telemetry.refused = meter.Counter("roost.coordinator.calls.refused", "{call}",
		"calls that the coordinator refused, because too many calls were waiting. Callers repeat them")
	s.telemetry.dropped = meter.Counter("roost.coordinator.messages.dropped", "{message}",
		"messages to regions that the coordinator dropped, because too many messages to the same region were waiting. Each will be repeated")
	s.telemetry.lost = meter.Counter("roost.coordinator.decisions.dropped", "{decision}",
		"decisions that roost shard show cannot show, because too many decisions were waiting to be stored, or because the term ended")
	leader := meter.Gauge("roost.coordinator.leader", "{coordinator}", "1 at the active coordinator, 0 at a standby")
	term := meter.Gauge("roost.coordinator.term", "{term}", "term of the active coordinator, 0 at a standby")
	regions := meter.Gauge("roost.coordinator.regions", "{region}", "regions that are members of the cluster")
	allocated := meter.Gauge("roost.shard.allocated", "{shard}", "shards that have an owner which is here")
	unused := meter.Gauge("roost.shard.unused", "{shard}", "shards that were never allocated, because no command has come for them, or because no region has ever hosted their type")
	unallocated := meter.Gauge("roost.shard.unallocated", "{shard}", "shards that have lost their owner and have no other one, because no region can take them. The route table may still name the owner that was lost. Unreadable shards are counted apart")
	moving := meter.Gauge("roost.shard.moving", "{shard}", "shards that are being started or handed off")
	budget := meter.Gauge("roost.coordinator.moves.budget", "%", "percentage of the limits that voluntary moves may use. Usually 100; less after commands were slow; 0 while voluntary moves are stopped, or are tried one at a time. Only the active coordinator has it")
	unread := meter.Gauge("roost.shard.unreadable", "{shard}", "shards whose commands are refused, because no region can read their stored data; see roost shard ls")
	broken := meter.Gauge("roost.shard.constraint_broken", "{shard}", "shards that are at regions where a constraint does not want them: beyond the capacity of a region, not where they are pinned, given to a region that is cordoned, or beyond the share of a zone. Counted every 5 s, as if all moves in progress had ended")
	quarantined := meter.Gauge("roost.entity.quarantined", "{entity}", "entities that do not run, because their commands ended regions or an operator has quarantined them; see roost entity quarantine")
	suspected := meter.Gauge("roost.entity.suspected", "{entity}", "entities that ran when a region ended. They run, but no two of them at the same time")
	behind := meter.Gauge("roost.coordinator.rollout.behind", "{region}", "regions that do not run the target version of a rollout, while another region does. 0 without a rollout")
	barred := meter.Gauge("roost.coordinator.rollout.unreadable", "{shard}", "shards that cannot move to the target version of a rollout, because no region of that version can read their stored data. 0 without a rollout")
	watches := meter.Gauge("roost.coordinator.watches", "{watch}", "calls that wait for an answer. Most of them are watches that wait for a change of the route table")
	held := meter.Gauge("roost.coordinator.held", "{output}", "facts that are not stored yet, plus outputs that must wait until those facts are stored")
	return meter.Observe(func(ctx context.Context, o metric.Observer) error {
		if s.ctx.Err() != nil {
			return nil // the loop has ended; the last export has only the metrics that do not come from it
		}
		return s.look(ctx, func() error {
			v := s.core.View()
			o.ObserveInt64(leader, active(v))
			o.ObserveInt64(term, int64(s.core.ActiveTerm()))
			o.ObserveInt64(regions, int64(len(v.Regions)))
			n := countShards(&v)
			o.ObserveInt64(allocated, n.allocated)
			o.ObserveInt64(unallocated, n.unallocated)
			o.ObserveInt64(unused, n.unused)
			o.ObserveInt64(moving, n.moving)
			o.ObserveInt64(unread, n.unreadable)
			for _, t := range v.Types {
				s.telemetry.handoff.With(typeAttribute(t.Type)).Declare()
			}
			for _, b := range v.Broken {
				o.ObserveInt64(broken, int64(b.Shards), metric.WithAttributes(attribute.String("roost.constraint", b.Constraint.String())))
			}
			for _, t := range v.Types {
				n := int64(0) // suspects
				for _, q := range t.Quarantined {
					if q.Suspect {
						n++
					}
				}
				o.ObserveInt64(quarantined, int64(len(t.Quarantined))-n, metric.WithAttributes(typeAttribute(t.Type)))
				o.ObserveInt64(suspected, n, metric.WithAttributes(typeAttribute(t.Type)))
			}
			left, unreadable := rolloutLeft(&v)
			o.ObserveInt64(behind, left)
			o.ObserveInt64(barred, unreadable)
			o.ObserveInt64(watches, int64(s.calls.Len()))
			if s.core.ActiveTerm() != 0 {
				o.ObserveInt64(budget, part(v.Brake))
				outputs, _, _ := s.core.Held()
				o.ObserveInt64(held, int64(outputs))
			}
			return nil
		})
	})
}

// shardCounts are counts of shards. Each shard is allocated, unallocated, unreadable or unused.
type shardCounts struct{ allocated, unallocated, unreadable, unused, moving int64 }

func countShards(v *coordinator.View) (n shardCounts) {
	here := map[sharding.NodeID]bool{} // regions that can serve
	for i := range v.Regions {
		r := &v.Regions[i]
		here[r.Node] = r.Registered && r.Reachable
	}
	for _, t := range v.Types {
		n.unused += int64(t.Shards)
	}
	n.unused -= int64(len(v.Rows))
	for _, r := range v.Rows {
		switch {
		case r.Reason == sharding.Unreadable:
			n.unreadable++
		case here[r.Owner] || !v.Recovered && !r.Owner.IsZero(): // until then, owners may still register
			n.allocated++
			if r.Phase != sharding.Serving {
				n.moving++
			}
		default:
			n.unallocated++
		}
	}
	return n
}

// rolloutLeft returns how many regions do not run the target version, and how many shards no
// region of that version reads, while a rollout is on.
func rolloutLeft(v *coordinator.View) (regions, unreadable int64) {
	if !v.Rollout.On {
		return 0, 0
	}
	for i := range v.Regions {
		if v.Regions[i].Version != v.Rollout.Target {
			regions++
		}
	}
	return regions, int64(v.Rollout.Unread)
}

func operation(kind string) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("roost.journal.operation", kind))
}

func typeAttribute(t sharding.EntityType) attribute.KeyValue {
	return attribute.String("roost.entity.type", string(t))
}

// part is the part of the budget that is left to voluntary moves, in percent.
func part(b coordinator.BrakeView) int64 {
	if b.State != coordinator.BrakeReleased {
		return 0
	}
	return int64(100 / b.Part)
}

func active(v coordinator.View) int64 {
	if v.Active {
		return 1
	}
	return 0
}
