package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// pages has so many timers in each shard of a type, and gives a few at a time.
type pages struct {
	rows    map[uint32]int
	most    int // entries of all shards in a page
	damaged uint32
	err     error
	reads   int
}

func (p *pages) Wakes(_ context.Context, req journal.WakesRequest) (page journal.WakesPage, err error) {
	p.reads++
	for _, at := range req.Shards {
		if at.Shard.Index == p.damaged {
			return journal.WakesPage{}, fmt.Errorf("%w: shard %d", journal.ErrCorrupt, p.damaged)
		}
		for n := int(at.After.Due) + 1; n <= p.rows[at.Shard.Index]; n++ {
			if len(page.Entries) == p.most {
				page.More = append(page.More, at.Shard)
				break
			}
			page.Entries = append(page.Entries, journal.WakeEntry{Shard: at.Shard, Entity: sharding.Entity{Type: "T", ID: "e"}, Due: int64(n)})
		}
	}
	return page, p.err
}

func (p *pages) Sends(context.Context, journal.SendsRequest) (journal.SendsPage, error) {
	p.reads++
	return journal.SendsPage{Damaged: []journal.Damaged{{Shard: sharding.ShardID{Type: "T", Index: 1}, Err: journal.ErrCorrupt}}}, p.err
}

// TestEach: every entry is visited once, whatever the pages are, and damage holds up no other shard.
func TestEach(t *testing.T) {
	var shards []sharding.ShardID
	from := &pages{rows: map[uint32]int{}, most: 7, damaged: 70}
	want := 0
	for i := range uint32(200) {
		shards = append(shards, sharding.ShardID{Type: "T", Index: i})
		from.rows[i] = int(i % 11)
		if i != from.damaged {
			want += int(i % 11)
		}
	}
	seen, broken := map[string]int{}, []uint32{}
	visit := func(r *journal.WakeEntry) error { seen[fmt.Sprint(r.Shard, r.Due)]++; return nil }
	damaged := func(s sharding.ShardID, err error) { broken = append(broken, s.Index) }
	if err := journal.EachReminder(t.Context(), from, shards, visit, damaged); err != nil {
		t.Fatal(err)
	}
	for entry, n := range seen {
		if n != 1 {
			t.Errorf("%s is visited %d times", entry, n)
		}
	}
	if len(seen) != want || !slices.Equal(broken, []uint32{70}) {
		t.Errorf("%d entries, want %d; damaged are %v", len(seen), want, broken)
	}
	enough := errors.New("enough")
	if err := journal.EachReminder(t.Context(), from, shards, func(*journal.WakeEntry) error { return enough }, damaged); !errors.Is(err, enough) {
		t.Errorf("visiting continues: %v", err)
	}
	broken, from.reads = nil, 0
	if err := journal.EachSend(t.Context(), from, shards[:2], false, nil, damaged); err != nil || !slices.Equal(broken, []uint32{1}) || from.reads != 1 {
		t.Errorf("%v, damaged are %v after %d reads", err, broken, from.reads)
	}
	from.err = journal.ErrUnreachable
	if err := journal.EachSend(t.Context(), from, shards, false, nil, damaged); !errors.Is(err, journal.ErrUnreachable) {
		t.Errorf("%v", err)
	}
}
