package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
)

// View is the coordinator as an operator sees it. It is a copy: nothing in it changes later.
type View struct {
	Active bool
	Term   sharding.Term
	// Known is the coordinator that a standby believes to be active.
	Known   Active
	Version sharding.Version
	// Recovered is true if the wait for the owners of earlier terms is over. Open is true if enough regions have
	// registered to begin allocating.
	Recovered, Open bool
	Types           []sharding.TypeDesc
	Rows            []sharding.Row     // allocated ones, sorted
	Causes          []sharding.Cause   // of Rows, in the same order: why a shard is at its owner, or leaves
	Unreadable      []UnreadableShards // sorted by type
	Regions         []RegionView       // members, sorted by node
	// Homeless are at most MaxHomeless of the shards that need a region and have none, or whose region is gone. Those
	// that have waited longest come first. Unreadable shards are not among them. HomelessAll counts all of them.
	Homeless    []Homeless
	HomelessAll int
	// Handoffs is the number of rows that are handing off.
	Handoffs int
	Brake    BrakeView
	Broken   []BrokenView  // all constraints, the most important one first
	Gateways []GatewayView // sorted by node
	Rollout  RolloutView
	// Freeze is in effect if it is Frozen.
	Freeze FreezeFact
}

// MaxHomeless is the number of shards without a region that a [View] lists: enough to show an operator which types
// they have.
const MaxHomeless = 10

// Homeless is a shard that has no region.
type Homeless struct {
	Shard sharding.ShardID
	For   time.Duration // how long it has had none, in this term
}

// homeless fills the list of shards that have no region.
func (v *View) homeless(m *Machine) {
	for _, t := range m.table.types {
		for i := range t.rows {
			switch r := &t.rows[i]; {
			case r.Epoch == 0 || r.Reason == sharding.Unreadable:
			case r.Owner.IsZero():
				v.Homeless = append(v.Homeless, Homeless{r.Shard, m.now.Sub(r.since)})
			case !r.lostSince.IsZero() && m.live.region(r.awaited()) == nil: // no other region can be given it
				v.Homeless = append(v.Homeless, Homeless{r.Shard, m.now.Sub(r.lostSince)})
			}
		}
	}
	v.HomelessAll = len(v.Homeless)
	slices.SortStableFunc(v.Homeless, func(a, b Homeless) int { return cmp.Compare(b.For, a.For) })
	v.Homeless = slices.Clip(v.Homeless[:min(len(v.Homeless), MaxHomeless)])
}

// RegionView is one region as the coordinator sees it.
type RegionView struct {
	Node    sharding.NodeID
	Name    string
	Version string // of the application
	Types   []sharding.EntityType
	// What the region said about itself: see control.Register.
	Zone     string
	Labels   []control.Label
	Capacity uint32
	// Reachable is the verdict of this coordinator's failure detector. Registered is true if the region has
	// registered in this term.
	Reachable, Registered bool
	// Joining: not up yet, so it is given nothing. Leaving: on its way out. Draining: an operator has it emptied.
	Joining, Leaving, Draining bool
	// Cordoned: an operator wants it to get no more shards.
	Cordoned bool
	// Journal is the state of the journal that the region has reported.
	Journal sharding.JournalState
	// LoadReported is true if the region has reported its load. Then Load is the load that the region is going to
	// have when all moves in progress have ended, as far as it is known, and Process holds the resources of its
	// process and their use. LoadComplete is true if the region has reported as much as the strategy "load" needs.
	Load                       allocation.Load
	Process                    control.NodeLoad
	LoadReported, LoadComplete bool
	// Shards counts the rows that name the region. HandingOff counts the ones among them that are handing off.
	Shards, HandingOff int
	// Stays are the shards of the region that can be given to no other region now.
	Stays []UnreadableShards
}

// Processors returns the divisor that the strategy "load" applies to the region's load.
func (v *RegionView) Processors() allocation.Processors { return processorsOf(v.Process) }

// View returns the coordinator as an operator sees it.
func (m *Machine) View() View {
	full := m.table.full()
	v := View{
		Active: m.term.active, Term: m.term.number, Known: m.term.known, Version: full.Version,
		Recovered: m.term.recovered, Open: m.term.open,
		Types: full.Types, Rows: full.Rows, Causes: make([]sharding.Cause, 0, len(full.Rows)),
		Unreadable: m.unreadableShards(func(*row) bool { return true }), Handoffs: m.budget.Handoffs(), Brake: m.budget.Brake(&m.cfg.Config),
		Broken: m.planner.broken.view(), Gateways: m.budget.Gateways(), Rollout: m.rolloutView(), Freeze: m.intent.Freeze(),
	}
	v.homeless(m)
	for _, t := range m.table.types {
		for i := range t.rows {
			if r := &t.rows[i]; r.Epoch != 0 {
				v.Causes = append(v.Causes, r.cause)
			}
		}
	}
	for i := range m.live.regions {
		v.Regions = append(v.Regions, m.viewOf(&m.live.regions[i]))
	}
	return v
}

func (m *Machine) viewOf(r *region) RegionView {
	v := RegionView{
		Node: r.node, Name: r.name, Version: r.version, Types: typesOf(r.types),
		Zone: r.zone, Labels: slices.Clone(r.labels), Capacity: r.capacity,
		Reachable: r.reachable, Registered: r.registered,
		Joining: r.joining, Leaving: r.leaving(), Draining: r.draining, Cordoned: m.intent.Cordoned(r.name),
		Journal: r.journal.state, Stays: m.staying(r),
	}
	if r.load.reports > 0 {
		v.Load, v.Process, v.LoadReported, v.LoadComplete = m.loadOf(r), r.load.node, true, m.live.measuredOf(&m.step, r)
	}
	for _, t := range m.table.types {
		shards := t.shardsOf(r.node)
		v.Shards += len(shards)
		for _, s := range shards {
			v.HandingOff += toInt(t.rows[s.Index].Phase == sharding.HandingOff)
		}
	}
	return v
}

func typesOf(descs []sharding.TypeDesc) []sharding.EntityType {
	types := make([]sharding.EntityType, len(descs))
	for i := range descs {
		types[i] = descs[i].Type
	}
	return types
}
