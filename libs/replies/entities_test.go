package replies

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

// TestEntities compares the table with a map: entities come and go, and many are in the same bucket.
func TestEntities(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	var table entities
	want := map[uint64]*entity{}
	var ids []uint64
	for n := range 20_000 {
		if grows := n/2000%2 == 0; len(ids) == 0 || grows && r.IntN(3) > 0 || r.IntN(3) == 0 {
			id := r.Uint64() << (8 * r.IntN(6)) // the low bits are often 0
			if got := table.find(id); got != want[id] {
				t.Fatalf("seed %d: found %v, want %v", seed, got, want[id])
			}
			if want[id] == nil {
				e := &entity{id: id}
				table.add(e)
				want[id], ids = e, append(ids, id)
			}
			continue
		}
		i := r.IntN(len(ids))
		e := want[ids[i]]
		table.remove(e)
		if e.next != nil || table.find(e.id) != nil {
			t.Fatalf("seed %d: %v is still there", seed, e)
		}
		delete(want, e.id)
		ids = slices.Delete(ids, i, i+1)
	}
	for _, id := range ids {
		if table.find(id) != want[id] {
			t.Fatalf("seed %d: %d is not found", seed, id)
		}
	}
	if table.count != len(ids) {
		t.Fatalf("seed %d: counted %d entities; there are %d", seed, table.count, len(ids))
	}
}

// TestChosenIDs: clients that know how shards are found cannot choose ids that are all in one bucket.
func TestChosenIDs(t *testing.T) {
	var a Account
	for n, chosen := 0, 0; chosen < 256; n++ {
		id := fmt.Sprint("id-", n)
		if sharding.EntityID(id).Hash()%256 == 0 {
			a.entity(sharding.Entity{Type: "T", ID: sharding.EntityID(id)})
			chosen++
		}
	}
	longest := 0
	for _, e := range a.entities.buckets {
		length := 0
		for ; e != nil; e = e.next {
			length++
		}
		longest = max(longest, length)
	}
	if longest > 32 {
		t.Errorf("%d of %d entities are in one of %d buckets", longest, a.entities.count, len(a.entities.buckets))
	}
}
