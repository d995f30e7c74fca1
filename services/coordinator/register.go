package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/intent"
)

func (m *Machine) member(in Member) {
	if in.Node.IsZero() {
		return
	}
	i, found := m.live.searchRegion(in.Node)
	if !found {
		_, drained := m.intent.Drain(in.Node)
		m.live.regions = slices.Insert(m.live.regions, i, region{node: in.Node, draining: drained})
	}
	r := &m.live.regions[i]
	r.name, r.reachable, r.joining, r.departing = in.Name, in.Reachable, in.Joining, in.Leaving
	m.live.holdNames(&m.step)
	m.allowAllocation()
	m.review.due = true
}

func (m *Machine) memberGone(node sharding.NodeID) {
	if i, found := m.live.searchRegion(node); found {
		if m.live.regions[i].registered {
			m.rollout.stepAt = m.now
		}
		m.live.regions = slices.Delete(m.live.regions, i, i+1)
		m.live.holdNames(&m.step)
	}
	if m.term.arrived(node) {
		m.term.endRecovery(&m.step)
	}
	m.review.due = true
}

// endOldDrains ends the drains of regions that are no longer members: an incarnation never comes back. It
// does nothing before RecoveryWait is over, because a new coordinator does not know all members before.
func (m *Machine) endOldDrains() {
	if m.intent.Len(intent.Drains) == 0 || m.now.Sub(m.term.since) < m.cfg.RecoveryWait {
		return
	}
	for _, f := range slices.Collect(intent.All[DrainFact](&m.intent, intent.Drains)) {
		if m.live.region(f.Region) == nil {
			m.commit(DrainFact{Region: f.Region, Resume: true, Note: m.note("", "the region is gone")})
		}
	}
}

// register handles a Register. The region must ask again in three cases: if it is not yet a member, because the
// membership is about to report it; if another region has its name; and if it changes a type whose last change is not
// durable yet.
func (m *Machine) register(from sharding.NodeID, call control.Call, in control.Register) {
	r := m.live.region(from)
	if r == nil {
		m.term.askAgain(&m.step, call)
		return
	}
	if other := m.namesake(r); other != nil {
		m.live.nameTaken(&m.step, r, other.node)
		m.term.askAgain(&m.step, call)
		return
	}
	if m.term.heartbeatDeleted(in.Journal, m.table.generation) {
		m.term.askAgain(&m.step, call)
		return
	}
	descs, refusal := m.table.checkTypes(&m.step, in.Types)
	if other := m.term.checkJournal(in.Journal, m.table.generation); other != "" {
		refusal = other
	}
	if err := checkVersion(in.Version); err != nil {
		refusal = err.Error()
	}
	if other := m.checkPlace(in); other != "" {
		refusal = other
	}
	if refusal == "" {
		refusal = m.checkCommands(from, descs)
	}
	if refusal == "" {
		refusal = m.table.checkNewForms(&m.step, descs)
	}
	if refusal != "" {
		m.reply(call, control.RegisterAck{Term: m.term.number, Refusal: refusal})
		return
	}
	for _, d := range descs {
		if i, found := m.table.searchType(d.Type); found && m.ledger.pending(m.table.types[i].number) && m.changes(from, m.table.types[i], d) {
			m.term.askAgain(&m.step, call)
			return
		}
	}
	if !r.registered {
		m.rollout.stepAt, r.load.at, r.came = m.now, m.now, m.now
	}
	r.registered, r.version, r.types, r.forms = true, in.Version, descs, make([]regionForms, len(descs))
	r.zone, r.labels, r.capacity = in.Zone, slices.Clone(in.Labels), in.Capacity
	m.live.holdNames(&m.step)
	m.registeredVersion(r)
	for _, d := range descs {
		i, found := m.table.searchType(d.Type)
		if found && !m.changes(from, m.table.types[i], d) {
			r.learnForms(d.Type, m.table.types[i].forms)
			continue
		}
		t := &typeTable{}
		if found {
			*t = *m.table.types[i]
		}
		t.forms = extend(t.forms, d.Writes)
		t.by = slices.Clip(t.by)
		for len(t.by) < len(t.forms) {
			t.by = append(t.by, in.Version)
		}
		d.Commands = m.commands(from, d)
		m.commit(t.fact(d))
	}
	m.crashed(cmp.Or(r.name, from.Addr), in.Crash)
	old := m.term.arrived(from)
	if old {
		m.term.endRecovery(&m.step)
	}
	m.term.open = m.term.open || old || in.Last != 0
	m.allowAllocation()
	m.review.due = true
	m.reply(call, control.RegisterAck{Term: m.term.number})
}

// changes reports whether a type gets other commands or forms if a region registers the type with the
// descriptor desc.
func (pl *placement) changes(from sharding.NodeID, t *typeTable, desc sharding.TypeDesc) bool {
	return t.desc.Unhosted || !slices.Equal(t.desc.Commands, pl.commands(from, desc)) || len(extend(t.forms, desc.Writes)) > len(t.forms)
}

// checkVersion checks the application version that a region names. A region may name none.
func checkVersion(v string) error {
	if v == "" {
		return nil
	}
	return sharding.CheckText("app.version", v, sharding.MaxTypeLen)
}

