package coordinator

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator/internal/budget"
	"github.com/roost-cluster/roost/services/coordinator/internal/intent"
)

// Check verifies what holds between any two steps: the order and the counts of everything kept, epochs that are
// unique and not above the counter, rows that make sense, and limits.
func (m *Machine) Check() error {
	if !slices.IsSortedFunc(m.live.regions, func(a, b region) int { return a.node.Compare(b.node) }) {
		return fmt.Errorf("regions are not sorted")
	}
	if !m.term.active {
		return m.checkStandby()
	}
	if len(m.term.held) > 0 {
		return fmt.Errorf("an active coordinator holds %d watches as a standby does", len(m.term.held))
	}
	if len(m.table.waiting) > m.cfg.MaxWatches {
		return fmt.Errorf("%d watches wait, at most %d may", len(m.table.waiting), m.cfg.MaxWatches)
	}
	if len(m.table.parked) > m.cfg.MaxWatches || len(m.table.parked) > 0 && m.ledger.stored == m.ledger.lastFact {
		return fmt.Errorf("%d watches are parked, %d of %d facts are stored", len(m.table.parked), m.ledger.stored, m.ledger.lastFact)
	}
	if m.table.told != m.table.version.N {
		return fmt.Errorf("watches wait at version %d, the table is at %d", m.table.told, m.table.version.N)
	}
	if len(m.table.log) > m.cfg.ChangeLog || m.table.base+uint64(len(m.table.log)) != m.table.version.N {
		return fmt.Errorf("the log holds %d changes after %d, the table is at %d", len(m.table.log), m.table.base, m.table.version.N)
	}
	if m.term.recovered && len(m.term.awaited) > 0 {
		return fmt.Errorf("recovered, but waiting for %v", m.term.awaited)
	}
	for i := range m.live.regions {
		r := &m.live.regions[i]
		if _, drained := m.intent.Drain(r.node); r.draining != drained {
			return fmt.Errorf("%v is drained: %t, and the facts say otherwise", r.node, r.draining)
		}
	}
	if err := m.checkIntent(); err != nil {
		return err
	}
	if err := m.checkQuarantine(); err != nil {
		return err
	}
	if err := m.checkExpected(); err != nil {
		return err
	}
	if err := m.checkLoads(); err != nil {
		return err
	}
	var epochs []sharding.Epoch
	allocated := 0
	for i, t := range m.table.types {
		if i > 0 && m.table.types[i-1].desc.Type >= t.desc.Type {
			return fmt.Errorf("types are not sorted at %q", t.desc.Type)
		}
		if err := t.check(); err != nil {
			return err
		}
		if err := m.checkReaders(t); err != nil {
			return err
		}
		for i := range t.rows {
			r := &t.rows[i]
			if r.Epoch.Term() > m.term.number || r.Epoch.Term() == m.term.number && r.Epoch.Counter() > m.term.counter {
				return fmt.Errorf("shard %v has epoch %v, the last one given out is %d.%d", r.Shard, r.Epoch, m.term.number, m.term.counter)
			}
			allocated += toInt(r.Epoch != 0)
			if r.Epoch != 0 {
				epochs = append(epochs, r.Epoch)
			}
			if r.next != 0 {
				epochs = append(epochs, r.next)
			}
			if r.next.Term() > m.term.number || r.next.Term() == m.term.number && r.next.Counter() > m.term.counter {
				return fmt.Errorf("epoch %v is reserved for the successor of %v, the last one given out is %d.%d", r.next, r.Shard, m.term.number, m.term.counter)
			}
		}
	}
	slices.Sort(epochs)
	for i := 1; i < len(epochs); i++ {
		if epochs[i] == epochs[i-1] {
			return fmt.Errorf("epoch %v was given out twice", epochs[i])
		}
	}
	if allocated != m.table.allocated {
		return fmt.Errorf("%d rows are allocated, %d are counted", allocated, m.table.allocated)
	}
	return m.budget.Check(&m.cfg.Config, m.table.transits())
}

