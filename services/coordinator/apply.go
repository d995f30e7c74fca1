package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/allocation"
	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/mutant"
	"github.com/roost-cluster/roost/libs/sharding"
)

// typeTable is one declared type with its part of the route table.
type typeTable struct {
	desc    sharding.TypeDesc
	changed uint64          // the Machine.n of the last change of desc
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
	changed  uint64    // the Machine.n of the last change
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

// inTransit reports whether a region has an order for the row that it has not carried out yet.
func inTransit(r sharding.Row) bool {
	return r.Phase == sharding.HandingOff || r.Phase == sharding.Starting && !r.Owner.IsZero()
}

// commit is the only way in which the table changes while the term lasts. The fact is applied and
// persisted; the outputs that depend on it come after it. Watches are answered at the end of the Step,
// so after it too.
func (tr *transit) commit(f Fact, consequences ...Output) {
	tr.apply(f)
	if mutant.On("persist-before-send") {
		tr.out = append(tr.out, consequences...)
		tr.table.wake(&tr.step)
		tr.persist(f, false)
		return
	}
	tr.persist(f, false)
	tr.out = append(tr.out, consequences...)
}

// commitJoined does the same for a fact that must not be stored without the one before it, nor that one
// without this.
func (tr *transit) commitJoined(f Fact) {
	tr.apply(f)
	tr.persist(f, !mutant.On("request-one-record"))
}

// persist emits a fact to be stored, and notes its number at what the fact is about.
func (tr *transit) persist(f Fact, joined bool) {
	tr.ledger.lastFact++
	if row, ok := f.(RowFact); ok && mutant.On("forms-in-facts") {
		f = RowFact{Row: row.Row, Cause: row.Cause}
	}
	tr.emit(Persist{Fact: f, Joined: joined})
	switch f := f.(type) {
	case RowFact:
		if _, r := tr.table.find(f.Row.Shard); r != nil {
			r.number = tr.ledger.lastFact
		}
	case TypeFact:
		if i, found := tr.table.searchType(f.Desc.Type); found {
			tr.table.types[i].number = tr.ledger.lastFact
		}
	case TargetFact:
		tr.ledger.targetFact = tr.ledger.lastFact
	case DrainFact, CordonFact, FreezeFact, PinFact, MoveFact, QuarantineFact:
		tr.ledger.wishFact = tr.ledger.lastFact
	}
}

// apply changes the table, live and in replay. A fact that is not newer than
// the table, or makes no sense, changes nothing.
func (tr *transit) apply(f Fact) {
	switch f := f.(type) {
	case TypeFact:
		tr.applyType(f)
	case RowFact:
		tr.applyRow(f)
	case DrainFact:
		tr.applyDrain(f)
	case TargetFact, CordonFact, FreezeFact:
		tr.intent.Apply(f, tr.term.recovered)
	case PinFact:
		if _, r := tr.table.find(f.Shard); r != nil {
			tr.intent.Apply(f, tr.term.recovered)
		}
	case MoveFact:
		tr.applyMove(f)
	case QuarantineFact:
		tr.applyQuarantine(f)
	case LossFact:
		tr.ledger.lost = true
	case UnknownFact:
		tr.keepUnknown(f)
	}
}

// keepUnknown keeps a fact for the release that knows it: checkpoints repeat it.
func (tr *transit) keepUnknown(f UnknownFact) {
	if mutant.On("unknown-facts-kept") {
		return
	}
	if i := slices.Index(tr.ledger.unknown, f); i >= 0 {
		tr.ledger.unknown = slices.Delete(tr.ledger.unknown, i, i+1)
	}
	if tr.ledger.unknown = append(tr.ledger.unknown, f); len(tr.ledger.unknown) > tr.cfg.MaxUnknownFacts {
		tr.ledger.unknown = slices.Delete(tr.ledger.unknown, 0, 1)
	}
}

func (tr *transit) applyDrain(f DrainFact) {
	tr.intent.Apply(f, tr.term.recovered)
	if r := tr.live.region(f.Region); r != nil {
		_, r.draining = tr.intent.Drain(f.Region)
	}
}

// applyMove keeps the wish as long as the shard is handed off: then the move was carried out,
// or something else has happened to the shard. The fact of the row comes first.
func (tr *transit) applyMove(f MoveFact) {
	if _, r := tr.table.find(f.Shard); r != nil && f.Epoch == r.Epoch && r.Phase == sharding.HandingOff && !r.successor.IsZero() {
		tr.intent.Apply(f, tr.term.recovered)
	}
}

func (tr *transit) applyType(f TypeFact) {
	d := f.Desc
	if d.Shards == 0 || d.Shards > sharding.MaxShards || d.Rule.Check() != nil {
		return
	}
	i, found := tr.table.searchType(d.Type)
	if !found {
		t := &typeTable{rows: make([]row, d.Shards)}
		for s := range t.rows {
			t.rows[s].Shard = sharding.ShardID{Type: d.Type, Index: uint32(s)}
		}
		tr.table.types = slices.Insert(tr.table.types, i, t)
	} else if old := &tr.table.types[i].desc; old.Shards != d.Shards || old.Rule != d.Rule || old.Volatile != d.Volatile {
		return
	}
	t := tr.table.types[i]
	t.desc = d
	t.desc.Quarantined = tr.quarantine.Shown(d.Type)
	if n := len(t.forms); len(f.Forms) >= n && slices.Equal(f.Forms[:n], t.forms) {
		t.forms = f.Forms
		t.by = append(slices.Clip(f.By[:min(len(f.By), len(t.forms))]), make([]string, max(0, len(t.forms)-len(f.By)))...)
		tr.live.learnForms(t)
	}
	t.changed = tr.table.count(&tr.step, change{shard: sharding.ShardID{Type: d.Type}, isType: true})
}

func (tr *transit) applyRow(f RowFact) {
	next := f.Row
	t, r := tr.table.find(next.Shard)
	if r == nil || !next.Newer(r.Row) || next.Epoch == 0 ||
		next.Phase < sharding.Starting || next.Phase > sharding.HandingOff ||
		next.Owner.IsZero() && next.Phase != sharding.Starting || !next.Owner.IsZero() && next.Reason != 0 ||
		f.Next != 0 && (next.Phase != sharding.HandingOff || f.Successor.IsZero() || f.Next <= next.Epoch) {
		return
	}
	before, last, was := *r, r.Row, r.expectedOwner()
	becomes := cmp.Or(f.Successor, next.Owner)
	owned, expected := next.Owner != last.Owner || next.Epoch != last.Epoch, becomes != was || next.Epoch != last.Epoch
	if owned {
		t.release(&t.owned, last.Owner, last)
	}
	if expected {
		t.release(&t.expected, was, last)
		tr.table.countExpected(was, -1)
	}
	r.Row, r.before, r.may, r.successor, r.previous, r.cause = next, f.Before, f.May, f.Successor, f.Previous, f.Cause
	r.next, r.nextMay, r.released, r.leaves = f.Next, f.NextMay, false, ""
	if owned {
		t.hold(&t.owned, next.Owner, next)
	}
	if expected {
		t.hold(&t.expected, becomes, next)
		tr.table.countExpected(becomes, 1)
	}
	if t.loads != nil {
		tr.table.shiftLoad(was, becomes, t.loads[next.Shard.Index].Load)
	}
	tr.table.allocated += toInt(last.Epoch == 0)
	tr.intent.EndMove(next)
	t.transit += toInt(inTransit(next)) - toInt(inTransit(last))
	tr.budget.count(&before, r)
	for _, e := range []sharding.Epoch{next.Epoch, f.Next} {
		if e.Term() == tr.term.number && (e != f.Next || !mutant.On("next-counted")) {
			tr.term.counter = max(tr.term.counter, e.Counter())
		}
	}
	if next.Owner != last.Owner {
		r.given = tr.now
	}
	r.since, r.asked, r.lostSince = tr.now, time.Time{}, time.Time{}
	t.fencing -= toInt(r.look == fencing)
	r.look = notLooked
	switch {
	case next.Phase != sharding.Starting || last.Phase != sharding.Starting:
		r.tries = 0
	case !last.Owner.IsZero() && r.tries < quickTries:
		r.tries++
	}
	r.changed = tr.table.count(&tr.step, change{shard: next.Shard})
}

// toInt returns 1 for true, and 0 for false.
func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
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
