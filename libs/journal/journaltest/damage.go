package journaltest

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

func testDamage(e *env) {
	if e.store.Damage == nil {
		e.Skip("this store cannot be damaged")
	}
	e.one(durable, claim(shard, epoch, 1))
	for _, id := range []sharding.Entity{alice, bob, carol} {
		e.one(durable, add(id, records(1, "a", "b", "c")...))
	}
	e.one(durable, snapshot(epoch, carol, 2, "s"))
	for _, id := range []sharding.Entity{alice, carol} {
		if err := e.store.Damage(id, 2); err != nil {
			e.Fatal(err)
		}
	}
	for range 2 {
		_, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: alice})
		e.wantErr(err, journal.ErrCorrupt, alice.String(), "record 2")
	}
	// The others go on, and so does one whose snapshot makes the damaged record
	// superfluous.
	e.one(durable, add(bob, record(4, "d")))
	e.equal("bob", e.load(bob).Records, withoutReplies(records(1, "a", "b", "c", "d")...))
	e.equal("carol", e.load(carol).Records, withoutReplies(records(3, "c")...))
}

// testDamagedNumbers: rows with impossible numbers are damage of their entity, even if each row is
// well-formed. Reading them takes no memory in proportion to these numbers, and they are not taken
// for a lost connection.
func testDamagedNumbers(e *env) {
	if e.store.Renumber == nil {
		e.Skip("the numbers of this store cannot be damaged")
	}
	const far = 1 << 62
	e.one(durable, claim(shard, epoch, 1))
	for _, c := range []struct {
		name   string
		change func(sharding.Entity) error
		replay bool // all records can be read without the snapshot
	}{
		{"far-behind", func(id sharding.Entity) error { return e.store.Renumber(id, 3, far) }, false},
		{"a-gap", func(id sharding.Entity) error { return e.store.Renumber(id, 3, 100_000_000) }, false},
		{"before-the-first", func(id sharding.Entity) error { return e.store.Renumber(id, 1, -far) }, false},
		{"zero", func(id sharding.Entity) error { return e.store.Renumber(id, 1, 0) }, false},
		{"no-snapshot", func(id sharding.Entity) error { return e.store.SetSnapshot(id, 1) }, true},
		{"no-snapshot-at-the-end", func(id sharding.Entity) error { return e.store.SetSnapshot(id, 3) }, true},
		{"snapshot-before-the-first", func(id sharding.Entity) error { return e.store.SetSnapshot(id, -far) }, true},
		{"snapshot-behind-the-last", func(id sharding.Entity) error { return e.store.SetSnapshot(id, far) }, true},
	} {
		id := sharding.Entity{Type: alice.Type, ID: sharding.EntityID(c.name)}
		e.one(durable, add(id, records(1, "a", "b", "c")...))
		if err := c.change(id); err != nil {
			e.Fatal(err)
		}
		_, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: id})
		e.wantErr(err, journal.ErrCorrupt, id.String())
		all, err := e.b.Load(e.Context(), journal.LoadRequest{Entity: id, WithoutSnapshot: true})
		if c.replay {
			e.equal(c.name, all.Records, withoutReplies(records(1, "a", "b", "c")...))
		} else {
			e.wantErr(err, journal.ErrCorrupt, id.String())
		}
	}
	e.one(durable, add(bob, records(1, "a")...))
	e.equal("bob", e.load(bob).Records, withoutReplies(records(1, "a")...))
}
