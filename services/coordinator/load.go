package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// What regions report of the loads of their shards is no fact: it is about this moment, and a
// new coordinator is told everything. A shard keeps the load that its last owner has reported
// until the new owner has measured it. So a shard that moves counts at once where it goes, and no
// longer where it was.

// regionLoad is what a region has reported of its load in this term.
type regionLoad struct {
	number  uint64    // of the newest report
	reports int       // how many there were, up to 2
	at      time.Time // of the newest report, or of the registration
	rest    sharding.Load
	node    control.NodeLoad
	told    bool // the log knows that the region reports nothing
}

// shardLoad is what is known of the load of a shard.
type shardLoad struct {
	sharding.Load
	by sharding.NodeID // who has reported it
}

// reportLoad takes the loads that a region reports, of shards that it owns.
func (m *Machine) reportLoad(from sharding.NodeID, call control.Call, in control.ReportLoad) {
	r := m.region(from)
	if r == nil || !r.registered {
		m.askAgain(call)
		return
	}
	defer m.reply(call, control.LoadAck{Term: m.term})
	l := &r.load
	if in.Number <= l.number {
		return
	}
	for _, t := range m.types {
		if t.loads != nil {
			m.forgetLoads(t, r, in.Full)
		}
	}
	for _, s := range in.Shards {
		t, row := m.find(s.Shard)
		if row != nil && row.Owner == from && row.Phase != sharding.HandingOff {
			m.setLoad(t, row, s.Load.Bounded(), from)
		}
	}
	l.number, l.reports, l.at, l.rest, l.node = in.Number, min(l.reports+1, 2), m.now, in.Rest.Bounded(), in.Node
}

// forgetLoads forgets those loads of a region's shards that a report replaces. A full report
// replaces all that the region has reported. What an earlier owner has reported of a shard counts
// until this owner has reported twice while it served the shard: the second of these reports is
// of a time in which the shard was served.
func (m *Machine) forgetLoads(t *typeTable, r *region, full bool) {
	for _, s := range t.shardsOf(r.node) {
		row, known := &t.rows[s.Index], t.loads[s.Index]
		if row.Phase == sharding.HandingOff {
			continue // what it did before that is what it will do elsewhere
		}
		measured := row.Phase == sharding.Serving && r.load.reports > 0 && !row.since.After(r.load.at) && !mutant.On("load-of-earlier-owner")
		if known.Load != (sharding.Load{}) && (known.by == r.node && full || known.by != r.node && measured) {
			m.setLoad(t, row, sharding.Load{}, r.node)
		}
	}
}

// setLoad notes the load of a shard.
func (m *Machine) setLoad(t *typeTable, r *row, load sharding.Load, by sharding.NodeID) {
	if t.loads == nil {
		t.loads, t.shown = make([]shardLoad, len(t.rows)), make([]allocation.ShardLoad, len(t.rows))
	}
	l := &t.loads[r.Shard.Index]
	m.shiftLoad(r.expected(), sharding.NodeID{}, l.Load)
	m.shiftLoad(sharding.NodeID{}, r.expected(), load)
	l.Load, l.by = load, by
	t.shown[r.Shard.Index].Load = allocation.LoadOf(load)
}

// shiftLoad moves a load from one region to another one in the sums of what regions have when
// what is under way has ended.
func (m *Machine) shiftLoad(from, to sharding.NodeID, load sharding.Load) {
	if load == (sharding.Load{}) || from == to {
		return
	}
	if m.loads == nil {
		m.loads = map[sharding.NodeID]sharding.Load{}
	}
	if !from.IsZero() {
		if m.loads[from] = m.loads[from].Minus(load); m.loads[from] == (sharding.Load{}) {
			delete(m.loads, from)
		}
	}
	if !to.IsZero() {
		m.loads[to] = m.loads[to].Plus(load)
	}
}

// loadOf is what is known of the load that a region has when what is under way has ended.
func (m *Machine) loadOf(r *region) allocation.Load {
	return allocation.LoadOf(m.loads[r.node].Plus(r.load.rest))
}

// measured reports whether the loads of all regions are known: each has reported twice, the
// last time not long ago. The first report may be of a time before the region had its shards.
func (m *Machine) measured() bool {
	return !slices.ContainsFunc(m.regions, func(r region) bool { return r.registered && !m.measuredOf(&r) })
}

func (m *Machine) measuredOf(r *region) bool {
	return (r.load.reports >= 2 || mutant.On("load-two-reports")) && (m.now.Sub(r.load.at) < m.cfg.LoadReport || mutant.On("load-fresh"))
}

// shardLoads are the loads of a type's shards; nil: too little is known.
func (m *Machine) shardLoads(t *typeTable) []allocation.ShardLoad {
	if !m.measured() {
		return nil
	}
	return t.shown
}

// cool notes which shards have come to their owners too short a time ago to move on because of
// their loads. At the beginning of a term all have: it does not know what has moved before.
func (m *Machine) cool(t *typeTable, loads []allocation.ShardLoad) {
	for i := range loads {
		loads[i].Cooling = m.now.Sub(t.rows[i].since) < m.cfg.LoadCooldown && !mutant.On("load-cooling")
	}
}

// tellUnmeasured tells the log, once for each region, that nothing moves because of load as
// long as the region reports none: it may be of an earlier release.
func (m *Machine) tellUnmeasured() {
	if !m.recovered || !m.cfg.byLoad() {
		return
	}
	for i := range m.regions {
		r := &m.regions[i]
		if r.registered && !r.load.told && m.now.Sub(r.load.at) >= m.cfg.LoadReport {
			r.load.told = true
			m.emit(NoLoad{Region: cmp.Or(r.name, r.node.Addr)})
		}
	}
}
