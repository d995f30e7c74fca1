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
	changed uint64          // n of the last change of desc
	number  uint64          // of its newest fact in this term
	forms   []sharding.Form // all that were ever registered; only appended to
	by      []string        // the versions that registered them first, as far as known
	rows    []row           // one per shard, unallocated ones included
	transit int             // rows that are starting with an owner, or handing off
	fencing int             // rows that wait to be fenced, to be looked at
	host    string          // the region that hosts it, or did last in this term
	// unhosted is since when none does, in this term; zero: some region does.
	unhosted time.Time
	pins     []PinFact // sorted by shard
	// pinned has the pins for views; nil: not made since the last change.
	pinned map[sharding.ShardID]string
	// loads are what is known of the loads of the shards, by index, and shown the same for views;
	// nil: nothing is.
	loads    []shardLoad
	shown    []allocation.ShardLoad
	owned    []holding // by owner
	expected []holding // by who has the shards when what is under way has ended
}

// row is a line of the table and what the coordinator remembers about it.
type row struct {
	sharding.Row
	// before are the forms that earlier owners may have stored, may those that the owner
	// may store.
	before, may sharding.FormSet
	successor   sharding.NodeID // who is to get the shard next; zero: anybody
	cause       sharding.Cause  // why the shard is at its owner, or leaves
	// next is the epoch that is reserved for the successor, 0: none is; nextMay are the forms
	// that it may store then.
	next    sharding.Epoch
	nextMay sharding.FormSet
	// released says that the successor may claim the shard: the owner has released the shard, is
	// lost, or has had its time. leaves are the forms in which something may be stored then. A new
	// coordinator asks the owner again.
	released bool
	leaves   sharding.FormSet
	previous control.Previous
	changed  uint64    // n of the last change
	number   uint64    // of its newest fact in this term
	since    time.Time // when it came into this phase, in this term
	asked    time.Time // when its owner was last asked for something
	// tries counts failed allocations while it is starting, and questions to
	// the owner about refused commands while it is serving.
	tries uint8
	look  look
	// untold says that the log does not know yet that no region reads the shard.
	untold bool
}

// expected returns who has the shard when what is under way has ended.
func (r *row) expected() sharding.NodeID { return cmp.Or(r.successor, r.Owner) }

// awaited returns the region that has been asked for something, for a row in transit: the
// owner, or the successor when it may claim the shard.
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

// inTransit reports whether the owner has been asked for something and has not
// done it yet.
func inTransit(r sharding.Row) bool {
	return r.Phase == sharding.HandingOff || r.Phase == sharding.Starting && !r.Owner.IsZero()
}

// commit is the one way in which the table changes while the term lasts: the
// fact is applied and persisted, then follows what depends on it. The watches
// are answered at the end of the Step, thus also after it.
func (m *Machine) commit(f Fact, consequences ...Output) {
	m.apply(f)
	if mutant.On("persist-before-send") {
		m.out = append(m.out, consequences...)
		m.wake()
		m.persist(f)
		return
	}
	m.persist(f)
	m.out = append(m.out, consequences...)
}

// persist gives a fact out and remembers its number where it is about.
func (m *Machine) persist(f Fact) {
	m.persisted++
	if row, ok := f.(RowFact); ok && mutant.On("forms-in-facts") {
		f = RowFact{Row: row.Row, Cause: row.Cause}
	}
	m.emit(Persist{Fact: f})
	switch f := f.(type) {
	case RowFact:
		if _, r := m.find(f.Row.Shard); r != nil {
			r.number = m.persisted
		}
	case TypeFact:
		if i, found := m.searchType(f.Desc.Type); found {
			m.types[i].number = m.persisted
		}
	case TargetFact:
		m.targetFact = m.persisted
	case CordonFact, FreezeFact, PinFact, MoveFact:
		m.steering.number = m.persisted
	}
}

// apply changes the table, live and in replay. A fact that is not newer than
// the table, or makes no sense, changes nothing.
func (m *Machine) apply(f Fact) {
	switch f := f.(type) {
	case TypeFact:
		m.applyType(f)
	case RowFact:
		m.applyRow(f)
	case DrainFact:
		m.applyDrain(f)
	case TargetFact:
		m.applyTarget(f)
	case CordonFact:
		m.applyCordon(f)
	case FreezeFact:
		m.applyFreeze(f)
	case PinFact:
		m.applyPin(f)
	case MoveFact:
		m.applyMove(f)
	case UnknownFact:
		m.keepUnknown(f)
	}
}

// keepUnknown keeps a fact for the release that knows it: checkpoints repeat it.
func (m *Machine) keepUnknown(f UnknownFact) {
	if mutant.On("unknown-facts-kept") {
		return
	}
	if i := slices.Index(m.unknown, f); i >= 0 {
		m.unknown = slices.Delete(m.unknown, i, i+1)
	}
	if m.unknown = append(m.unknown, f); len(m.unknown) > m.cfg.MaxUnknownFacts {
		m.unknown = slices.Delete(m.unknown, 0, 1)
	}
}

