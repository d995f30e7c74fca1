package coordinator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/roost-cluster/roost/libs/sharding"
)

// Regions of several versions may run side by side, in a rollout for instance, and know
// different commands of a type. A command exists as long as a registered region has it,
// whichever region registered last. When no region hosts a type any more, the commands of the type stay.
// While no region of the target version is registered, the commands that only the target version has stay
// too: if its first region is killed and restarts, its commands must not become unknown meanwhile.

// commands returns the commands that a type has when a region registers it with the descriptor desc, sorted
// by name.
func (pl *placement) commands(from sharding.NodeID, desc sharding.TypeDesc) []sharding.CommandDesc {
	i, found := pl.table.searchType(desc.Type)
	if found && slices.Equal(desc.Commands, pl.table.types[i].desc.Commands) {
		return desc.Commands // they include the commands of the other regions
	}
	others, _ := pl.live.commandsOfRegions(desc.Type, from)
	all := join(desc.Commands, others)
	// Invariant: while no region of the target version is registered, the coordinator still lists the commands of the
	// target version.
	// Mutants: target-commands
	if found && (!pl.allSpoken(from) || pl.targetAway()) { //mutant:false target-commands pl.targetAway()
		all = join(all, pl.table.types[i].desc.Commands)
	}
	// Invariant: the coordinator lists a command of a type for the routers as long as a registered region has this
	// command. It does not matter which region has registered last.
	// Mutants: last-registers
	//mutant:do last-registers return desc.Commands
	return all
}

// allSpoken reports whether every region, except one, has registered its commands in this term. When a term
// begins, perhaps not all regions are known.
func (pl *placement) allSpoken(besides sharding.NodeID) bool {
	return pl.now.Sub(pl.term.since) >= pl.cfg.RecoveryWait && !pl.live.anyRegion(func(r *region) bool {
		return !r.registered && r.node != besides
	})
}

// targetAway reports whether no registered region has the target version.
func (pl *placement) targetAway() bool {
	target := pl.intent.Target().Version
	return target != "" && !pl.live.anyRegion(func(r *region) bool {
		return r.registered && r.version == target
	})
}

// checkCommands returns the reason why the region cannot join with its commands: there would be too many.
func (pl *placement) checkCommands(from sharding.NodeID, descs []sharding.TypeDesc) string {
	for _, d := range descs {
		if n := len(pl.commands(from, d)); n > pl.cfg.MaxCommands {
			return fmt.Sprintf("with this region type %q would have %d commands, at most %d are allowed; stop regions of older versions first, or split the type", d.Type, n, pl.cfg.MaxCommands)
		}
	}
	return ""
}

// dropCommands removes the commands that no region has any more.
func (m *Machine) dropCommands() {
	//mutant:false target-commands m.targetAway()
	//mutant:true last-registers
	if !m.allSpoken(sharding.NodeID{}) || m.targetAway() {
		return
	}
	for _, t := range m.table.types {
		all, hosted := m.live.commandsOfRegions(t.desc.Type, sharding.NodeID{})
		switch {
		case !hosted || slices.Equal(all, t.desc.Commands):
		case m.ledger.pending(t.number):
			m.review.deferred = true
		default:
			desc := t.desc
			desc.Commands = all
			m.commit(t.fact(desc))
		}
	}
}

func searchDesc(types []sharding.TypeDesc, t sharding.EntityType) (int, bool) {
	return slices.BinarySearchFunc(types, t, func(d sharding.TypeDesc, t sharding.EntityType) int {
		return strings.Compare(string(d.Type), string(t))
	})
}

// join merges two lists of commands, both sorted by name. A command of both lists is
// read-only only if both lists say so, and may be answered stale only if both lists say so. Its
// input is known only if it is the same in both.
func join(a, b []sharding.CommandDesc) []sharding.CommandDesc {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 || slices.Equal(a, b) {
		return a
	}
	out := make([]sharding.CommandDesc, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			out, a = append(out, a[0]), a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			out, b = append(out, b[0]), b[1:]
		default:
			both := sharding.CommandDesc{Name: a[0].Name, ReadOnly: a[0].ReadOnly && b[0].ReadOnly, Stale: a[0].Stale && b[0].Stale}
			if a[0].Input == b[0].Input {
				both.Input = a[0].Input
			}
			out, a, b = append(out, both), a[1:], b[1:]
		}
	}
	return out
}
