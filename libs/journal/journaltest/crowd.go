package journaltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/sharding"
)

const (
	// CrowdSize is the number of entities of a crowd, and crowdShards the number of its shards.
	CrowdSize   = 240
	crowdShards = 256
)

// Crowd is many entities whose records are known, for tests that damage a store:
// an entity that is not refused must be unchanged.
type Crowd struct{ last map[sharding.EntityID]uint64 }

// NewCrowd writes a crowd into an empty store.
func NewCrowd(t *testing.T, b journal.Backend) *Crowd {
	t.Helper()
	c := &Crowd{last: map[sharding.EntityID]uint64{}}
	commit := func(ops ...journal.Op) {
		t.Helper()
		results, err := b.Commit(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Verdict != durable {
				t.Fatalf("%s is %v", ops[i].Kind(), r.Verdict)
			}
		}
	}
	if _, err := b.Declare(t.Context(), journal.Declaration{Cluster: "blue", Types: []sharding.TypeDesc{{Type: "Account", Shards: crowdShards}}}); err != nil {
		t.Fatal(err)
	}
	var claims []journal.Op
	for i := range uint32(crowdShards) {
		claims = append(claims, claim(sharding.ShardID{Type: "Account", Index: i}, 1, 1))
	}
	commit(claims...)
	for seq := uint64(1); seq <= 6; seq++ {
		var ops []journal.Op
		for i := range CrowdSize {
			e := member(i)
			ops = append(ops, c.next(e))
			c.last[e.ID] = seq
			// Snapshots that shrink leave room behind.
			size := map[uint64]int{2: 30_000, 4: 300}[seq]
			if i%20 == 0 && size > 0 {
				s := snapshot(1, e, seq, strings.Repeat("s", size+9000*(i%40/20)))
				s.Snapshot.Shard = memberShard(e)
				ops = append(ops, s)
			}
		}
		commit(ops...)
	}
	return c
}

func member(i int) sharding.Entity {
	return sharding.Entity{Type: "Account", ID: sharding.EntityID(fmt.Sprintf("e%03d", i))}
}

func memberShard(e sharding.Entity) sharding.ShardID {
	return (&sharding.TypeDesc{Type: e.Type, Shards: crowdShards}).ShardOf(e.ID)
}

func memberCommand(e sharding.Entity, seq uint64) sharding.CommandID {
	return sharding.CommandID(fmt.Sprint(e.ID, "-", seq))
}

// next appends to a member.
func (c *Crowd) next(e sharding.Entity) journal.Op {
	r := record(c.last[e.ID]+1, memberCommand(e, c.last[e.ID]+1))
	r.Events[0].Payload = []byte(strings.Repeat(string(e.ID), 60))
	return journal.Op{Append: &sharding.Append{Shard: memberShard(e), Epoch: 1, Entity: e, Records: []sharding.Record{r}}}
}

// Clone is a copy, for a copy of the store.
func (c *Crowd) Clone() *Crowd { return &Crowd{last: maps.Clone(c.last)} }

// Load loads everybody. It counts who is refused because of damage; anything but
// that and the truth fails the test.
func (c *Crowd) Load(t *testing.T, load func(context.Context, journal.LoadRequest) (journal.Loaded, error)) (refused int) {
	t.Helper()
	for i := range CrowdSize {
		e := member(i)
		l, err := load(t.Context(), journal.LoadRequest{Entity: e, Lookup: []sharding.CommandID{memberCommand(e, 3)}})
		switch {
		case errors.Is(err, journal.ErrCorrupt):
			refused++
		case err != nil:
			t.Errorf("%s: %v", e, err)
		case l.LastSeq != c.last[e.ID] || uint64(len(l.Records))+l.Snapshot.Seq != l.LastSeq || len(l.Stored) != 1:
			t.Errorf("%s: record %d is the last one, %d are loaded after the snapshot at %d, %d of 1 commands are found; want record %d",
				e, l.LastSeq, len(l.Records), l.Snapshot.Seq, len(l.Stored), c.last[e.ID])
		}
	}
	return refused
}

// Write appends to everybody at once, and reads all fences. It counts whose
// append is refused because of damage; anything but that and success fails the
// test.
func (c *Crowd) Write(t *testing.T, j *commit.Journal) (refused int) {
	t.Helper()
	var ops []journal.Op
	for i := range CrowdSize {
		ops = append(ops, c.next(member(i)))
	}
	for i := range uint32(crowdShards) {
		ops = append(ops, fence(sharding.ShardID{Type: "Account", Index: i}, 1))
	}
	results := make([]journal.Result, len(ops))
	var all sync.WaitGroup
	all.Add(len(ops))
	for i := range ops {
		j.Submit(ops[i], func(r journal.Result) {
			results[i] = r
			all.Done()
		})
	}
	all.Wait()
	for i, r := range results {
		switch a := ops[i].Append; {
		case r.Verdict == durable && a != nil:
			c.last[a.Entity.ID]++
		case r.Verdict == durable:
		case r.Verdict == sharding.RefusedDamaged && a != nil:
			refused++
		case r.Verdict == sharding.RefusedDamaged:
		default:
			t.Errorf("%s is %v: %v", describe(ops[i]), r.Verdict, r.Err)
		}
	}
	return refused
}
