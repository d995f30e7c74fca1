package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestDamageLog: each damaged entity counts once, for an hour, and there are never more than a region remembers.
func TestDamageLog(t *testing.T) {
	l, now := &damageLog{}, time.Unix(1e6, 0)
	want := func(at time.Duration, n int, last string) {
		t.Helper()
		if got, name := l.list(now.Add(at)); got != n || name != last {
			t.Errorf("after %s: %d, the newest %q; want %d, %q", at, got, name, n, last)
		}
	}
	entity := func(id string) journal.Damaged {
		return journal.Damaged{Shard: sharding.ShardID{Type: "T", Index: 3}, Entity: sharding.Entity{Type: "T", ID: sharding.EntityID(id)}}
	}
	want(0, 0, "")
	l.add(now, journal.Damaged{Shard: sharding.ShardID{Type: "T", Index: 3}})
	want(0, 1, "shard T/3")
	l.add(now.Add(time.Minute), entity("a"))
	l.add(now.Add(2*time.Minute), entity("a"))
	want(2*time.Minute, 2, "T/a")
	want(61*time.Minute, 1, "T/a")
	want(63*time.Minute, 0, "")
	for i := range maxDamage + 10 {
		l.add(now, entity(fmt.Sprint(i)))
	}
	want(0, maxDamage, fmt.Sprint("T/", maxDamage-1))
}
