package turn

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/roost-cluster/roost/libs/sharding"
)

// recentIDs remembers which commands have left a record, for all live entities together,
// in a hash table whose newer entries overwrite older ones. It only decides whether a
// lookup in the journal is worth while: a forgotten id costs a reload, a hash collision an
// unneeded lookup.
type recentIDs struct {
	size  int
	table []uint64 // nil until the first id is added; 0: free
}

func recentKey(inc Incarnation, id sharding.CommandID) uint64 {
	// The keys of another incarnation differ, so that nothing has to be removed when
	// an incarnation ends.
	return (xxhash.Sum64String(string(id)) ^ uint64(inc)*0x9e3779b97f4a7c15) | 1
}

func (r *recentIDs) add(inc Incarnation, id sharding.CommandID) {
	if r.size == 0 {
		return
	}
	if r.table == nil {
		r.table = make([]uint64, r.size)
	}
	key := recentKey(inc, id)
	r.table[key%uint64(r.size)] = key
}

func (r *recentIDs) mayBeStored(inc Incarnation, id sharding.CommandID) bool {
	if r.table == nil {
		return false
	}
	key := recentKey(inc, id)
	return r.table[key%uint64(r.size)] == key
}

func (r *recentIDs) clone() recentIDs { return recentIDs{r.size, slices.Clone(r.table)} }
