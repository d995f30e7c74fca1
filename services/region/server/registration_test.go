package server

import (
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/open"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestWhoseJournal: a region says whose its journal is. If the owner changes during
// the request, and the region is refused for its old answer, it sends the present one.
func TestWhoseJournal(t *testing.T) {
	noneLeft(t)
	f := newFake(t)
	url := "sqlite:" + t.TempDir() + "/journal.db"
	j, err := open.Journal(t.Context(), open.At{URL: url}, journal.Declaration{Cluster: "dev"}, journal.DefaultConfig(), commit.Observer{}, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	heartbeat := func(c sharding.ClusterID, term sharding.Term) {
		shard, epoch := sharding.ShardID{Type: journal.HeartbeatEntity.Type}, sharding.MakeEpoch(term, 0)
		claim := journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: epoch, Owner: 1}}
		for _, op := range append([]journal.Op{claim}, journal.HeartbeatOps(sharding.JournalHeartbeat{Cluster: c, Term: term, N: 1})...) {
			done := make(chan journal.Result, 1)
			j.Submit(op, func(r journal.Result) { done <- r })
			if r := <-done; r.Verdict != sharding.Durable && r.Verdict != sharding.RefusedSeq {
				t.Errorf("%+v: %v, %v", op, r.Verdict, r.Err)
			}
		}
	}
	f.onRegister = func() string {
		switch len(f.journals) {
		case 1: // no owner; then a coordinator is active
			heartbeat(7, 1)
			return "no coordinator has used it"
		case 2: // then the journal of another cluster
			heartbeat(8, 2)
			return "it belongs to cluster 7"
		}
		return ""
	}
	r := start(t, f, url, nil)
	await(t, "the region is registered", f.look(func() bool { return len(f.journals) == 3 }))
	f.mu.Lock()
	for i, want := range []sharding.ClusterID{0, 7, 8} {
		if got := f.journals[i]; !got.Known || got.Cluster != want {
			t.Errorf("registration %d says %v, want %d", i+1, got, want)
		}
	}
	f.mu.Unlock()
	r.end()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}
