package journaltest

import (
	"math"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// remembered checks the time of last activity that a load returns.
func (e *env) remembered(of sharding.Entity, want int64, reminders ...int) {
	e.Helper()
	for _, req := range []journal.LoadRequest{{Entity: of, Wakes: true}, {Entity: of, LookupOnly: true, Wakes: true}} {
		l, err := e.b.Load(e.Context(), req)
		if err != nil {
			e.Fatal(err)
		}
		e.equal("remembered", l.Remembered, want)
		e.equal("reminders", l.Reminders, append(reminders, 0)[0])
	}
	e.equal("remembered, not asked for", e.load(of).Remembered, int64(0))
}

// testRemembered: a load returns the time at which the entity was last active, if it is
// remembered.
func testRemembered(e *env) {
	e.one(durable, claim(shard, epoch, 1))
	e.remembered(alice, 0) // no such entity
	remember := func(due int64) sharding.Wake {
		return sharding.Wake{Kind: sharding.RememberWake, Name: journal.RememberName, Due: due}
	}
	e.one(durable, add(alice, waking(1, remember(-1_700_000_000_000))))
	e.one(durable, add(bob, waking(1, setting("", 5, 0))))
	e.remembered(alice, 1_700_000_000_000)
	e.remembered(bob, 0, 1)
	first := journal.ShardPosition{Shard: shard, After: journal.WakePosition{Due: math.MinInt64}}
	e.one(durable, add(carol, waking(1, remember(-1_800_000_000_000))))
	var order []sharding.Entity
	for _, w := range e.wakes(e.b, 1, 1, first) {
		order = append(order, w.Entity)
	}
	e.equal("the last active first", order, []sharding.Entity{carol, alice})
	e.one(durable, add(alice, waking(2, remember(-1_900_000_000_000))))
	e.remembered(alice, 1_900_000_000_000)
	e.one(durable, add(alice, waking(3, remember(0))))
	e.remembered(alice, 0)
}
