package turn

import "github.com/roost-cluster/roost/libs/sharding"

// loads tracks the loads that the driver has not answered, including those that
// the core no longer waits for: until a load ends, it costs the driver a goroutine
// and one of the journal's load tokens.
type loads struct {
	inFlight  map[Incarnation]sharding.Entity
	perEntity map[sharding.Entity]int
}

func newLoads() loads {
	return loads{inFlight: map[Incarnation]sharding.Entity{}, perEntity: map[sharding.Entity]int{}}
}

func (l *loads) start(inc Incarnation, id sharding.Entity) {
	l.inFlight[inc] = id
	l.perEntity[id]++
}

// done records the first answer to a load.
func (l *loads) done(inc Incarnation) {
	id, ok := l.inFlight[inc]
	if !ok {
		return
	}
	delete(l.inFlight, inc)
	if l.perEntity[id]--; l.perEntity[id] == 0 {
		delete(l.perEntity, id)
	}
}

// mayLoad reports whether one more load of the entity may begin, for a command that has a
// chain or not.
func (m *Machine) mayLoad(id sharding.Entity, chained bool) bool {
	return len(m.loads.inFlight) < m.room(chained).Loads && m.loads.perEntity[id] < m.cfg.EntityLoads
}
