package turn

import (
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestAddAndRemove removes entities at the front, at the back and in the middle of
// a shard's list.
func TestAddAndRemove(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {0, 3, 1, 2}} {
		s := &shard{typ: &typeState{entities: map[sharding.EntityID]*entity{}}}
		var es []*entity
		for _, id := range []sharding.EntityID{"a", "b", "c", "d"} {
			es = append(es, &entity{id: sharding.Entity{Type: "T", ID: id}})
			s.add(es[len(es)-1])
		}
		for n, i := range order {
			s.remove(es[i])
			if left := len(order) - n - 1; len(s.entities) != left || len(s.typ.entities) != left {
				t.Fatalf("%v: %d and %d entities after exit %d, want %d", order, len(s.entities), len(s.typ.entities), n, left)
			}
			for at, e := range s.entities {
				if e.shardIndex != uint32(at) || e == es[i] || s.typ.entities[e.id.ID] != e {
					t.Fatalf("%v: entity %s is lost after exit %d", order, e.id.ID, n)
				}
			}
		}
	}
}
