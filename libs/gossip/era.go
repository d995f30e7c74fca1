package gossip

import (
	"cmp"

	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// Era is a stretch of the life of a cluster by which removed nodes are forgotten
// without trust in any clock. A tombstone is kept during the era in which it was
// made and during the next one. What comes from another era is therefore not
// joined: it may contain who was removed and forgotten here.
//
// The leader begins an era when all members are known to hold the same state, so
// no member is ever more than one era behind; whoever is further behind was
// removed. A member that is one era behind is given the whole state, and keeps of
// its own what the new era cannot have forgotten (see [State.lifted]).
//
// That nobody removed comes back follows from three rules alone, whatever was
// paused, delayed or lost. Every node has one era of admission for ever: that in
// which it heard of the cluster, before it asked to be let in. Nobody is let in
// whose era of admission is over for longer than tombstones are kept. And a
// member that moves on to the next era drops all others of such eras that are
// missing there.
type Era struct {
	// Number is how many eras there were before this one.
	Number uint64
	// By began this era, Before the one before it: two halves of a cluster that
	// have parted begin eras of their own.
	By, Before sharding.NodeUID
}

// follows reports whether e is the era after o.
func (e Era) follows(o Era) bool { return e.Number == o.Number+1 && e.Before == o.By }

// Compare orders eras: of two halves of a cluster the one with the higher one
// goes on.
func (e Era) Compare(o Era) int {
	return cmp.Or(cmp.Compare(e.Number, o.Number), cmp.Compare(e.By, o.By), cmp.Compare(e.Before, o.Before))
}

// forgotten reports whether a tombstone that was made in an era, and so all
// tombstones of nodes that were admitted in it or before, may be gone in e.
func (e Era) forgotten(era uint64) bool { return era+1 < e.Number }

// in is the state at the beginning of an era.
func (s *State) in(e Era) State {
	out := *s
	out.Era = e
	out.Tombstones = dropped(s.Tombstones, func(t Tombstone) bool { return e.forgotten(t.Era) })
	return out
}

// lifted is this state in the era of a later one, which is to be joined to it.
// A member that the later one lacks may have been removed and forgotten there,
// unless it was admitted in an era from which all tombstones are still kept.
func (s *State) lifted(o *State) State {
	out := s.in(o.Era)
	out.Members = dropped(out.Members, func(m *Member) bool {
		_, ok := o.Member(m.Node)
		return !ok && o.Era.forgotten(m.Era) && !mutant.On("era-lift")
	})
	return out.withoutStrangers(len(s.Members))
}

// otherEra deals with gossip of another era, of which nothing is joined. Of two
// nodes the one in the later era judges.
func (m *Machine) otherEra(from sharding.NodeID, theirs Era) bool {
	mine := m.state.Era
	switch {
	case theirs == mine || mutant.On("era"):
		return false
	case mine.follows(theirs):
		m.sendParts(from, 1, allBits(1), false)
	case theirs.Compare(mine) > 0:
		m.sendStatus(from)
	default:
		m.send(from, NotMember{Claim: m.state.claim()})
	}
	return true
}

// beginEra begins an era, for the leader of a converged cluster, when there are
// removed nodes to forget and it is time. All members must have seen the state:
// whoever has not would lose whom it alone has let in. That also makes the one
// who does it unique: each of two would have seen the other's state before.
func (m *Machine) beginEra() {
	s := &m.state
	due := m.now.Sub(m.eraSince) >= m.cfg.TombstoneTTL || 4*len(s.Tombstones) >= m.cfg.MaxTombstones
	if len(s.Tombstones) == 0 || !due || s.Seen.count() < len(s.Members) || len(m.suspects) > 0 {
		return
	}
	m.change(s.in(Era{Number: s.Era.Number + 1, By: m.self.UID, Before: s.Era.By}))
}