// transits returns the parts of all rows that the budget counts.
func (tab *table) transits() iter.Seq[budget.Transit] {
	return func(yield func(budget.Transit) bool) {
		for _, t := range tab.types {
			for i := range t.rows {
				if !yield(t.rows[i].transit()) {
					return
				}
			}
		}
	}
}

// checkExpected checks how many shards of all types each node is to have.
func (pl *placement) checkExpected() error {
	counts := map[sharding.NodeID]int{}
	for _, t := range pl.table.types {
		for _, h := range t.expected {
			counts[h.node] += len(h.shards)
		}
	}
	if !maps.Equal(counts, pl.table.expectedShards) {
		return fmt.Errorf("%v are to have shards, %v are counted", counts, pl.table.expectedShards)
	}
	return nil
}

// checkLoads checks the sums of the loads of the shards that each node is to have.
func (pl *placement) checkLoads() error {
	sums := map[sharding.NodeID]sharding.Load{}
	for _, t := range pl.table.types {
		for i, l := range t.loads {
			node := t.rows[i].expectedOwner()
			if node.IsZero() || l.Load == (sharding.Load{}) {
				continue
			}
			sums[node] = sums[node].Plus(l.Load)
		}
	}
	if !maps.Equal(sums, pl.table.loads) {
		return fmt.Errorf("nodes have the loads %v, %v are counted", sums, pl.table.loads)
	}
	return nil
}

// checkIntent checks what operators want: its limits, that each move belongs to a shard that moves, and that each pin
// belongs to a shard.
func (tr *transit) checkIntent() error {
	if n := tr.intent.Len(intent.Cordons); n > tr.cfg.MaxCordons {
		return fmt.Errorf("%d names are cordoned, at most %d may be", n, tr.cfg.MaxCordons)
	}
	for f := range intent.All[MoveFact](&tr.intent, intent.Moves) {
		if _, r := tr.table.find(f.Shard); r == nil || r.Epoch != f.Epoch || r.Phase != sharding.HandingOff || r.successor.IsZero() {
			return fmt.Errorf("%v is moved to %s, and its row is %+v", f.Shard, f.Region, r)
		}
	}
	for p := range intent.All[PinFact](&tr.intent, intent.Pins) {
		if _, r := tr.table.find(p.Shard); r == nil {
			return fmt.Errorf("the pin %+v is about no shard", p)
		}
	}
	return tr.intent.Check()
}

func (m *Machine) checkStandby() error {
	if len(m.term.held) > m.cfg.MaxWatches {
		return fmt.Errorf("a standby holds %d watches, at most %d may be held", len(m.term.held), m.cfg.MaxWatches)
	}
	if m.planner.planning || len(m.table.expectedShards) > 0 {
		return fmt.Errorf("a standby waits for a plan: %t, and counts shards of %d nodes", m.planner.planning, len(m.table.expectedShards))
	}
	for kind := intent.Drains; kind <= intent.Moves; kind++ {
		if m.intent.Len(kind) > 0 {
			return fmt.Errorf("a standby knows what operators want: %+v", m.intent)
		}
	}
	if len(m.table.types) > 0 || len(m.table.waiting) > 0 || m.table.version.N > 0 || !m.budget.Idle() {
		return fmt.Errorf("a standby keeps %d types, %d watches, version %d", len(m.table.types), len(m.table.waiting), m.table.version.N)
	}
	for i := range m.live.regions {
		if r := &m.live.regions[i]; r.registered || r.shutdown || r.draining || r.journal != (journalHealth{}) {
			return fmt.Errorf("a standby remembers what %v said to a term", r.node)
		}
	}
	return nil
}

