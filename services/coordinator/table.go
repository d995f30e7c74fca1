package coordinator

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
)

// table is the route table: the types and their rows, the counts that follow from the rows, the changes for deltas, and
// the watches.
type table struct {
	types []*typeTable // sorted by type
	// generation is the generation of the journal that has the facts; 0: not known.
	generation sharding.Generation
	allocated  int  // rows that were ever allocated
	untold     bool // row.untold is set in some row
	// expectedShards counts, for all types, the shards that a node has when what is in progress has
	// ended.
	expectedShards map[sharding.NodeID]int
	// loads has the known loads of these shards, summed up by node.
	loads map[sharding.NodeID]sharding.Load
	// version is the term, and the number of changes in it. log has the changes after number base.
	version sharding.Version
	base    uint64
	log     []change
	// whole is the whole table as it was last sent, see method full.
	whole sharding.TableDelta
	watches
}

// typeTable is one declared type with its part of the route table.
type typeTable struct {
	desc    sharding.TypeDesc
	changed uint64          // the number of the last change of desc
	number  uint64          // the number of the type's newest fact in this term
	forms   []sharding.Form // all forms that were ever registered; only appended to
	by      []string        // the application versions that have registered these forms first, as far as known
	rows    []row           // one per shard, unallocated ones included
	transit int             // rows that are starting with an owner, or handing off
	fencing int             // rows that wait to be fenced before the stored data is looked at
	host    string          // a region that hosts the type, or the last one in this term that did
	// unhosted is the time when the type lost its last host, in this term; zero: some region hosts the type.
	unhosted time.Time
	// quarantineChanged is the number of the last change of the quarantined entities and suspects, in this term.
	quarantineChanged uint64
	// loads has the known loads of the shards, by index. shown has the same for views. nil: no load is known.
	loads    []shardLoad
	shown    []allocation.ShardLoad
	owned    []holding // by owner
	expected []holding // by the node that will have the shards when what is in progress has ended
}

// row is a row of the route table, with what the coordinator knows about it.
type row struct {
	sharding.Row
	// before has the forms in which earlier owners may have stored something. may has the forms in which
	// the present owner may store something.
	before, may sharding.FormSet
	successor   sharding.NodeID // the region that is to get the shard next; zero: none was chosen yet
	cause       sharding.Cause  // why the shard is at its owner, or leaves
	// next is the reserved epoch; 0: there is none. nextMay has the forms in which the successor may store
	// something at that epoch.
	next    sharding.Epoch
	nextMay sharding.FormSet
	// released is true if the successor may claim the shard: the owner has released the shard, is lost, or has not
	// released it in time. leaves has the forms in which something may be stored at that time. Neither is in a fact,
	// so a new coordinator orders the owner again to release the shard.
	released bool
	leaves   sharding.FormSet
	previous control.Previous
	changed  uint64    // the number of the last change
	number   uint64    // the number of the row's newest fact in this term
	since    time.Time // when the row came into this phase, in this term
	asked    time.Time // when its owner, or the successor, was last given an order
	// tries counts refusals and timeouts while the row is starting. While it is serving, tries counts the
	// questions to the owner about refused commands.
	tries uint8
	look  look
	// losses are the last holders that were lost, oldest first; all but the oldest one soon after they were given the
	// shard. The holder is the region that awaited returns.
	// given is the time when the present owner got the shard, in this term. lostSince is the time when the present
	// holder was lost; zero: it is not lost.
	losses    []sharding.NodeID
	given     time.Time
	lostSince time.Time
	// untold is true until the log reports that no region reads the shard.
	untold bool
	// wanted is true if commands wait for a shard that was never allocated, and could not be when a gateway asked.
	wanted bool
}

// expectedOwner returns the node that will have the shard when what is in progress has ended.
func (r *row) expectedOwner() sharding.NodeID { return cmp.Or(r.successor, r.Owner) }

// awaited returns the region that must carry out an order, for a row in transit: the owner, or the
// successor if it may claim the shard.
func (r *row) awaited() sharding.NodeID {
	if r.released {
		return r.successor
	}
	return r.Owner
}

// holding lists the shards of one type that one node owns, or is to own, oldest allocation
// first. A table lists its holdings by node; none is empty.
type holding struct {
	node   sharding.NodeID
	shards []sharding.ShardID
}

// transit returns the part of the row that the budget counts.
func (r *row) transit() budget.Transit {
	return budget.Transit{Row: r.Row, Successor: r.successor, Cause: r.cause}
}

// inTransit reports whether a region has an order for the row that it has not carried out yet.
func inTransit(r sharding.Row) bool {
	return r.Phase == sharding.HandingOff || r.Phase == sharding.Starting && !r.Owner.IsZero()
}

// countExpected counts the shards of all types that a node has when what is in progress has
// ended.
func (tab *table) countExpected(node sharding.NodeID, change int) {
	if node.IsZero() {
		return
	}
	if tab.expectedShards == nil {
		tab.expectedShards = map[sharding.NodeID]int{}
	}
	if tab.expectedShards[node] += change; tab.expectedShards[node] == 0 {
		delete(tab.expectedShards, node)
	}
}

