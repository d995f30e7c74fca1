package coordinator

import (
	"cmp"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Regions report the loads of their shards. Reports are not stored as facts: a report describes the
// present only, and regions report everything to a new coordinator. A shard keeps the load that its
// last owner reported until the new owner has measured the shard. So as soon as a move begins, the
// load of the shard is counted at the new region, and no longer at the old one.

// regionLoad holds a region's reports about its load in this term.
type regionLoad struct {
	number  uint64    // the number of the newest report
	reports int       // how many reports have arrived; counted up to 2
	at      time.Time // when the newest report arrived; before the first one: when the region registered
	rest    sharding.Load
	node    control.NodeLoad
	told    bool // it was logged that the region reports nothing
}

// shardLoad is the last known load of a shard.
type shardLoad struct {
	sharding.Load
	by sharding.NodeID // the region that reported the load
}

// reportLoad takes a region's report about the loads of its shards.
func (tr *transit) reportLoad(from sharding.NodeID, call control.Call, in control.ReportLoad) {
	r := tr.live.region(from)
	if r == nil || !r.registered {
		tr.term.askAgain(&tr.step, call)
		return
	}
	defer tr.reply(call, control.LoadAck{Term: tr.term.number})
	l := &r.load
	if in.Number <= l.number {
		return
	}
	for _, t := range tr.table.types {
		if t.loads != nil {
			tr.table.forgetLoads(t, from, l.reports > 0, l.at, in.Full)
		}
	}
	for _, s := range in.Shards {
		t, row := tr.table.find(s.Shard)
		if row != nil && row.Owner == from && row.Phase != sharding.HandingOff {
			tr.table.setLoad(t, row, s.Load.Bounded().Counted(), from)
		}
	}
	l.number, l.reports, l.at, l.rest, l.node = in.Number, min(l.reports+1, 2), tr.now, in.Rest.Bounded().Counted(), in.Node
}

// forgetLoads forgets those loads of a region's shards that a report replaces. A full report
// replaces every load that the region itself has reported. A load that an earlier owner has reported
// is replaced by the second report that the region sends while it serves the shard. The first of the
// two reports may describe a time before the region served the shard.
func (tab *table) forgetLoads(t *typeTable, node sharding.NodeID, reported bool, at time.Time, full bool) {
	for _, s := range t.shardsOf(node) {
		row, known := &t.rows[s.Index], t.loads[s.Index]
		if row.Phase == sharding.HandingOff {
			continue // the load from before the handoff is expected at the successor
		}
		// Invariant: the load of a shard counts once. If a handoff of the shard is in progress, the load counts at the
		// region that will own the shard afterwards. Otherwise the load counts at the shard's owner. When the present
		// owner has measured the shard, the reports of earlier owners are forgotten.
		// Mutants: load-of-earlier-owner
		//mutant:false load-of-earlier-owner
		measured := row.Phase == sharding.Serving && reported && !row.since.After(at)
		if known.Load != (sharding.Load{}) && (known.by == node && full || known.by != node && measured) {
			tab.setLoad(t, row, sharding.Load{}, node)
		}
	}
}

// setLoad stores the load of a shard, and updates the sums of the regions.
func (tab *table) setLoad(t *typeTable, r *row, load sharding.Load, by sharding.NodeID) {
	if t.loads == nil {
		t.loads, t.shown = make([]shardLoad, len(t.rows)), make([]allocation.ShardLoad, len(t.rows))
	}
	l := &t.loads[r.Shard.Index]
	tab.shiftLoad(r.expectedOwner(), sharding.NodeID{}, l.Load)
	tab.shiftLoad(sharding.NodeID{}, r.expectedOwner(), load)
	l.Load, l.by = load, by
	t.shown[r.Shard.Index].Load = allocation.LoadOf(load)
}

// shiftLoad subtracts a load from the sum of one region, and adds it to the sum of another one. The
// sums expect that all moves in progress have ended.
func (tab *table) shiftLoad(from, to sharding.NodeID, load sharding.Load) {
	if load == (sharding.Load{}) || from == to {
		return
	}
	if tab.loads == nil {
		tab.loads = map[sharding.NodeID]sharding.Load{}
	}
	if !from.IsZero() {
		if tab.loads[from] = tab.loads[from].Minus(load); tab.loads[from] == (sharding.Load{}) {
			delete(tab.loads, from)
		}
	}
	if !to.IsZero() {
		tab.loads[to] = tab.loads[to].Plus(load)
	}
}

// loadOf returns the load that a region is expected to have when all moves in progress have ended.
func (pl *placement) loadOf(r *region) allocation.Load {
	return allocation.LoadOf(pl.table.loads[r.node].Plus(r.load.rest))
}

func processorsOf(n control.NodeLoad) allocation.Processors {
	return allocation.Processors{All: int(n.Processors), GC: float64(n.MilliGC) / 1000}
}

// measured reports whether the loads of all regions are known. Each region must have reported twice,
// and the last time within [Config.LoadReport]. The first report may describe a time before the region
// had its shards.
func (l *liveness) measured(s *step) bool {
	return !l.anyRegion(func(r *region) bool { return r.registered && !l.measuredOf(s, r) })
}

func (l *liveness) measuredOf(s *step, r *region) bool {
	// Invariant: nothing moves because of load unless the loads of all regions are known. The load of a region is known
	// if the region has reported twice in the term and its last report is recent.
	// Mutants: load-two-reports, load-fresh
	//mutant:true load-two-reports r.load.reports >= 2
	//mutant:true load-fresh s.now.Sub(r.load.at) < s.cfg.LoadReport
	return r.load.reports >= 2 && s.now.Sub(r.load.at) < s.cfg.LoadReport
}

// shardLoads returns the loads of a type's shards; nil: not all regions are measured.
func (pl *placement) shardLoads(t *typeTable) []allocation.ShardLoad {
	if !pl.live.measured(&pl.step) {
		return nil
	}
	return t.shown
}

// cool marks shards that have moved too recently to move again because of load. When a term begins,
// all shards are marked, because the coordinator does not know when they moved.
func (pl *placement) cool(t *typeTable, loads []allocation.ShardLoad) {
	for i := range loads {
		loads[i].Cooling = pl.cools(&t.rows[i])
	}
}

// cools reports whether the shard of a row has moved too recently to move again because of load.
func (pl *placement) cools(r *row) bool {
	return pl.now.Sub(r.since) < pl.cfg.LoadCooldown //mutant:false load-cooling
}

// tellUnmeasured writes to the log, once for each region, that the region has reported no load. Until
// it does, nothing moves because of load.
func (l *liveness) tellUnmeasured(s *step) {
	if !s.cfg.byLoad() {
		return
	}
	for i := range l.regions {
		r := &l.regions[i]
		if r.registered && !r.load.told && s.now.Sub(r.load.at) >= s.cfg.LoadReport {
			r.load.told = true
			s.emit(NoLoad{Region: cmp.Or(r.name, r.node.Addr)})
		}
	}
}