// checkReaders checks that every owner reads what may be stored in its shards.
func (pl *placement) checkReaders(t *typeTable) error {
	for i := range t.rows {
		r := &t.rows[i]
		forms := r.before.Union(r.may)
		if forms.End() > len(t.forms) {
			return fmt.Errorf("%v may have form %d, type %q has %d", r.Shard, forms.End()-1, t.desc.Type, len(t.forms))
		}
		if owner := pl.live.region(r.Owner); owner != nil && owner.hosts(t.desc.Type) && !owner.formsOf(t.desc.Type).reads.Contains(forms) {
			return fmt.Errorf("%v of %v does not read all that may be stored in it: %x of %x", r.Shard, r.Owner, string(owner.formsOf(t.desc.Type).reads), string(forms))
		}
	}
	return nil
}

func (t *typeTable) check() error {
	if len(t.rows) != int(t.desc.Shards) {
		return fmt.Errorf("type %q has %d rows for %d shards", t.desc.Type, len(t.rows), t.desc.Shards)
	}
	transit, owned, expected := 0, 0, 0
	for i := range t.rows {
		r := &t.rows[i]
		if want := (sharding.ShardID{Type: t.desc.Type, Index: uint32(i)}); r.Shard != want {
			return fmt.Errorf("the row of %v is about %v", want, r.Shard)
		}
		nobody := r.Owner.IsZero()
		switch {
		case r.Phase > sharding.HandingOff, (r.Phase == 0) != (r.Epoch == 0), r.Phase == 0 && !nobody,
			r.Phase > sharding.Starting && nobody, r.Reason != 0 && !nobody:
			return fmt.Errorf("the row %+v makes no sense", r.Row)
		}
		transit += toInt(inTransit(r.Row))
		owned += toInt(!nobody)
		if !nobody && !slices.Contains(t.shardsOf(r.Owner), r.Shard) {
			return fmt.Errorf("%v is not on the list of its owner %v", r.Shard, r.Owner)
		}
		if to := r.expectedOwner(); !to.IsZero() && !slices.Contains(shardsIn(t.expected, to), r.Shard) {
			return fmt.Errorf("%v is not on the list of %v, which is to have it", r.Shard, to)
		}
		if !r.successor.IsZero() && r.Phase == sharding.Starting && !nobody {
			return fmt.Errorf("%v starts at %v, and is to go to %v", r.Shard, r.Owner, r.successor)
		}
		if r.next != 0 && (r.Phase != sharding.HandingOff || r.successor.IsZero() || r.next <= r.Epoch || t.desc.Volatile) || r.next == 0 && (r.released || r.nextMay != "") {
			return fmt.Errorf("epoch %v is reserved for %v, released %t, and the row is %+v", r.next, r.successor, r.released, r.Row)
		}
		expected += toInt(!r.expectedOwner().IsZero())
	}
	held, err := t.checkHoldings(t.owned)
	if err != nil {
		return err
	}
	coming, err := t.checkHoldings(t.expected)
	if err != nil {
		return err
	}
	if transit != t.transit || owned != held || expected != coming {
		return fmt.Errorf("type %q: %d rows in transit, %d counted; %d owned, %d listed; %d expected, %d listed", t.desc.Type, transit, t.transit, owned, held, expected, coming)
	}
	return nil
}

// checkHoldings checks the lists of shards by node, and counts their shards.
func (t *typeTable) checkHoldings(list []holding) (held int, err error) {
	for i, h := range list {
		if len(h.shards) == 0 || i > 0 && list[i-1].node.Compare(h.node) >= 0 {
			return 0, fmt.Errorf("the list of %v is empty or out of place", h.node)
		}
		if !slices.IsSortedFunc(h.shards, func(a, b sharding.ShardID) int {
			return cmp.Compare(t.rows[a.Index].Epoch, t.rows[b.Index].Epoch)
		}) {
			return 0, fmt.Errorf("the list of %v is not in order of allocation", h.node)
		}
		held += len(h.shards)
	}
	return held, nil
}
