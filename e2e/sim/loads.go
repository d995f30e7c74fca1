package sim

import (
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
	"github.com/roost-cluster/roost/services/region"
)

// In some worlds shards move because of their loads. The regions measure what the commands of the
// clients make their entities do.

const (
	loadCooldown = 3 * sec
	loadReport   = 4 * sec
)

// drawStrategy reports whether shards move because of their loads in this world.
func (w *World) drawStrategy() { w.byLoad = w.dice("load").chance(0.3) }

// configureMovesByLoad has a coordinator move shards because of their loads, which are small here.
func (w *World) configureMovesByLoad(cfg *coordinator.Config) {
	if w.byLoad {
		cfg.Strategy = allocation.LeastLoad{Tolerance: 0.2, Hysteresis: 0.1, Weights: allocation.Weights{Command: 0.01}, MoveMiB: 1, AbsoluteLimit: 8}
		cfg.LoadCooldown, cfg.LoadReport = nanos(loadCooldown), nanos(loadReport)
	}
}

// configureLoadReports has a region report loads often, and few shards by themselves.
func (w *World) configureLoadReports(cfg *region.Config) {
	if w.byLoad {
		cfg.LoadInterval, cfg.LoadHalfLife, cfg.LoadShards, cfg.LoadFull = nanos(300*ms), nanos(sec), 4, 4
	}
}

// loadChecks are the facts about a coordinator's term, and the load reports that it received.
type loadChecks struct {
	since   time.Time // when the term began
	reports map[sharding.NodeID]int
	last    map[sharding.NodeID]time.Time
}

func (c *coordNode) beginLoads() {
	c.loads = loadChecks{since: c.p.now(), reports: map[sharding.NodeID]int{}, last: map[sharding.NodeID]time.Time{}}
}

// noteLoad counts a report that a coordinator is about to take. It may count one that the
// coordinator ignores.
func (c *coordNode) noteLoad(from sharding.NodeID, m control.Message) {
	if _, ok := m.(control.ReportLoad); ok && c.loads.reports != nil {
		c.loads.reports[from]++
		c.loads.last[from] = c.p.now()
	}
}

// planned gives the core a plan, and checks it and each move because of load that begins.
func (c *coordNode) planned(o coordinator.Plan) {
	w, plan := c.w, o.Compute()
	if err := allocation.CheckPlan(o.Input, plan.Moves); err != nil {
		w.violate("plans keep the rules", "%s: %v", c.p.name, err)
	}
	wanted := map[sharding.ShardID]bool{}
	for _, m := range plan.Moves {
		if m.Reason == allocation.ReasonLoad {
			wanted[m.Shard] = true
		}
	}
	if len(wanted) == 0 {
		c.step(plan)
		return
	}
	begun := func(v *coordinator.View) (list []sharding.ShardID) {
		for _, r := range v.Rows {
			if r.Phase == sharding.HandingOff && wanted[r.Shard] {
				list = append(list, r.Shard)
			}
		}
		return list
	}
	term := c.core.ActiveTerm()
	before := c.core.View()
	c.step(plan)
	after := c.core.View()
	if term == 0 || after.Term != term {
		return
	}
	was := begun(&before)
	for _, s := range begun(&after) {
		if !slices.Contains(was, s) {
			w.mark("shard moves because of load")
			c.checkLoadMove(&before, s)
		}
	}
}

// checkLoadMove checks a shard that begins to move because of its load.
func (c *coordNode) checkLoadMove(v *coordinator.View, s sharding.ShardID) {
	w, now := c.w, c.p.now()
	// The journal's clock and the coordinator's differ by a little.
	if arrived, moved := w.journal.arrived[s]; moved && w.now-arrived < loadCooldown*98/100 {
		w.violate("no shard moves because of load within its cool-down", "%s moves %v, which has come %d ms ago", c.p.name, s, (w.now-arrived)/ms)
	}
	if now.Sub(c.loads.since) < nanos(loadCooldown) {
		w.violate("no shard moves because of load at the beginning of a term", "%s moves %v, %v after its term %d has begun", c.p.name, s, now.Sub(c.loads.since), v.Term)
	}
	for _, r := range v.Regions {
		if !r.Registered {
			continue
		}
		if n := c.loads.reports[r.Node]; n < 2 {
			w.violate("nothing moves because of load before each region has reported twice", "%s moves %v, and %s has reported %d times", c.p.name, s, r.Name, n)
		}
		if ago := now.Sub(c.loads.last[r.Node]); ago >= nanos(loadReport) {
			w.violate("nothing moves because of loads that are old", "%s moves %v, and %s has reported %v ago", c.p.name, s, r.Name, ago)
		}
	}
}

// arrives notes, by the facts, when a shard comes to another owner: when the coordinator decides
// so, because it counts from then, and the journal may take the fact much later.
func (s *store) arrives(f coordinator.RowFact) {
	if last := s.newest[f.Row.Shard]; !f.Row.Owner.IsZero() && f.Row.Owner != last.Owner && f.Row.Epoch > last.Epoch {
		at, known := s.w.explanations.givenAt[f.Row.Epoch]
		if !known {
			at = s.w.now
		}
		s.arrived[f.Row.Shard] = at
	}
}
