package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
)

// commit is the only way in which the table changes while the term lasts. The fact is applied and
// persisted; the outputs that depend on it come after it. Watches are answered at the end of the Step,
// so after it too.
func (tr *transit) commit(f Fact, consequences ...Output) {
	tr.apply(f)
	// Invariant: an output of the coordinator leaves only when the facts before the output are durable.
	// Guarded by: `coordinator.Gate`; `Tenure.appended` interprets the journal's answer to an append.
	// Mutants: persist-before-send, held-until-durable, fact-unknown, fact-refused
	//mutant:do persist-before-send tr.out = append(tr.out, consequences...); tr.table.wake(&tr.step); tr.persist(f, false); return
	tr.persist(f, false)
	tr.out = append(tr.out, consequences...)
}

// commitJoined does the same for a fact that must not be stored without the one before it, nor that one
// without this.
func (tr *transit) commitJoined(f Fact) {
	tr.apply(f)
	tr.persist(f, true) //mutant:false request-one-record true
}

// persist emits a fact to be stored, and notes its number at what the fact is about.
func (tr *transit) persist(f Fact, joined bool) {
	tr.ledger.lastFact++
	//mutant:do forms-in-facts if row, ok := f.(RowFact); ok { f = RowFact{Row: row.Row, Cause: row.Cause} }
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
		// Invariant: if a process of the old version restarts in a rollout, the target version stays the target. A new
		// coordinator continues the rollout.
		// Mutants: target-as-a-fact, target-seen
		//
		// Invariant: what operators have requested of placement remains in effect under every later coordinator.
		// Cordons and pins also apply to every later process with the region's name.
		// Mutants: cordon-kept, pin-kept, freeze-kept
		//mutant:do target-as-a-fact if _, mutated := f.(TargetFact); mutated && !tr.term.recovered { return }
		//mutant:do cordon-kept if _, mutated := f.(CordonFact); mutated && !tr.term.recovered { return }
		//mutant:do freeze-kept if _, mutated := f.(FreezeFact); mutated && !tr.term.recovered { return }
		tr.intent.Apply(f)
	case PinFact:
		if _, r := tr.table.find(f.Shard); r != nil {
			//mutant:do pin-kept if !tr.term.recovered { return }
			tr.intent.Apply(f)
		}
	case MoveFact:
		tr.applyMove(f)
	case QuarantineFact:
		tr.applyQuarantine(f)
	case LossFact:
		tr.ledger.lost = true
	case UnknownFact:
		tr.ledger.keep(f, tr.cfg.MaxUnknownFacts)
	}
}

func (tr *transit) applyDrain(f DrainFact) {
	// Invariant: if an operator drains a region, the region is given no shards while another region can take them. This
	// holds whichever coordinator is active.
	// Guarded by: `coordinator.DrainFact`: the coordinator of every term loads it.
	// Mutants: drain-kept
	//mutant:do drain-kept if !tr.term.recovered { return }
	tr.intent.Apply(f)
	if r := tr.live.region(f.Region); r != nil {
		_, r.draining = tr.intent.Drain(f.Region)
	}
}

// applyMove keeps the wish as long as the shard is handed off: then the move was carried out,
// or something else has happened to the shard. The fact of the row comes first.
func (tr *transit) applyMove(f MoveFact) {
	if _, r := tr.table.find(f.Shard); r != nil && f.Epoch == r.Epoch && r.Phase == sharding.HandingOff && !r.successor.IsZero() {
		tr.intent.Apply(f)
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
		tr.live.learnForms(t.desc.Type, t.forms)
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
	tr.budget.Count(before.transit(), r.transit())
	for _, e := range []sharding.Epoch{next.Epoch, f.Next} {
		// Invariant: a successor claims a shard only at the epoch that is reserved for the successor. No other region
		// gets that epoch. The forms in which the successor may have stored events restrict the choice of the next
		// owner.
		// Mutants: next-counted, next-epoch, successor-wrote, released-gone-on, successor-epoch
		//mutant:do next-counted if e.Term() == tr.term.number && e != f.Next { tr.term.counter = max(tr.term.counter, e.Counter()) }
		//mutant:skip next-counted
		if e.Term() == tr.term.number {
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

func (tr *transit) applyQuarantine(f QuarantineFact) {
	i, found := tr.table.searchType(f.Entity.Type)
	//mutant:do quarantine-kept if !tr.term.recovered { return }
	if !found || f.State > Quarantined || !tr.quarantine.Apply(f) {
		return
	}
	t := tr.table.types[i]
	t.desc.Quarantined = tr.quarantine.Shown(f.Entity.Type)
	t.changed = tr.table.count(&tr.step, change{shard: sharding.ShardID{Type: t.desc.Type}, isType: true})
	t.quarantineChanged = t.changed
}
