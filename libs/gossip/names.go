package gossip

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// publishNames tells which of the members that came up have the name of another
// one. Earlier it would be no sign of anything: who was started again elsewhere
// has the name of its former self until that is missed, and while it is missed
// nobody comes up. Those that are leaving for good or unreachable do not count.
func (m *Machine) publishNames(came []string) {
	if len(came) == 0 {
		return
	}
	bearers := make(map[string]int, len(came))
	for _, name := range came {
		bearers[name] = 0
	}
	for _, mem := range m.state.Members {
		if n, ok := bearers[mem.Name]; ok && m.bearsName(mem) {
			bearers[mem.Name] = n + 1
		}
	}
	for _, name := range came {
		if bearers[name] < 2 || name == "" {
			continue
		}
		bearers[name] = 0 // told once
		m.emit(NameShared{name, m.bearersOf(name)})
	}
}

func (m *Machine) bearersOf(name string) (nodes []sharding.NodeID) {
	for _, mem := range m.state.Members {
		if mem.Name == name && m.bearsName(mem) {
			nodes = append(nodes, mem.Node)
		}
	}
	slices.SortFunc(nodes, sharding.NodeID.Compare)
	return nodes
}

func (m *Machine) bearsName(mem *Member) bool {
	return mem.Status < Exiting && (mem.Node == m.self || suspected(m.suspects, mem.Node).verdict == Reachable)
}
