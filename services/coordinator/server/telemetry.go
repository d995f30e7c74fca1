package server

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

const scope = "github.com/roost-cluster/roost/services/coordinator"

// telemetry is what is counted as it happens; the rest is read from the core.
type telemetry struct {
	handoff metric.Float64Histogram
	moves   metric.Int64Counter
	fenced  metric.Int64Counter
	// noSnapshot counts snapshots of the facts that were not stored.
	noSnapshot metric.Int64Counter
	// refused counts calls that found no room in the inbox, and dropped messages to
	// regions that found none in the outbox.
	refused, dropped metric.Int64Counter
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
				s.telemetry.handoff.Record(s.ctx, time.Since(since).Seconds(),
					metric.WithAttributes(attribute.String("roost.entity.type", string(shard.Type))))
			}
		}
	}
}

func (s *Server) journalObserver() journal.Observer {
	return journal.Observer{
		Op: func(o journal.OpStats) {
			if o.Result.Verdict == sharding.RefusedEpoch {
				s.telemetry.fenced.Add(s.ctx, 1, metric.WithAttributes(attribute.String("roost.journal.operation", o.Op.Kind())))
			}
		},
		Damage: func(d journal.Damaged) {
			if d.Entity == streamEntity || d.Entity == (sharding.Entity{}) && d.Shard == streamShard { // no probe, and no journal heartbeat
				s.log.Error("the stored facts of the coordinator are damaged: no shard moves until they can be read again; entities are served where they are",
					"shard", d.Shard, "error", d.Err)
				return
			}
			s.log.Error("what the coordinator has in the journal beside its facts is damaged", "shard", d.Shard, "entity.id", d.Entity.ID, "error", d.Err)
		},
		Upkeep: func(err error) {
			if err != nil {
				s.log.Error("the journal works, but not its upkeep, which is tried again", "error", err)
				return
			}
			s.log.Info("the upkeep of the journal works again")
		},
	}
}

// instrument registers what the coordinator tells about itself.
func (s *Server) instrument(mp metric.MeterProvider) error {
	meter := mp.Meter(scope)
	var err error
	if s.telemetry.handoff, err = meter.Float64Histogram("roost.shard.handoff.duration", metric.WithUnit("s"),
		metric.WithDescription("time from the decision to move a shard until it is served again")); err != nil {
		return err
	}
	if s.telemetry.moves, err = meter.Int64Counter("roost.coordinator.rebalance.moves", metric.WithUnit("{shard}"),
		metric.WithDescription("shards told to move: rebalanced, drained, or their region leaves")); err != nil {
		return err
	}
	if s.telemetry.fenced, err = meter.Int64Counter("roost.journal.fenced", metric.WithUnit("{operation}"),
		metric.WithDescription("claims, appends and snapshots of the facts that the journal refused, because another coordinator is active")); err != nil {
		return err
	}
	if s.telemetry.noSnapshot, err = meter.Int64Counter("roost.coordinator.snapshot.failures", metric.WithUnit("{snapshot}"),
		metric.WithDescription("snapshots of the facts that the journal did not store; each is tried again")); err != nil {
		return err
	}
	if s.telemetry.refused, err = meter.Int64Counter("roost.coordinator.calls.refused", metric.WithUnit("{call}"),
		metric.WithDescription("calls refused because too many waited for the coordinator; callers repeat them")); err != nil {
		return err
	}
	if s.telemetry.dropped, err = meter.Int64Counter("roost.coordinator.messages.dropped", metric.WithUnit("{message}"),
		metric.WithDescription("messages to regions left out because too many waited for the same region; each is repeated")); err != nil {
		return err
	}
	var errs error
	gauge := func(name, unit, help string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
		if err != nil {
			errs = err
		}
		return g
	}
	leader := gauge("roost.coordinator.leader", "{coordinator}", "1 at the active coordinator")
	term := gauge("roost.coordinator.term", "{term}", "term of the active coordinator, 0 at a standby")
	regions := gauge("roost.coordinator.regions", "{region}", "regions that are members")
	allocated := gauge("roost.shard.allocated", "{shard}", "shards with an owner")
	unallocated := gauge("roost.shard.unallocated", "{shard}", "shards that have no owner, those never asked for included")
	moving := gauge("roost.shard.moving", "{shard}", "shards that start or hand off")
	watches := gauge("roost.coordinator.watches", "{watch}", "calls that wait for an answer, most of them watches that wait for a change of the table")
	held := gauge("roost.coordinator.held", "{output}", "facts that are not stored yet, and what must not be told before they are")
	if errs != nil {
		return errs
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		if s.ctx.Err() != nil {
			return nil // the loop has ended; the last report has what is counted elsewhere
		}
		return s.look(ctx, func() error {
			v := s.core.View()
			o.ObserveInt64(leader, active(v))
			o.ObserveInt64(term, int64(s.core.Active()))
			o.ObserveInt64(regions, int64(len(v.Regions)))
			owned, moves, all := 0, 0, 0
			for _, t := range v.Types {
				all += int(t.Shards)
			}
			for _, r := range v.Rows {
				if !r.Owner.IsZero() {
					owned++
				}
				if r.Phase != sharding.Serving {
					moves++
				}
			}
			o.ObserveInt64(allocated, int64(owned))
			o.ObserveInt64(unallocated, int64(all-owned))
			o.ObserveInt64(moving, int64(moves))
			o.ObserveInt64(watches, int64(s.calls.Len()))
			if s.core.Active() != 0 {
				outputs, _, _ := s.core.Held()
				o.ObserveInt64(held, int64(outputs))
			}
			return nil
		})
	}, leader, term, regions, allocated, unallocated, moving, watches, held)
	return err
}

func active(v coordinator.View) int64 {
	if v.Active {
		return 1
	}
	return 0
}
