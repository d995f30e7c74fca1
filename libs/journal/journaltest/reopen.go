package journaltest

import (
	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

func testReopen(e *env) {
	d := journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Account", Shards: 8}}}
	if _, err := e.b.Declare(e.Context(), d); err != nil {
		e.Fatal(err)
	}
	e.one(durable, claim(shard, epoch, 1))
	e.one(durable, add(alice, records(1, "a", "b", "c")...))
	e.one(durable, snapshot(epoch, alice, 2, "s"))
	before := e.load(alice, "a", "b", "c", "d")
	for range 3 {
		if err := e.b.Close(); err != nil {
			e.Fatal(err)
		}
		e.b = e.open()
		e.equal("after reopening", e.load(alice, "a", "b", "c", "d"), before)
		f, err := e.b.Declare(e.Context(), d)
		if err != nil {
			e.Fatal(err)
		}
		want := journal.NewFacts(f.Generation)
		want.Cluster, want.Types = "blue", []journal.TypeFact{{Type: "Account", Shards: 8}}
		e.equal("facts", f, want)
		if f, err = e.b.Declare(e.Context(), journal.Declaration{}); err != nil || f.MaxEpoch != epoch {
			e.Fatalf("highest epoch is %v, want %v; %v", f.MaxEpoch, epoch, err)
		}
		e.one(byEpoch, claim(shard, epoch, 2))
		e.one(byID, add(alice, record(4, "a")))
		e.one(bySeq, add(alice, record(3, "d")))
	}
	e.one(durable, add(alice, record(4, "d")))
}
