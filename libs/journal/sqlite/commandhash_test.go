package sqlite

import (
	"encoding/binary"
	"math/bits"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestManyIDsOfOneHash: a client that chooses ids with the same xxh64 finds no row of the index of
// command ids that belongs to two of them, so that no append has to read the records of many.
func TestManyIDsOfOneHash(t *testing.T) {
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "j.db"), journal.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	shard := sharding.ShardID{Type: "T"}
	a := &sharding.Append{Shard: shard, Epoch: 1, Entity: sharding.Entity{Type: "T", ID: "a"}}
	for i := range 500 {
		a.Records = append(a.Records, sharding.Record{Seq: uint64(i) + 1, Command: colliding(uint64(i)), Reply: sharding.Reply{Outcome: sharding.Executed}})
	}
	results, err := d.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}, {Append: a}})
	if err != nil || results[1].Verdict != sharding.Durable {
		t.Fatal(results, err)
	}
	var most int
	err = d.reads.db.QueryRowContext(t.Context(), "SELECT max(n) FROM (SELECT count(*) AS n FROM command GROUP BY entity, hash)").Scan(&most)
	if err != nil || most != 1 {
		t.Errorf("%d ids have one hash in the index: %v", most, err)
	}
}

// colliding returns an id that has the same xxh64 (seed 0) for every n: the second word of eight bytes
// that an accumulator of the hash reads undoes the difference that the first one has made.
func colliding(n uint64) sharding.CommandID {
	const p1, p2, inverse = 11400714785074694791, 14029467366897019727, 0x0ba79078168d4baf // of p2, modulo 2^64
	accumulator := func(first uint64) uint64 {
		start := uint64(p1)
		start += p2
		return bits.RotateLeft64(start+first*p2, 31) * p1
	}
	var id [64]byte
	binary.LittleEndian.PutUint64(id[:], n)
	binary.LittleEndian.PutUint64(id[32:], (accumulator(0)-accumulator(n))*inverse)
	return sharding.CommandID(id[:])
}
