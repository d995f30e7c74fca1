package gossip

import (
	"cmp"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Era is a period in the life of a cluster. Eras let nodes forget tombstones
// without relying on any clock: a tombstone is kept during the era in which it was
// made and during the next one. States of other eras are therefore not merged:
// they may contain nodes that were removed and forgotten here.
//
// The leader begins an era when all members are known to hold the same state, so
// no member is ever more than one era behind; a node that is further behind was
// removed. A member that is one era behind receives the whole state, and keeps
// from its own what the new era cannot have forgotten.
//
// Three rules ensure that no removed node comes back, whatever was paused,
// delayed or lost:
//
//   - A node remembers the era in which it first heard of the cluster, before it asked
//     to be admitted, or an earlier one that it learns of later. It is never raised.
//   - A node is not admitted if tombstones of that era may already have been forgotten.
//   - A member that moves on to the next era drops a member that is missing there if
//     tombstones of the era in which that one first heard of the cluster may have been
//     forgotten.
type Era struct {
	// Number is the number of eras before this one.
	Number uint64
	// By is the leader that began this era, Before the one that began the era
	// before. They differ between two halves of a cluster that have parted.
	By, Before sharding.NodeUID
}

// follows reports whether e is the era after o.
func (e Era) follows(o Era) bool { return e.Number == o.Number+1 && e.Before == o.By }

// Compare orders eras: of two halves of a cluster the one in the higher era
// survives.
func (e Era) Compare(o Era) int {
	return cmp.Or(cmp.Compare(e.Number, o.Number), cmp.Compare(e.By, o.By), cmp.Compare(e.Before, o.Before))
}

// forgotten reports whether a tombstone that was made in an era, and so all
// tombstones of nodes that first heard of the cluster in it or before, may be gone in e.
func (e Era) forgotten(era uint64) bool { return era+1 < e.Number }

// in is the state moved to an era: without the tombstones that the era forgets.
func (s *State) in(e Era) State {
	out := *s
	out.Era = e
	out.Tombstones = excluding(s.Tombstones, func(t Tombstone) bool { return e.forgotten(t.Era) })
	return out
}

// advancedTo is this state moved to the era of a later state, so that the two can be
// merged. A member that the later state lacks may have been removed and forgotten
// there, unless all tombstones since it first heard of the cluster are still kept.
func (s *State) advancedTo(o *State) State {
	out := s.in(o.Era)
	out.Members = excluding(out.Members, func(m *Member) bool {
		_, ok := o.Member(m.Node)
		return !ok && o.Era.forgotten(m.HeardIn) //mutant:false era-lift
	})
	return out.restrictedToMembers(len(s.Members))
}

// handleOtherEra reports whether gossip is from another era and must not be
// merged, and answers it. The node in the later era decides.
func (m *Machine) handleOtherEra(from sharding.NodeID, theirs Era) bool {
	mine := m.state.Era
	switch {
	case theirs == mine: //mutant:true era
		return false
	case mine.follows(theirs):
		m.sendParts(from, 1, allBits(1), false)
	case theirs.Compare(mine) > 0:
		m.sendStatus(from)
	default:
		m.send(from, NotMember{Seniority: m.state.seniority(), Outdated: true, Era: theirs})
	}
	return true
}

// beginEra begins an era when it is time and there are tombstones to forget. Only
// the leader of a converged cluster calls it. All members must have seen the
// state: one that has not would lose the members that it alone has admitted. This
// also ensures that only one node begins the era: if there were two, each would
// have seen the other's state before.
func (m *Machine) beginEra() {
	s := &m.state
	due := m.now.Sub(m.eraSince) >= m.cfg.TombstoneTTL || 4*len(s.Tombstones) >= m.cfg.MaxTombstones
	if len(s.Tombstones) == 0 || !due || s.Seen.count() < len(s.Members) || len(m.suspects) > 0 {
		return
	}
	m.change(s.in(Era{Number: s.Era.Number + 1, By: m.self.UID, Before: s.Era.By}))
}
