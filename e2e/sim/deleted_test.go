package sim

import (
	"fmt"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/services/coordinator"
)

// deletes: someone deletes the rows of the coordinators by hand. The active coordinator notices, although it has nothing to
// store, and another term begins. A region that starts meanwhile does not end. Then all regions are started again,
// so that every row that gateways still have names a process that is gone. All shards are served again, those
// without commands too, and clients get answers from each of them. If dies is set, the coordinator of that term dies
// when it has stored its first facts, before it has allocated all shards.
func deletes(t *testing.T, seed uint64, dies bool, rows ...sharding.Entity) {
	w := newBrakeWorld(t, seed)
	w.pass(8 * sec)
	used, all := map[sharding.ShardID]bool{}, map[sharding.ShardID]bool{}
	for _, e := range w.entities {
		used[w.shardOf(e)] = true
	}
	for _, t := range types {
		for i := range t.Shards {
			all[sharding.ShardID{Type: t.Type, Index: i}] = !t.Volatile
		}
	}
	served := func(shards map[sharding.ShardID]bool, from sharding.Term) func() bool {
		return func() bool {
			for id, is := range shards { // order-free: all of them
				if !is {
					continue
				}
				if row := w.journal.newest[id]; row.Phase != sharding.Serving || row.Epoch.Term() < from || !w.alive(row.Owner) {
					return false
				}
			}
			return true
		}
	}
	w.until("all shards are served", 60*sec, served(used, 0))
	before := w.activeCoordinators()[0].core.ActiveTerm()
	first, rest := w.processes[firstRegion], w.processes[firstRegion+1:firstGateway-1]
	first.crash("the test")
	for _, e := range rows {
		w.journal.ledger.Delete(e)
	}
	w.after(10*ms, first.start)
	w.until("another term has begun", 30*sec, func() bool {
		list := w.activeCoordinators()
		return len(list) == 1 && list[0].core.ActiveTerm() > before
	})
	term := w.activeCoordinators()[0].core.ActiveTerm()
	noticed := w.noticed()
	if dies {
		for len(w.storedFacts()) == 0 {
			w.pass(ms)
		}
		for _, p := range w.processes {
			if c, ok := p.body.(*coordNode); ok && p.up && c.core.ActiveTerm() == term {
				p.crash("the test")
				w.after(sec, p.start)
			}
		}
		if served(all, term)() {
			t.Fatalf("seed %d: the coordinator has died too late", seed)
		}
		w.until("one more term has begun", 30*sec, func() bool {
			list := w.activeCoordinators()
			return len(list) == 1 && list[0].core.ActiveTerm() > term
		})
	}
	if got, err := w.journal.load(journal.LoadRequest{Entity: journal.HeartbeatEntity}); err != nil || got.Snapshot.Seq == 0 || noticed == "" {
		t.Fatalf("seed %d: heartbeat %+v, %v; noticed %q", seed, got, err, noticed)
	}
	for _, p := range rest {
		p.crash("the test")
		w.after(sec, p.start)
	}
	w.pass(sec)
	from := w.now
	if rows[0] == factEntity {
		w.until("all shards are served by new owners, those without commands too", 60*sec, served(all, term))
	} else {
		w.until("all shards are served by new owners", 60*sec, served(used, 0))
	}
	w.until("clients get answers from all shards", 60*sec, func() bool {
		left := len(used)
		answered := map[sharding.ShardID]bool{}
		for _, o := range w.ops {
			if id := w.shardOf(o.entity); o.called > from && used[id] && !answered[id] && o.acknowledged() {
				answered[id] = true
				left--
			}
		}
		return left == 0
	})
	t.Logf("seed %d: %s was deleted in term %d", seed, noticed, term)
}

// storedFacts returns the facts that are in the journal.
func (w *brakeWorld) storedFacts() (facts []coordinator.Fact) {
	got, err := w.journal.ledger.Load(journal.LoadRequest{Entity: factEntity})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range got.Records {
		for _, e := range r.Events {
			facts = append(facts, w.facts[decodeNumber(e.Payload)])
		}
	}
	return facts
}

// noticed holds the deletions that coordinators have noticed.
func (w *brakeWorld) noticed() (all string) {
	for _, p := range w.processes {
		if c, ok := p.body.(*coordNode); ok && p.up {
			what, _ := c.core.Deleted()
			all += what
		}
	}
	return all
}

// TestDeletes: see deletes.
func TestDeletes(t *testing.T) {
	for seed := uint64(1); seed <= 2; seed++ {
		t.Run(fmt.Sprint("facts-", seed), func(t *testing.T) { deletes(t, seed, false, factEntity) })
		t.Run(fmt.Sprint("dies-", seed), func(t *testing.T) { deletes(t, seed, true, factEntity) })
		t.Run(fmt.Sprint("heartbeat-", seed), func(t *testing.T) { deletes(t, seed, false, journal.HeartbeatEntity) })
		t.Run(fmt.Sprint("both-", seed), func(t *testing.T) { deletes(t, seed, false, factEntity, journal.HeartbeatEntity) })
	}
}
