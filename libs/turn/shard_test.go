package turn

import (
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestAddAndRemove removes entities at the front, at the back and in the middle of
// a shard's list.
func TestAddAndRemove(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {0, 3, 1, 2}} {
		m := &Machine{slots: make(slots, 1)}
		s := &shard{typ: &typeState{}}
		var es []*entity
		for _, id := range []sharding.EntityID{"a", "b", "c", "d"} {
			e := &entity{id: id, shard: s}
			e.inc = incarnation(m.slots.alloc(e), 1)
			m.add(s, e)
			es = append(es, e)
		}
		for n, i := range order {
			m.remove(es[i])
			if left := len(order) - n - 1; len(s.entities) != left || s.typ.entities.count != left {
				t.Fatalf("%v: %d and %d entities after exit %d, want %d", order, len(s.entities), s.typ.entities.count, n, left)
			}
			for at, slot := range s.entities {
				e := m.slots[slot].entity
				if e.shardIndex != uint32(at) || e == es[i] || m.lookUp(s.typ, e.id) != e {
					t.Fatalf("%v: entity %s is lost after exit %d", order, e.id, n)
				}
			}
		}
	}
}