func (m *Machine) applyDrain(f DrainFact) {
	if mutant.On("drain-kept") && m.active && !m.recovered {
		return // a wish of an earlier term
	}
	i, found := slices.BinarySearchFunc(m.drained, f.Region, sharding.NodeID.Compare)
	switch {
	case f.Region.IsZero():
		return
	case f.Resume && found:
		m.drained = slices.Delete(m.drained, i, i+1)
	case !f.Resume && !found:
		m.drained = slices.Insert(m.drained, i, f.Region)
	}
	if r := m.region(f.Region); r != nil {
		r.draining = !f.Resume
	}
}

func (m *Machine) applyType(f TypeFact) {
	d := f.Desc
	if d.Shards == 0 || d.Shards > sharding.MaxShards || d.Rule.Check() != nil {
		return
	}
	i, found := m.searchType(d.Type)
	if !found {
		t := &typeTable{rows: make([]row, d.Shards)}
		for s := range t.rows {
			t.rows[s].Shard = sharding.ShardID{Type: d.Type, Index: uint32(s)}
		}
		m.types = slices.Insert(m.types, i, t)
	} else if old := &m.types[i].desc; old.Shards != d.Shards || old.Rule != d.Rule || old.Volatile != d.Volatile {
		return
	}
	t := m.types[i]
	t.desc = d
	if n := len(t.forms); len(f.Forms) >= n && slices.Equal(f.Forms[:n], t.forms) {
		t.forms = f.Forms
		t.by = append(slices.Clip(f.By[:min(len(f.By), len(t.forms))]), make([]string, max(0, len(t.forms)-len(f.By)))...)
		m.learnForms(t)
	}
	t.changed = m.count(change{shard: sharding.ShardID{Type: d.Type}, isType: true})
}

func (m *Machine) applyRow(f RowFact) {
	next := f.Row
	t, r := m.find(next.Shard)
	if r == nil || !next.Newer(r.Row) || next.Epoch == 0 ||
		next.Phase < sharding.Starting || next.Phase > sharding.HandingOff ||
		next.Owner.IsZero() && next.Phase != sharding.Starting || !next.Owner.IsZero() && next.Reason != 0 ||
		f.Next != 0 && (next.Phase != sharding.HandingOff || f.Successor.IsZero() || f.Next <= next.Epoch) {
		return
	}
	before, last, was := *r, r.Row, r.expected()
	becomes := cmp.Or(f.Successor, next.Owner)
	owned, expected := next.Owner != last.Owner || next.Epoch != last.Epoch, becomes != was || next.Epoch != last.Epoch
	if owned {
		t.release(&t.owned, last.Owner, last)
	}
	if expected {
		t.release(&t.expected, was, last)
		m.countExpected(was, -1)
	}
	r.Row, r.before, r.may, r.successor, r.previous, r.cause = next, f.Before, f.May, f.Successor, f.Previous, f.Cause
	r.next, r.nextMay, r.released, r.leaves = f.Next, f.NextMay, false, ""
	if owned {
		t.hold(&t.owned, next.Owner, next)
	}
	if expected {
		t.hold(&t.expected, becomes, next)
		m.countExpected(becomes, 1)
	}
	if t.loads != nil {
		m.shiftLoad(was, becomes, t.loads[next.Shard.Index].Load)
	}
	m.allocated += one(last.Epoch == 0)
	m.endMove(next)
	t.transit += one(inTransit(next)) - one(inTransit(last))
	m.budget.count(&before, r)
	for _, e := range []sharding.Epoch{next.Epoch, f.Next} {
		if e.Term() == m.term && (e != f.Next || !mutant.On("next-counted")) {
			m.counter = max(m.counter, e.Counter())
		}
	}
	r.since, r.asked = m.now, time.Time{}
	t.fencing -= one(r.look == fencing)
	r.look = notLooked
	switch {
	case next.Phase != sharding.Starting || last.Phase != sharding.Starting:
		r.tries = 0
	case !last.Owner.IsZero() && r.tries < quickTries:
		r.tries++
	}
	r.changed = m.count(change{shard: next.Shard})
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// countExpected counts the shards of all types that a node has when what is under way has
// ended.
func (m *Machine) countExpected(node sharding.NodeID, change int) {
	if node.IsZero() {
		return
	}
	if m.expected == nil {
		m.expected = map[sharding.NodeID]int{}
	}
	if m.expected[node] += change; m.expected[node] == 0 {
		delete(m.expected, node)
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
		if at == 0 { // the rule when an owner is lost: nothing is moved then
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

// shardsOf returns the shards of which the node is the owner.
func (t *typeTable) shardsOf(node sharding.NodeID) []sharding.ShardID {
	return shardsIn(t.owned, node)
}

func shardsIn(list []holding, node sharding.NodeID) []sharding.ShardID {
	if i, found := searchHolding(list, node); found {
		return list[i].shards
	}
	return nil
}

func (m *Machine) searchType(name sharding.EntityType) (int, bool) {
	return slices.BinarySearchFunc(m.types, name, func(t *typeTable, n sharding.EntityType) int {
		return cmp.Compare(t.desc.Type, n)
	})
}

// find returns the row of a shard, or nil if there is no such shard.
func (m *Machine) find(s sharding.ShardID) (*typeTable, *row) {
	i, found := m.searchType(s.Type)
	if !found || int64(s.Index) >= int64(len(m.types[i].rows)) {
		return nil, nil
	}
	return m.types[i], &m.types[i].rows[s.Index]
}
