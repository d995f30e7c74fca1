package server

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/node"
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
	// lost counts decisions that were not kept; lostBefore is how many were counted.
	lost       metric.Int64Counter
	lostBefore uint64
}

// countLost counts the decisions that were not kept, of which there are n now.
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
	meter := node.NewInstruments(mp.Meter(scope))
	s.telemetry.handoff = meter.Histogram("roost.shard.handoff.duration", "s",
		"time from the decision to move a shard until a region serves the shard again")
	s.telemetry.moves = meter.Counter("roost.coordinator.rebalance.moves", "{shard}",
		"shards that the coordinator has ordered to move: for balance, for a drain, or because their region leaves")
	s.telemetry.fenced = meter.Counter("roost.journal.fenced", "{operation}",
		"operations on the facts that the journal refused because another coordinator is active: claims, appends and snapshots")
	s.telemetry.noSnapshot = meter.Counter("roost.coordinator.snapshot.failures", "{snapshot}",
		"snapshots of the facts that the journal did not store. Each will be tried again")
	s.telemetry.refused = meter.Counter("roost.coordinator.calls.refused", "{call}",
		"calls that the coordinator refused, because too many calls were waiting. Callers repeat them")
	s.telemetry.dropped = meter.Counter("roost.coordinator.messages.dropped", "{message}",
		"messages to regions that the coordinator dropped, because too many messages to the same region were waiting. Each will be repeated")
	s.telemetry.lost = meter.Counter("roost.coordinator.decisions.dropped", "{decision}",
		"decisions that roost why cannot show, because too many decisions were waiting to be stored, or because the term ended")
	leader := meter.Gauge("roost.coordinator.leader", "{coordinator}", "1 at the active coordinator, 0 at a standby")
	term := meter.Gauge("roost.coordinator.term", "{term}", "term of the active coordinator, 0 at a standby")
	regions := meter.Gauge("roost.coordinator.regions", "{region}", "regions that are members of the cluster")
	allocated := meter.Gauge("roost.shard.allocated", "{shard}", "shards that have an owner")
	unallocated := meter.Gauge("roost.shard.unallocated", "{shard}", "shards that have no owner, including shards for which no command has come yet")
	moving := meter.Gauge("roost.shard.moving", "{shard}", "shards that are being started or handed off")
	budget := meter.Gauge("roost.coordinator.moves.budget", "%", "percentage of the limits that voluntary moves may use. Usually 100; less after commands were slow; 0 while voluntary moves are stopped, or are tried one at a time")
	unread := meter.Gauge("roost.shard.unreadable", "{shard}", "shards whose commands are refused, because no region can read their stored data; see roost shards")
	watches := meter.Gauge("roost.coordinator.watches", "{watch}", "calls that wait for an answer. Most of them are watches that wait for a change of the route table")
	held := meter.Gauge("roost.coordinator.held", "{output}", "facts that are not stored yet, plus outputs that must wait until those facts are stored")
	return meter.Observe(func(ctx context.Context, o metric.Observer) error {
		if s.ctx.Err() != nil {
			return nil // the loop has ended; the last export has only the metrics that do not come from it
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
				if r.Phase != sharding.Serving && r.Reason == 0 {
					moves++
				}
			}
			o.ObserveInt64(allocated, int64(owned))
			o.ObserveInt64(unallocated, int64(all-owned))
			o.ObserveInt64(moving, int64(moves))
			unreadable := 0
			for _, u := range v.Unreadable {
				unreadable += len(u.Shards)
			}
			o.ObserveInt64(unread, int64(unreadable))
			o.ObserveInt64(watches, int64(s.calls.Len()))
			if s.core.Active() != 0 {
				o.ObserveInt64(budget, part(v.Brake))
				outputs, _, _ := s.core.Held()
				o.ObserveInt64(held, int64(outputs))
			}
			return nil
		})
	})
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
