package turn

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/roost-cluster/roost/libs/sharding"
)

// recent remembers which commands have left a record, of all living entities
// together, in a table in which a new one takes the place of whichever has the
// same slot. It only says where a look into the journal is worth while: what it
// has forgotten costs a reload, and what it takes for another one a look.
type recent struct {
	size  int
	table []uint64 // nil until the first one comes; 0: free
}

func recentKey(inc Incarnation, id sharding.CommandID) uint64 {
	// Another incarnation of the entity has other keys, so that nothing needs to
	// be taken out when one ends.
	return (xxhash.Sum64String(string(id)) ^ uint64(inc)*0x9e3779b97f4a7c15) | 1
}

func (r *recent) add(inc Incarnation, id sharding.CommandID) {
	if r.size == 0 {
		return
	}
	if r.table == nil {
		r.table = make([]uint64, r.size)
	}
	key := recentKey(inc, id)
	r.table[key%uint64(r.size)] = key
}

func (r *recent) has(inc Incarnation, id sharding.CommandID) bool {
	if r.table == nil {
		return false
	}
	key := recentKey(inc, id)
	return r.table[key%uint64(r.size)] == key
}

func (r *recent) clone() recent { return recent{r.size, slices.Clone(r.table)} }