// checkPlace returns what is wrong with the zone and the labels of a region.
func (pl *placement) checkPlace(in control.Register) string {
	if len(in.Labels) > pl.cfg.MaxLabels {
		return fmt.Sprintf("the region has %d labels, at most %d are allowed; give it fewer in region.labels", len(in.Labels), pl.cfg.MaxLabels)
	}
	texts := [][2]string{}
	if in.Zone != "" {
		texts = append(texts, [2]string{"node.zone", in.Zone})
	}
	for i, l := range in.Labels {
		if i > 0 && in.Labels[i-1].Name >= l.Name {
			return fmt.Sprintf("the region's label %q is out of order or there twice; labels are sorted by name", l.Name)
		}
		texts = append(texts, [2]string{"a name in region.labels", l.Name}, [2]string{"region.labels " + l.Name, l.Value})
	}
	for _, t := range texts {
		if err := sharding.CheckText(t[0], t[1], sharding.MaxTypeLen); err != nil {
			return err.Error()
		}
	}
	return ""
}

// allowAllocation lets allocation begin once enough regions are present.
func (m *Machine) allowAllocation() {
	n := 0
	for i := range m.live.regions {
		n += toInt(m.live.regions[i].present())
	}
	m.term.open = m.term.open || m.term.active && n >= m.cfg.MinRegions
}

// checkTypes returns the descriptors, sorted and checked. If they are not allowed, it returns the reason for the
// refusal.
func (tab *table) checkTypes(s *step, types []sharding.TypeDesc) ([]sharding.TypeDesc, string) {
	if len(types) > s.cfg.MaxTypes {
		return nil, fmt.Sprintf("the region registers %d types, at most %d are allowed; host fewer types in this cluster", len(types), s.cfg.MaxTypes)
	}
	descs := slices.Clone(types)
	slices.SortStableFunc(descs, func(a, b sharding.TypeDesc) int { return strings.Compare(string(a.Type), string(b.Type)) })
	count, shards := len(tab.types), 0
	for _, t := range tab.types {
		shards += len(t.rows)
	}
	for i := range descs {
		d := &descs[i]
		if i > 0 && d.Type == descs[i-1].Type {
			return nil, fmt.Sprintf("type %q is registered twice; define it once per region", d.Type)
		}
		if refusal := tab.checkType(s, d); refusal != "" {
			return nil, refusal
		}
		if _, found := tab.searchType(d.Type); !found {
			count, shards = count+1, shards+int(d.Shards)
		}
	}
	if count > s.cfg.MaxTypes {
		return nil, fmt.Sprintf("with this region the cluster would have %d types, at most %d are allowed; host fewer types in this cluster", count, s.cfg.MaxTypes)
	}
	if shards > s.cfg.MaxShards {
		return nil, fmt.Sprintf("with this region the cluster would have %d shards, at most %d are allowed; give the new types fewer shards", shards, s.cfg.MaxShards)
	}
	return descs, ""
}

// checkType checks one descriptor, sorts its commands, and copies it.
func (tab *table) checkType(s *step, d *sharding.TypeDesc) string {
	if err := sharding.CheckEntityType("entity type", d.Type); err != nil {
		return err.Error()
	}
	if d.Shards < 1 || d.Shards > sharding.MaxShards {
		return fmt.Sprintf("type %q has %d shards, must be 1 to %d", d.Type, d.Shards, sharding.MaxShards)
	}
	if len(d.Commands) > s.cfg.MaxCommands {
		return fmt.Sprintf("type %q has %d commands, at most %d are allowed; split the type", d.Type, len(d.Commands), s.cfg.MaxCommands)
	}
	d.Commands, d.Unhosted, d.LastHost, d.Quarantined = slices.Clone(d.Commands), false, "", nil
	slices.SortStableFunc(d.Commands, func(a, b sharding.CommandDesc) int { return strings.Compare(a.Name, b.Name) })
	for i, c := range d.Commands {
		if err := sharding.CheckType("command of type "+string(d.Type), c.Name); err != nil {
			return err.Error()
		}
		if i > 0 && c.Name == d.Commands[i-1].Name {
			return fmt.Sprintf("type %q has the command %q twice; define it once", d.Type, c.Name)
		}
	}
	if err := d.Rule.Check(); err != nil {
		return fmt.Sprintf("type %q: %v", d.Type, err)
	}
	if refusal := tab.checkForms(s, d); refusal != "" {
		return refusal
	}
	i, found := tab.searchType(d.Type)
	if !found {
		return ""
	}
	old := &tab.types[i].desc
	if old.Shards != d.Shards {
		return fmt.Sprintf("type %q: the region was built with %d shards, the cluster has %d since the type was first declared, and the number never changes; build the region with %d shards, or choose a new type name",
			d.Type, d.Shards, old.Shards, old.Shards)
	}
	if old.Rule != d.Rule { //mutant:false shard-rule
		return fmt.Sprintf("type %q: the region hashes %s to find a shard (ShardBy), the cluster hashes %s since the type was first declared, and that never changes; build the region with the rule of the cluster, or choose a new type name",
			d.Type, d.Rule, old.Rule)
	}
	if old.Volatile != d.Volatile {
		return fmt.Sprintf("type %q: the region declares it %s, the cluster has it as %s since it was first declared, and that never changes; declare it %s, or choose a new type name",
			d.Type, kind(d.Volatile), kind(old.Volatile), kind(old.Volatile))
	}
	return ""
}

func kind(volatile bool) string {
	if volatile {
		return "volatile"
	}
	return "durable"
}
