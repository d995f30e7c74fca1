package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// One entity may end the whole process of its region: by os.Exit, by a panic in a goroutine of its own, by
// taking all memory. Then the shard goes to the next region, the command is delivered again, and that region
// ends too. The coordinator finds such entities and quarantines them: their regions do not run them, and serve
// the other entities of their shards.
//
// The parts are in these files:
//
//   - convict.go: which entities are suspects, and which are quarantined, from the reports about crashes
//   - crash_wait.go: shards that wait for such reports, so that an entity does not end one region after the other
//   - quarantine_request.go: what operators request
//   - this file: the facts, their limits, and how the route table shows them to regions

// QuarantineChanged tells the log that an entity has another state.
type QuarantineChanged struct{ QuarantineFact }

// QuarantineFull tells the log that an entity that ran at a crash is not suspected, because
// Config.MaxQuarantined entities are quarantined.
type QuarantineFull struct{ Entity sharding.Entity }

func (QuarantineChanged) output() {}
func (QuarantineFull) output()    {}

func (t *typeTable) searchSuspect(id sharding.EntityID) (int, bool) {
	return slices.BinarySearchFunc(t.suspects, id, func(f QuarantineFact, id sharding.EntityID) int { return cmp.Compare(f.Entity.ID, id) })
}

func (m *Machine) applyQuarantine(f QuarantineFact) {
	i, found := m.searchType(f.Entity.Type)
	if !found || f.State > Quarantined || mutant.On("quarantine-kept") && !m.recovered {
		return
	}
	t := m.types[i]
	at, has := t.searchSuspect(f.Entity.ID)
	switch {
	case f.State == Released && has:
		t.suspects = slices.Delete(t.suspects, at, at+1)
	case f.State == Released:
		return
	case has:
		t.suspects[at] = f
	default:
		t.suspects = slices.Insert(t.suspects, at, f)
	}
	t.showQuarantine()
	t.changed = m.count(&m.step, change{shard: sharding.ShardID{Type: t.desc.Type}, isType: true})
	t.quarantineChanged = t.changed
}

// showQuarantine writes the suspects and the quarantined entities of a type into the route table.
func (t *typeTable) showQuarantine() {
	t.desc.Quarantined = nil
	for _, f := range t.suspects {
		t.desc.Quarantined = append(t.desc.Quarantined, sharding.Quarantined{ID: f.Entity.ID, Suspect: f.State == Suspected, Why: f.Text()})
	}
}

// orderTable returns the version of the table that a region must know before it takes a shard of the type.
func (m *Machine) orderTable(t *typeTable) sharding.Version {
	if t.quarantineChanged == 0 || mutant.On("quarantine-first") {
		return sharding.Version{}
	}
	return sharding.Version{Term: m.number, N: t.quarantineChanged}
}

// obeyed reports whether all regions that may run an entity know which entities of its type are quarantined: the
// owner of its shard, and the regions that can be reached, because one of them may have got the shard in a direct
// handoff that is older than the quarantine. Later owners must know it before they take the shard.
func (m *Machine) obeyed(t *typeTable, e sharding.Entity) bool {
	_, r := m.rowOf(e)
	for i := range m.regions {
		region := &m.regions[i]
		may := region.node == r.Owner || region.reachable && !(region.registered && !region.hosts(e.Type))
		if may && region.table.Compare(m.orderTable(t)) < 0 {
			return mutant.On("quarantine-obeyed")
		}
	}
	return true
}

// setQuarantine commits a fact about an entity, if the limits allow it.
func (m *Machine) setQuarantine(f QuarantineFact) {
	i, found := m.searchType(f.Entity.Type)
	if !found {
		return
	}
	if _, has := m.types[i].searchSuspect(f.Entity.ID); !has && f.State != Released && !m.roomForSuspect() {
		m.emit(QuarantineFull{Entity: f.Entity})
		return
	}
	if f.State != Suspected {
		m.explainRequest(f)
	}
	m.commit(f, QuarantineChanged{f})
}

// roomForSuspect makes room for one more suspect: the suspect without a crash for the longest time is
// released. It reports whether there is room.
func (m *Machine) roomForSuspect() bool {
	var oldest *QuarantineFact
	n := 0
	for _, t := range m.types {
		n += len(t.suspects)
		for i := range t.suspects {
			if f := &t.suspects[i]; f.State == Suspected && (oldest == nil || f.At.Before(oldest.At)) {
				oldest = f
			}
		}
	}
	switch {
	case n < m.cfg.MaxQuarantined:
		return true
	case oldest == nil:
		return false
	}
	m.commit(QuarantineFact{Entity: oldest.Entity, Note: m.note("roost", "others are suspected")})
	return true
}

// forgetSuspects releases the suspects all of whose crashes are older than the window.
func (m *Machine) forgetSuspects() {
	var old []sharding.Entity
	for _, t := range m.types {
		for _, f := range t.suspects {
			if f.State == Suspected && len(m.freshCrashes(f.Crashes)) == 0 {
				old = append(old, f.Entity)
			}
		}
	}
	for _, e := range old {
		f := QuarantineFact{Entity: e, Note: m.note("roost", fmt.Sprintf("no region has ended for %v while it ran", m.cfg.QuarantineWindow))}
		m.commit(f, QuarantineChanged{f})
	}
}

// freshCrashes returns the crashes that are within the window.
func (m *Machine) freshCrashes(list []CountedCrash) (fresh []CountedCrash) {
	for _, c := range list {
		if m.now.Sub(c.At) <= m.cfg.QuarantineWindow || mutant.On("quarantine-window") {
			fresh = append(fresh, c)
		}
	}
	return fresh
}

// clip returns at most so many bytes of a text, without bytes that are not valid text.
func clip(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