// release takes a shard off a node's list.
func (t *typeTable) release(list *[]holding, node sharding.NodeID, r sharding.Row) {
	i, found := searchHolding(*list, node)
	if !found {
		return
	}
	h := &(*list)[i]
	for at := t.searchEpoch(h.shards, r.Epoch); at < len(h.shards); at++ {
		if h.shards[at] != r.Shard {
			continue
		}
		if at == 0 { // the usual case when an owner is lost; no element need be moved
			h.shards = h.shards[1:]
		} else {
			h.shards = slices.Delete(h.shards, at, at+1)
		}
		break
	}
	if len(h.shards) == 0 {
		*list = slices.Delete(*list, i, i+1)
	}
}

// hold puts a shard on a node's list, by epoch: the order of allocation.
func (t *typeTable) hold(list *[]holding, node sharding.NodeID, r sharding.Row) {
	if node.IsZero() {
		return
	}
	i, found := searchHolding(*list, node)
	if !found {
		*list = slices.Insert(*list, i, holding{node: node})
	}
	h := &(*list)[i]
	h.shards = slices.Insert(h.shards, t.searchEpoch(h.shards, r.Epoch), r.Shard)
}

func searchHolding(list []holding, node sharding.NodeID) (int, bool) {
	return slices.BinarySearchFunc(list, node, func(h holding, n sharding.NodeID) int { return h.node.Compare(n) })
}

func (t *typeTable) searchEpoch(shards []sharding.ShardID, e sharding.Epoch) int {
	i, _ := slices.BinarySearchFunc(shards, e, func(s sharding.ShardID, e sharding.Epoch) int {
		return cmp.Compare(t.rows[s.Index].Epoch, e)
	})
	return i
}

// shardsOf returns the shards that the node owns.
func (t *typeTable) shardsOf(node sharding.NodeID) []sharding.ShardID {
	return shardsIn(t.owned, node)
}

func shardsIn(list []holding, node sharding.NodeID) []sharding.ShardID {
	if i, found := searchHolding(list, node); found {
		return list[i].shards
	}
	return nil
}

func (tab *table) searchType(name sharding.EntityType) (int, bool) {
	return slices.BinarySearchFunc(tab.types, name, func(t *typeTable, n sharding.EntityType) int {
		return cmp.Compare(t.desc.Type, n)
	})
}

// find returns the row of a shard, or nil if there is no such shard.
func (tab *table) find(s sharding.ShardID) (*typeTable, *row) {
	i, found := tab.searchType(s.Type)
	if !found || int64(s.Index) >= int64(len(tab.types[i].rows)) {
		return nil, nil
	}
	return tab.types[i], &tab.types[i].rows[s.Index]
}

// rowOf returns the row of an entity's shard; nil: there is no such type.
func (tab *table) rowOf(e sharding.Entity) (*typeTable, *row) {
	i, found := tab.searchType(e.Type)
	if !found {
		return nil, nil
	}
	return tab.find(tab.types[i].desc.ShardOf(e.ID))
}

// shardsOf counts the rows that name the node as owner, in any phase.
func (tab *table) shardsOf(node sharding.NodeID) int {
	n := 0
	for _, t := range tab.types {
		n += len(t.shardsOf(node))
	}
	return n
}

// involving counts the shards that a region has, and those that are on their way to it. As long as there
// are any, commands are interrupted if the region stops.
func (tab *table) involving(node sharding.NodeID) (n int) {
	for _, t := range tab.types {
		n += len(t.shardsOf(node))
		for _, s := range shardsIn(t.expected, node) {
			// Invariant: a drain is over when the region has no shard, and none is on its way to it.
			// Guarded by: `table.involving` counts both.
			// Mutants: drain-coming
			n += toInt(t.rows[s.Index].Owner != node) //mutant:false drain-coming t.rows[s.Index].Owner != node
		}
	}
	return n
}

// declared counts the shards of all types, allocated or not.
func (tab *table) declared() (n int) {
	for _, t := range tab.types {
		n += len(t.rows)
	}
	return n
}

// findType returns the entity type that a request names.
func (tab *table) findType(typ sharding.EntityType) (*typeTable, error) {
	i, found := tab.searchType(typ)
	if found {
		return tab.types[i], nil
	}
	if err := sharding.CheckEntityType("type", typ); err != nil {
		return nil, refuse(Malformed, "%v", err)
	}
	var known []string
	for _, t := range tab.types {
		known = append(known, string(t.desc.Type))
	}
	if known == nil {
		return nil, refuse(NotFound, "no entity type %s: no region has registered one yet", typ)
	}
	return nil, refuse(NotFound, "no entity type %s; declared are %s", typ, strings.Join(known, ", "))
}

// findShard returns the shard that a request names.
func (tab *table) findShard(s sharding.ShardID) (*typeTable, *row, error) {
	t, err := tab.findType(s.Type)
	if err != nil {
		return nil, nil, err
	}
	if int64(s.Index) >= int64(len(t.rows)) {
		return nil, nil, refuse(NotFound, "type %s has %d shards, 0 to %d; roost shard show finds the shard of an entity", s.Type, len(t.rows), len(t.rows)-1)
	}
	return t, &t.rows[s.Index], nil
}

// OwnerOf returns the region that owns a shard; the zero node: none does, or there is no such shard.
func (tab *table) OwnerOf(s sharding.ShardID) sharding.NodeID {
	if _, r := tab.find(s); r != nil {
		return r.Owner
	}
	return sharding.NodeID{}
}

// ShardOf returns the shard of an entity; the zero shard: its type is not declared.
func (tab *table) ShardOf(e sharding.Entity) sharding.ShardID {
	if i, found := tab.searchType(e.Type); found {
		return tab.types[i].desc.ShardOf(e.ID)
	}
	return sharding.ShardID{}
}
