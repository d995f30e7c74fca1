package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// appendTo appends one record to each of some entities, and returns what became of them.
func appendTo(t *testing.T, d *Backend, seq uint64, key string, ids ...sharding.EntityID) (verdicts []sharding.Verdict) {
	t.Helper()
	var ops []journal.Op
	for _, id := range ids {
		ops = append(ops, journal.Op{Append: &sharding.Append{
			Shard: benchShard, Epoch: 1, Entity: sharding.Entity{Type: "Airport", ID: id},
			Records: []sharding.Record{{Seq: seq, Command: sharding.CommandID(key), Events: []sharding.Event{{Name: "E"}}}},
		}})
	}
	results, err := d.Commit(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	for i := range results {
		verdicts = append(verdicts, results[i].Verdict)
	}
	return verdicts
}

func wantVerdicts(t *testing.T, got []sharding.Verdict, want ...sharding.Verdict) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCache: a handle that writes alone reads no fence and no head again, and decides as if it did.
// Another handle's commit, or a transaction of its own that failed, empties the cache.
func TestCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	a, b := openBackend(t, path), openBackend(t, path)
	if _, err := a.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: benchShard, Epoch: 1, Owner: 1}}}); err != nil {
		t.Fatal(err)
	}
	wantVerdicts(t, appendTo(t, a, 1, "k1", "x", "y"), sharding.Durable, sharding.Durable)
	wantVerdicts(t, appendTo(t, a, 2, "k2", "x"), sharding.Durable)
	head, fence, opened := a.write.head, a.write.fence, a.write.opened
	a.write.head, a.write.fence, a.write.opened = nil, nil, nil // a use of one of them panics
	wantVerdicts(t, appendTo(t, a, 3, "k3", "x"), sharding.Durable)
	wantVerdicts(t, appendTo(t, a, 3, "k4", "x"), sharding.RefusedSeq)
	wantVerdicts(t, appendTo(t, a, 4, "k1", "x"), sharding.RefusedCommand)
	wantVerdicts(t, appendTo(t, a, 4, "k5", "x", "x"), sharding.Durable, sharding.RefusedSeq)
	a.write.head, a.write.fence, a.write.opened = head, fence, opened

	wantVerdicts(t, appendTo(t, b, 5, "k6", "x"), sharding.Durable)
	wantVerdicts(t, appendTo(t, a, 5, "k7", "x"), sharding.RefusedSeq)
	wantVerdicts(t, appendTo(t, a, 6, "k6", "x"), sharding.RefusedCommand)
	wantVerdicts(t, appendTo(t, a, 6, "k7", "x"), sharding.Durable)

	// A batch that is not committed leaves nothing behind. Its first operation is noted before the second one finds no room.
	if err := fill([]*Backend{a}, true); err != nil {
		t.Fatal(err)
	}
	large := journal.Op{Append: &sharding.Append{Shard: benchShard, Epoch: 1, Entity: sharding.Entity{Type: "Airport", ID: "z"},
		Records: []sharding.Record{{Seq: 1, Events: []sharding.Event{{Name: "E", Payload: make([]byte, 1<<20)}}}}}}
	small := journal.Op{Append: &sharding.Append{Shard: benchShard, Epoch: 1, Entity: sharding.Entity{Type: "Airport", ID: "x"},
		Records: []sharding.Record{{Seq: 7, Command: "k8", Events: []sharding.Event{{Name: "E"}}}}}}
	if _, err := a.Commit(t.Context(), []journal.Op{small, large}); !errors.Is(err, journal.ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	if err := fill([]*Backend{a}, false); err != nil {
		t.Fatal(err)
	}
	wantVerdicts(t, appendTo(t, a, 7, "k8", "x"), sharding.Durable)
	if _, err := b.Commit(t.Context(), []journal.Op{{Claim: &sharding.Claim{Shard: benchShard, Epoch: 2, Owner: 2}}}); err != nil {
		t.Fatal(err)
	}
	wantVerdicts(t, appendTo(t, a, 8, "k9", "x"), sharding.RefusedEpoch)
}
