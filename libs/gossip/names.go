package gossip

import (
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
)

// publishNames emits the names that members which came up share with others.
// Before a member is up, a shared name proves nothing: a process that was
// restarted elsewhere shares its name with its earlier incarnation until that is
// found unreachable, and while it is unreachable no member comes up. Members that
// are exiting, down or unreachable do not count.
func (m *Machine) publishNames(came []string) {
	if len(came) == 0 {
		return
	}
	bearers := make(map[string]int, len(came))
	for _, name := range came {
		bearers[name] = 0
	}
	for _, mem := range m.state.Members {
		if n, ok := bearers[mem.Name]; ok && m.countsForName(mem) {
			bearers[mem.Name] = n + 1
		}
	}
	for _, name := range came {
		if bearers[name] < 2 || name == "" {
			continue
		}
		bearers[name] = 0 // emit each name once
		m.emit(NameShared{name, m.nodesNamed(name)})
	}
}

func (m *Machine) nodesNamed(name string) (nodes []sharding.NodeID) {
	for _, mem := range m.state.Members {
		if mem.Name == name && m.countsForName(mem) {
			nodes = append(nodes, mem.Node)
		}
	}
	slices.SortFunc(nodes, sharding.NodeID.Compare)
	return nodes
}

func (m *Machine) countsForName(mem *Member) bool {
	return mem.Status < Exiting && (mem.Node == m.self || suspected(m.suspects, mem.Node).forCluster == Reachable)
}
