package sim

import (
	"fmt"
	"testing"

	"github.com/roost-cluster/roost/libs/control"
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/lease"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/region"
)

// restores: the cluster continues after a backup, with another term and other owners. Then the journal
// and the record of the lease are lost, and the journal is restored from the backup. Of the old
// processes a region continues, with what it remembers, and so do the gateways with their tables. The
// old region has no effect any more (see store.apply), the new processes serve all shards, and clients get
// answers through the old gateways.
func restores(t *testing.T, seed uint64) {
	w := newBrakeWorld(t, seed)
	old := w.processes[firstRegion+1]
	w.pass(8 * sec)
	w.pinAll(old)
	w.until("all shards are at the region that gets old", 60*sec, func() bool { return len(w.journal.newest) >= 8 && w.away(old) == 0 })
	saved := w.journal.backUp()
	first := w.activeCoordinators()[0]
	first.p.crash("the test")
	w.until("another coordinator is active", 60*sec, func() bool { return len(w.activeCoordinators()) == 1 })
	other := w.processes[firstRegion]
	w.pinAll(other)
	w.until("all shards are at another region", 60*sec, func() bool { return w.away(other) == 0 })
	w.pinAll(old)
	w.until("all shards are back", 60*sec, func() bool { return w.away(old) == 0 })
	highest := w.journal.ledger.MaxEpoch()
	stale := w.processes[firstRegion].body.(*regionNode).control.Table().Delta(sharding.Version{})

	// The old coordinator gives the old region a shard that is used for the first time. The claim
	// reaches the journal only after the restore, whose fences know nothing of that shard.
	claim := sharding.Claim{Shard: sharding.ShardID{Type: types[0].Type, Index: types[0].Shards}, Epoch: highest + 1, Owner: old.uid}
	late := sending{old.moment(), w.now, old.opened, old.restores}
	before := old.id()
	old.pause()
	for _, p := range w.processes[:firstGateway] {
		if p != old {
			p.crash("the test")
		}
	}
	w.lease.record, w.recordLost = lease.Record{}, true
	w.journal.restoreFrom(saved, 99)
	for i, p := range w.processes[:firstGateway] {
		if p != old {
			w.after(sec+int64(i)*10*ms, p.start)
		}
	}
	w.until("a coordinator is active", 120*sec, func() bool { return len(w.activeCoordinators()) == 1 })
	if active := w.activeCoordinators()[0].core.ActiveTerm(); active <= highest.Term() {
		t.Errorf("seed %d: the active coordinator has term %d, and %v was given out before the restore", seed, active, highest)
	}
	old.resume()
	w.pass(sec)
	if !w.journal.replaced(old.host, late.opened) {
		w.journal.apply(late, []journal.Op{{Claim: &claim}})
	}
	w.until("the old region has ended", 10*sec, func() bool { return old.id() != before })
	served := func() bool {
		for _, row := range w.journal.newest { // order-free: all of them
			if row.Phase != sharding.Serving || row.Epoch <= highest || !w.alive(row.Owner) || row.Owner == before {
				return false
			}
		}
		return true
	}
	w.until("all shards are served by new owners", 120*sec, served)
	// A coordinator that still has the old journal is active too, because the record of the lease was lost. The new
	// regions do not believe its table, however high its term is: stepControl checks that.
	active := w.activeCoordinators()[0]
	for _, p := range w.processes[firstRegion:firstGateway] {
		stale.Version = sharding.Version{Term: active.core.ActiveTerm() + 1, N: 1}
		p.post(func() {
			p.body.(*regionNode).stepControl(region.Replied{From: active.p.addr, Asked: control.WatchTable{}, Msg: control.TableChanged{Delta: stale}})
		})
	}
	answered := w.answered()
	w.until("clients get answers", 60*sec, func() bool { return w.answered() > answered+100 })
	if w.broken != nil {
		t.Errorf("seed %d breaks %q: %s", seed, w.broken.property, w.broken.text)
	}
	t.Logf("seed %d: %v was given out before, the shards are served from term %d on", seed, highest, w.activeCoordinators()[0].core.ActiveTerm())
}

// alive reports whether a process runs.
func (w *brakeWorld) alive(id sharding.NodeID) bool {
	for _, p := range w.processes {
		if p.up && p.id() == id {
			return true
		}
	}
	return false
}

// answered counts the operations of clients that have succeeded.
func (w *brakeWorld) answered() (n int) {
	for _, o := range w.ops {
		if o.acknowledged() {
			n++
		}
	}
	return n
}

// TestRestores: see restores.
func TestRestores(t *testing.T) {
	for seed := uint64(1); seed <= 2; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { restores(t, seed) })
	}
}
