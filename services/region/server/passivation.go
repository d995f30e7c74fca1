package server

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	nodetelemetry "github.com/roost-cluster/roost/libs/node/telemetry"
	"github.com/roost-cluster/roost/libs/passivation"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/turn"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region"
)

// strategies returns the strategy of each type of this binary: the configured one, or the one in its code.
func (c *Config) strategies(types []entity.Definition) (map[sharding.EntityType]passivation.Strategy, error) {
	all := map[sharding.EntityType]passivation.Strategy{}
	var errs []error
	for _, t := range types {
		d, err := entity.Describe(t)
		errs = append(errs, err)
		all[d.Desc.Type] = d.Passivation
	}
	for _, name := range slices.Sorted(maps.Keys(c.Passivation)) {
		typ := sharding.EntityType(name)
		if _, known := all[typ]; !known {
			errs = append(errs, fmt.Errorf("region.passivation names %s; this binary has %v", name, slices.Sorted(maps.Keys(all))))
			continue
		}
		s, err := passivation.Parse(c.Passivation[name])
		errs = append(errs, err)
		all[typ] = s
	}
	return all, errors.Join(errs...)
}

// checkPassivation returns an error for each strategy that cannot be read.
func (c *Config) checkPassivation() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Passivation)) {
		if _, err := passivation.Parse(c.Passivation[name]); err != nil {
			errs = append(errs, fmt.Errorf("region.passivation of %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// reread puts into effect what has changed in the configuration file.
func (s *Server) reread(c *Config, types []entity.Definition) error {
	strategies, err := c.strategies(types)
	if err != nil {
		return err
	}
	s.runner.SetPassivation(strategies)
	return nil
}

// SetPassivation gives types other strategies.
func (s *Runner) SetPassivation(strategies map[sharding.EntityType]passivation.Strategy) {
	for _, d := range s.descs {
		if strategy, ok := strategies[d.Desc.Type]; ok {
			for _, l := range s.shards {
				l.put(item{in: region.SetPassivation{Type: d.Desc.Type, Strategy: strategy}})
			}
		}
	}
}

// heapBytes is the share of the memory limit of this process; 0 if there is no limit.
func heapBytes(share float64) uint64 {
	limit := debug.SetMemoryLimit(-1) // it changes nothing
	if limit == math.MaxInt64 {
		return 0
	}
	return uint64(share * float64(limit))
}

// heap is the last sample of the heap.
type heap struct {
	cycle   uint64
	samples [2]metrics.Sample
}

// lookAtHeap tells the shard cores of a collection of garbage that has ended since the last
// look.
func (s *Runner) lookAtHeap() {
	if s.cfg.Turn.HeapBytes == 0 {
		return
	}
	h := &s.heap
	h.samples[0].Name, h.samples[1].Name = "/gc/cycles/total:gc-cycles", "/gc/heap/live:bytes"
	metrics.Read(h.samples[:])
	cycle := h.samples[0].Value.Uint64()
	if cycle == h.cycle {
		return
	}
	h.cycle = cycle
	for _, l := range s.shards {
		l.put(item{in: turn.Collected{Cycle: cycle, Live: h.samples[1].Value.Uint64()}})
	}
}

// typeGauges are the metrics of entities by type.
type typeGauges struct {
	active, limit, bytes, passivations metric.Int64Observable
}

func newTypeGauges(meter *nodetelemetry.Instruments) typeGauges {
	return typeGauges{
		active:       meter.Gauge("roost.entity.active", "{entity}", "entities that are alive or being loaded"),
		limit:        meter.Gauge("roost.entity.limit", "{entity}", "the most entities of a type that may be alive, because of the strategy of the type and because of memory. Absent: not limited"),
		bytes:        meter.Gauge("roost.entity.bytes", "By", "memory of the entities that report their size"),
		passivations: meter.Count("roost.entity.passivations", "{passivation}", "entities that the region has stopped to free memory. roost.reason is idle, limit, memory or asked; asked: the entity wanted to be stopped"),
	}
}

func (g *typeGauges) observe(o metric.Observer, stats []turn.TypeStats) {
	for i := range stats {
		st := &stats[i]
		typ := typeAttribute(st.Type)
		o.ObserveInt64(g.active, int64(st.Entities), metric.WithAttributes(typ))
		if st.Limit > 0 {
			o.ObserveInt64(g.limit, int64(st.Limit), metric.WithAttributes(typ))
		}
		o.ObserveInt64(g.bytes, int64(st.Bytes), metric.WithAttributes(typ))
		p := &st.Passivations
		for reason, n := range map[string]uint64{"idle": p.Idle, "limit": p.Limit, "memory": p.Memory, "asked": p.Asked} { // order-free: series
			o.ObserveInt64(g.passivations, int64(n), metric.WithAttributes(typ, attribute.String("roost.reason", reason)))
		}
	}
}

// addTypeStats adds the counts of another shard core.
func addTypeStats(all, more []turn.TypeStats) []turn.TypeStats {
	if all == nil {
		return more
	}
	for i := range all {
		all[i].Add(&more[i])
	}
	return all
}

// sizeOf returns the size that an entity tells; 0 if telling it panics.
func sizeOf(inst *entity.Instance) (n int) {
	defer func() {
		if recover() != nil {
			n = 0
		}
	}()
	return inst.Size()
}
