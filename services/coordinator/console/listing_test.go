package console

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// TestListingGetsOn: an answer that takes too long, or has as many bytes as it may have, ends
// early and returns the next position; damaged shards are named and passed over.
func TestListingGetsOn(t *testing.T) {
	type row struct{ shard, n int }
	const shards, rows = 70, 3
	var got []row
	var damaged []string
	reads := 0
	l := listing[row, row]{
		read: func(_ context.Context, from []row, _ int) (page journal.Page[row], _ error) {
			reads++
			for i, p := range from {
				switch {
				case p.shard == 40:
					page.Damaged = append(page.Damaged, journal.Damaged{Shard: sharding.ShardID{Type: "T", Index: 40}, Err: errors.New("torn")})
				case i > 4: // as if the page were full
					page.More = append(page.More, sharding.ShardID{Type: "T", Index: uint32(p.shard)})
				case p.n < rows:
					page.Entries = append(page.Entries, row{p.shard, p.n + 1})
					page.More = append(page.More, sharding.ShardID{Type: "T", Index: uint32(p.shard)})
				}
			}
			return page, nil
		},
		shardOfPosition: func(p *row) sharding.ShardID { return sharding.ShardID{Type: "T", Index: uint32(p.shard)} },
		shardOfRow:      func(r *row) sharding.ShardID { return sharding.ShardID{Type: "T", Index: uint32(r.shard)} },
		after:           func(r *row) row { return *r },
		take:            func(r *row) bool { got = append(got, *r); return true },
		left:            func() int { return 1 },
		damaged:         func(text string) { damaged = append(damaged, text) },
	}
	from := func(p row) (all []row) {
		all = append(all, p)
		for i := p.shard + 1; i < shards; i++ {
			all = append(all, row{shard: i})
		}
		return all
	}
	calls := 0
	for next := (&row{}); next != nil; {
		before := reads
		var err error
		if next, err = l.run(t.Context(), from(*next), time.Time{}); err != nil || reads != before+1 {
			t.Fatalf("%d reads in one call whose time is over; %v", reads-before, err)
		}
		if calls++; calls > shards*(rows+1) {
			t.Fatal("the listing does not get on")
		}
	}
	if len(got) != (shards-1)*rows || !slices.IsSortedFunc(got, func(a, b row) int { return (a.shard-b.shard)*10 + a.n - b.n }) {
		t.Errorf("%d rows: %v", len(got), got)
	}
	if len(damaged) != 1 {
		t.Errorf("damaged are %q", damaged)
	}
	want := slices.Clone(got)
	got, reads = nil, 0
	if next, err := l.run(t.Context(), from(row{}), time.Now().Add(time.Hour)); next != nil || err != nil || !slices.Equal(got, want) {
		t.Errorf("in one call: continues at %v with %v, %v", next, got, err)
	}
	got, reads = nil, 0
	if _, err := l.run(t.Context(), from(row{shard: 60, n: rows})[:1], time.Now().Add(time.Hour)); err != nil || reads != 1 || len(got) > 0 {
		t.Errorf("%d reads of a shard without more rows: %v, %v", reads, got, err)
	}
	l.read = func(context.Context, []row, int) (page journal.Page[row], _ error) {
		return page, journal.ErrUnreachable
	}
	if _, err := l.run(t.Context(), from(row{}), time.Now()); !errors.Is(err, journal.ErrUnreachable) {
		t.Errorf("a journal that does not answer: %v", err)
	}
}
