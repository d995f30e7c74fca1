package turn

import "github.com/roost-cluster/roost/libs/sharding"

// loads are the loads that the driver has not answered, those included that the
// core no longer waits for. A load costs the driver a goroutine, and a place at the
// journal, until it ends, whoever still waits for it.
type loads struct {
	underway map[Incarnation]sharding.Entity
	of       map[sharding.Entity]int
}

func newLoads() loads {
	return loads{underway: map[Incarnation]sharding.Entity{}, of: map[sharding.Entity]int{}}
}

func (l *loads) began(inc Incarnation, id sharding.Entity) {
	l.underway[inc] = id
	l.of[id]++
}

// ended takes note of an answer, the first one to that load.
func (l *loads) ended(inc Incarnation) {
	id, ok := l.underway[inc]
	if !ok {
		return
	}
	delete(l.underway, inc)
	if l.of[id]--; l.of[id] == 0 {
		delete(l.of, id)
	}
}

// mayLoad reports whether one more load of the entity may begin.
func (m *Machine) mayLoad(id sharding.Entity) bool {
	return len(m.loads.underway) < m.cfg.TotalLoads && m.loads.of[id] < m.cfg.EntityLoads
}
