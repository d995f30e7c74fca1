package coordinator

import (
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// QuarantineEntity is an operator's request to quarantine an entity: it does not run from then on. If Release is set,
// the request ends a quarantine, or a suspicion. See [Done].
type QuarantineEntity struct {
	Entity     sharding.Entity
	Release    bool
	By, Reason string
}

func (QuarantineEntity) input() {}

// Origin returns who asks, and why.
func (in QuarantineEntity) Origin() (by, reason string) { return in.By, in.Reason }

func (in QuarantineEntity) effect(m *Machine) (e Effect, facts []Fact, err error) {
	if err := m.checkOrigin(in); err != nil {
		return e, nil, err
	}
	if err := in.Entity.Check(); err != nil {
		return e, nil, refuse(Malformed, "%v", err)
	}
	t, err := m.table.findType(in.Entity.Type)
	if err != nil {
		return e, nil, err
	}
	old, has := m.quarantine.Find(in.Entity)
	state := old.State // Released if there is none
	e.Already = in.Release && !has || !in.Release && state == Quarantined
	full, oldest, room := m.quarantine.Full(m.cfg.quarantine())
	if full = full && !in.Release && !has; full && !room {
		return e, nil, refuse(NotNow, "%d entities are quarantined, more are not allowed; release those that are repaired, see roost entity quarantine", m.cfg.MaxQuarantined)
	}
	e.Remarks = m.aboutQuarantine(t, in, state)
	if e.Already {
		if has {
			e.Remarks = append(e.Remarks, old.Since())
		}
		if in.Reason != "" && !(has && old.Reason == in.Reason) {
			_, r := m.table.rowOf(in.Entity)
			e.Remarks = append(e.Remarks, fmt.Sprintf("nothing is changed, so the reason given now is not kept; roost shard show %v lists what was decided before", r.Shard))
		}
		return e, nil, nil
	}
	if full { // as for an entity that ran at a crash, see setQuarantine
		facts = append(facts, QuarantineFact{Entity: oldest.Entity, Note: m.note("roost", "others are suspected")})
	}
	f := QuarantineFact{Entity: in.Entity, State: Quarantined, Note: m.note(in.By, in.Reason)}
	if in.Release {
		f.State = Released
	} else if has { // keeps the evidence
		f.Command, f.Cause, f.Crashes = old.Command, old.Cause, old.Crashes
	}
	facts = append(facts, f)
	e.Changes = len(facts)
	return e, facts, nil
}

// aboutQuarantine returns remarks for an operator who quarantines or releases an entity.
func (m *Machine) aboutQuarantine(t *typeTable, in QuarantineEntity, state QuarantineState) (remarks []string) {
	_, r := m.table.rowOf(in.Entity)
	switch owner := m.live.label(r.Owner); {
	case in.Release && state == Suspected:
		remarks = append(remarks, "it was only suspected, and its commands were executed")
	case in.Release && state == Quarantined:
		remarks = append(remarks, "its next command is executed; if that ends a region again, the entity is a suspect again")
	case in.Release:
	case owner == "":
		remarks = append(remarks, fmt.Sprintf("its shard %v is at no region now", r.Shard))
	default:
		remarks = append(remarks, fmt.Sprintf("its shard %v is at %s; a turn that runs there now is not interrupted", r.Shard, owner))
	}
	if !in.Release && t.desc.Volatile && state != Quarantined {
		remarks = append(remarks, "the type is volatile: the entity's state in memory is lost")
	}
	return remarks
}

// QuarantineView is a suspect or a quarantined entity, and where its shard is.
type QuarantineView struct {
	QuarantineFact
	Shard  sharding.ShardID
	Region string // the owner's name, or its address; "": none
}

// Quarantine returns the suspects and the quarantined entities, sorted.
func (m *Machine) Quarantine() (list []QuarantineView) {
	for _, f := range m.quarantine.All() {
		_, r := m.table.rowOf(f.Entity)
		list = append(list, QuarantineView{QuarantineFact: f, Shard: r.Shard, Region: m.live.label(r.Owner)})
	}
	return list
}

// checkQuarantine checks the suspects and quarantined entities, and that the route table shows them.
func (tr *transit) checkQuarantine() error {
	for _, t := range tr.table.types {
		if shown := tr.quarantine.Shown(t.desc.Type); !slices.Equal(shown, t.desc.Quarantined) {
			return fmt.Errorf("of %s, %+v are suspected or quarantined, the table shows %+v", t.desc.Type, shown, t.desc.Quarantined)
		}
	}
	return tr.quarantine.Check(tr.cfg.quarantine())
}

// Quarantine returns the suspects and the quarantined entities, as the active coordinator knows them.
func (t *Tenure) Quarantine() []QuarantineView { return t.m.Quarantine() }
