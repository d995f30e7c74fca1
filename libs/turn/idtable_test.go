package turn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestIDTable compares the table with a map while entities come and go.
func TestIDTable(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	var table idTable
	entities := make(slots, 1)
	want := map[sharding.EntityID]uint32{}
	var ids []sharding.EntityID
	check := func(id sharding.EntityID) {
		t.Helper()
		e, n := table.find(id, entities), want[id]
		if n == 0 && e != nil || n != 0 && e != entities[n].entity {
			t.Fatalf("seed %d: %s is found as %v, its slot is %d", seed, id, e, n)
		}
	}
	for n := range 60_000 {
		if grows := n/10_000%2 == 0; len(ids) == 0 || grows && r.IntN(4) > 0 || r.IntN(4) == 0 {
			id := sharding.EntityID(fmt.Sprint(r.IntN(20_000)))
			check(id)
			if want[id] == 0 {
				want[id], ids = entities.alloc(&entity{id: id}), append(ids, id)
				table.add(id, want[id])
				check(id)
			}
			continue
		}
		i := r.IntN(len(ids))
		id, slot := ids[i], want[ids[i]]
		table.remove(id, slot)
		entities.free(slot)
		delete(want, id)
		ids = slices.Delete(ids, i, i+1)
		check(id)
	}
	for n := range 20_000 {
		check(sharding.EntityID(fmt.Sprint(n)))
	}
	used := 0
	for i := range table.parts {
		used += table.parts[i].used
	}
	if table.count != len(ids) || used != len(ids) {
		t.Fatalf("seed %d: counted %d and %d entities; there are %d", seed, table.count, used, len(ids))
	}
}

// TestChosenIDs: clients that know how shards are found cannot choose ids that make lookups slow.
func TestChosenIDs(t *testing.T) {
	var table idTable
	for n := uint32(0); table.count < 256; n++ {
		if id := sharding.EntityID(fmt.Sprint("id-", n)); id.Hash()>>(64-idPartBits) == 0 {
			table.add(id, n+1)
		}
	}
	for i := range table.parts {
		if n := table.parts[i].used; n > 32 {
			t.Errorf("%d of %d entities are in one of %d parts", n, table.count, len(table.parts))
		}
	}
}

// TestEntityFitsACacheLine: see the comment of entity.
func TestEntityFitsACacheLine(t *testing.T) {
	if n := unsafe.Sizeof(entity{}); n > 64 {
		t.Errorf("an entity takes %d bytes", n)
	}
}
