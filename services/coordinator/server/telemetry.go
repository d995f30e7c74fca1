package server

import (
	"context"

	"go.opentelemetry.io/otel/metric"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

const scope = "github.com/roost-cluster/roost/services/coordinator"

// instrument registers what the coordinator tells about itself.
func (s *Server) instrument(mp metric.MeterProvider) error {
	meter := mp.Meter(scope)
	var errs error
	gauge := func(name, unit, help string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
		if err != nil {
			errs = err
		}
		return g
	}
	leader := gauge("roost.coordinator.leader", "1", "1 at the active coordinator")
	term := gauge("roost.coordinator.term", "1", "term of the active coordinator, 0 at a standby")
	regions := gauge("roost.coordinator.regions", "{region}", "regions that are members")
	allocated := gauge("roost.shard.allocated", "{shard}", "shards with an owner")
	moving := gauge("roost.shard.moving", "{shard}", "shards that start or hand off")
	watches := gauge("roost.coordinator.watches", "{watch}", "watches that wait for a change of the table")
	if errs != nil {
		return errs
	}
	_, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		return s.look(ctx, func() error {
			v := s.core.View()
			o.ObserveInt64(leader, active(v))
			o.ObserveInt64(term, int64(s.term))
			o.ObserveInt64(regions, int64(len(v.Regions)))
			owned, moves := 0, 0
			for _, r := range v.Rows {
				if !r.Owner.IsZero() {
					owned++
				}
				if r.Phase != sharding.Serving {
					moves++
				}
			}
			o.ObserveInt64(allocated, int64(owned))
			o.ObserveInt64(moving, int64(moves))
			o.ObserveInt64(watches, int64(len(s.watches)))
			return nil
		})
	}, leader, term, regions, allocated, moving, watches)
	return err
}

func active(v coordinator.View) int64 {
	if v.Active {
		return 1
	}
	return 0
}
