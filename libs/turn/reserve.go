package turn

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Entities that hold up other commands wait for a command with a chain. If it were refused
// because of those commands, or during the handoff of its shard because of the turn that waits
// for it, all of them would be stuck. So a part of each limit for all entities together is
// reserved for such commands, and a draining shard takes the commands that its own entities
// wait for.

// ReservedShare is the inverse of the part of each limit that is kept for commands with a chain:
// a fifth.
const ReservedShare = 5

// reserved is the part of a usage that is kept.
func (u Usage) reserved() Usage {
	return Usage{Commands: u.Commands / ReservedShare, Bytes: u.Bytes / ReservedShare, Loads: u.Loads / ReservedShare}
}

// room returns the limit for a command: with a chain the whole limit, otherwise less.
func (m *Machine) room(chained bool) Usage {
	u := m.limit
	if chained { //mutant:true ask-reserve
		return u
	}
	u.Commands -= m.reserve.Commands
	u.Bytes -= m.reserve.Bytes
	u.Loads -= m.reserve.Loads
	return u
}

// chained reports whether some command of the entity has a chain.
func (e *entity) chained() bool {
	return slices.ContainsFunc(e.cmds, func(c *command) bool { return !c.answered && len(c.env.Chain) > 0 })
}

// admits reports whether the shard takes a command. While it drains, it takes commands that one of
// its turns waits for: it could not end otherwise. It takes every probe, also one that comes too
// early or too late: a router that was refused once sends nothing more to the shard at this epoch,
// not even the probe that would find a circle.
func (m *Machine) admits(s *shard, env *sharding.Envelope) bool {
	switch s.phase {
	case open:
		return true
	case draining:
		probe := env.Command == sharding.ProbeCommand //mutant:false probe-late
		//mutant:false ask-drain slices.ContainsFunc(env.Chain, func(id sharding.Entity) bool { return m.waitsIn(s, id) })
		return probe || slices.ContainsFunc(env.Chain, func(id sharding.Entity) bool { return m.waitsIn(s, id) })
	}
	return false
}

// waitsIn reports whether an entity is one of the shard, and waits for an answer.
func (m *Machine) waitsIn(s *shard, id sharding.Entity) bool {
	if id.Type != s.id.Type {
		return false
	}
	e := m.lookUp(s.typ, id.ID)
	return e != nil && e.shard == s && e.ask != nil
}
