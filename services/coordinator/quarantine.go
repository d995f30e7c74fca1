package coordinator

import (
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// What operators request is in quarantine_request.go; shards that wait for reports about crashes are in crash_wait.go.

// QuarantineChanged tells the log that an entity has another state.
type QuarantineChanged struct{ QuarantineFact }

// QuarantineFull tells the log that an entity that ran at a crash is not suspected, because
// Config.MaxQuarantined entities are quarantined.
type QuarantineFull struct{ Entity sharding.Entity }

func (QuarantineChanged) output() {}
func (QuarantineFull) output()    {}

// crashed handles the report of a region about how its previous process has ended.
func (tr *transit) crashed(name string, c control.Crash) {
	if c.Of == 0 || tr.cfg.QuarantineCrashes == 0 { //mutant:false quarantine-off tr.cfg.QuarantineCrashes == 0
		return
	}
	if tr.quarantine.Keep(c) {
		tr.review.due = true // shards may wait for this report
	}
	known := func(t sharding.EntityType) bool { _, found := tr.table.searchType(t); return found }
	for _, f := range tr.quarantine.Judge(tr.now, tr.cfg.quarantine(), name, c, known) {
		tr.setQuarantine(f)
	}
}

// orderTable returns the version of the table that a region must know before it takes a shard of the type.
func (pl *placement) orderTable(t *typeTable) sharding.Version {
	if t.quarantineChanged == 0 { //mutant:true quarantine-first
		return sharding.Version{}
	}
	return sharding.Version{Term: pl.term.number, N: t.quarantineChanged}
}

// obeyed reports whether all regions that may run an entity know which entities of its type are quarantined: the
// owner of its shard, and the regions that can be reached, because one of them may have got the shard in a direct
// handoff that is older than the quarantine. Later owners must know it before they take the shard.
func (pl *placement) obeyed(t *typeTable, e sharding.Entity) bool {
	_, r := pl.table.rowOf(e)
	for i := range pl.live.regions {
		region := &pl.live.regions[i]
		may := region.node == r.Owner || region.reachable && !(region.registered && !region.hosts(e.Type))
		if may && region.table.Compare(pl.orderTable(t)) < 0 {
			return false //mutant:true quarantine-obeyed
		}
	}
	return true
}

// setQuarantine commits a fact about an entity, if the limits allow it. It makes room for one more suspect: the suspect
// without a crash for the longest time is released.
func (tr *transit) setQuarantine(f QuarantineFact) {
	if _, has := tr.quarantine.Find(f.Entity); !has && f.State != Released {
		if full, oldest, found := tr.quarantine.Full(tr.cfg.quarantine()); full && !found {
			tr.emit(QuarantineFull{Entity: f.Entity})
			return
		} else if full {
			tr.commit(QuarantineFact{Entity: oldest.Entity, Note: tr.note("roost", "others are suspected")})
		}
	}
	if f.State != Suspected {
		tr.why.explainRequest(&tr.placement, f)
	}
	tr.commit(f, QuarantineChanged{f})
}

// forgetSuspects releases the suspects all of whose crashes are older than the window.
func (tr *transit) forgetSuspects() {
	for _, f := range tr.quarantine.Outdated(tr.now, tr.cfg.quarantine()) {
		tr.commit(f, QuarantineChanged{f})
	}
}
