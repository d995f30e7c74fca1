package coordinator

import (
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// ShardReport describes the shard of an entity, for operators who want to know why a command waits.
type ShardReport struct {
	ShardView
	// Known is true if the type is known; otherwise, Types are the known types.
	Known bool
	Types []sharding.EntityType
	Since time.Time // when the row came into its phase, in this term; zero: not known
	// Successor is the region that is to get the shard, Released whether it may claim it, and KeptBy
	// the region that keeps the states of the entities for the owner.
	Successor, KeptBy sharding.NodeID
	Released          bool
	// Hosts counts the registered regions that host the type, Usable the ones among them that can be given shards.
	Hosts, Usable int
	// MinRegions is the number of regions that must register before a shard is allocated; 0: that is over. Recovering
	// is true while the owners of earlier terms still have time to register.
	MinRegions            int
	Recovering            bool
	Handoffs, MaxHandoffs int
	HeldBack              []string          // why voluntary moves are held back
	Missing               *UnreadableShards // of an unreadable shard
	Owner, Next           ShardReportRegion // of the row
	Gateways              []GatewayView
}

// ShardReportRegion describes a region of a report.
type ShardReportRegion struct {
	Name                           string
	Registered, Draining, Cordoned bool
	Journal                        sharding.JournalState
}

// Report describes the shard of an entity. It changes nothing.
func (m *Machine) Report(e sharding.Entity) (v ShardReport) {
	v.Gateways, v.HeldBack = m.budget.Gateways(), m.heldBack()
	v.Handoffs, v.MaxHandoffs, v.Recovering = m.budget.Handoffs(), m.cfg.MaxHandoffs, !m.term.recovered
	if !m.term.open {
		v.MinRegions = m.cfg.MinRegions
	}
	i, found := m.table.searchType(e.Type)
	if !found {
		for _, t := range m.table.types {
			v.Types = append(v.Types, t.desc.Type)
		}
		return v
	}
	t := m.table.types[i]
	for i := range m.live.regions {
		if r := &m.live.regions[i]; r.registered && r.hosts(e.Type) {
			v.Hosts++
			v.Usable += toInt(r.lastResort())
		}
	}
	r := &t.rows[t.desc.ShardOf(e.ID).Index]
	v.ShardView, _ = m.Shard(r.Shard)
	v.Known, v.Since, v.Successor, v.KeptBy, v.Released = true, r.since, r.successor, r.previous.Owner, r.released
	v.Owner, v.Next = m.reportRegion(r.Owner), m.reportRegion(r.successor)
	if r.Reason == sharding.Unreadable {
		u := m.missing(t, r.stored(), sharding.NodeID{}, (*region).lastResort)
		v.Missing = &u
	}
	return v
}

func (m *Machine) reportRegion(n sharding.NodeID) (v ShardReportRegion) {
	if i, found := m.live.searchRegion(n); found {
		r := &m.live.regions[i]
		v = ShardReportRegion{Name: r.name, Registered: r.registered, Draining: r.draining, Cordoned: m.intent.Cordoned(r.name), Journal: r.journal.state}
	}
	return v
}

// Report describes the shard of an entity, see [Machine.Report].
func (t *Tenure) Report(e sharding.Entity) ShardReport { return t.m.Report(e) }
