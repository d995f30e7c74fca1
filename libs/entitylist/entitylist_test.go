package entitylist

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/roost-cluster/roost/libs/sharding"
)

func same(p Position) Position { return p }

// TestMerge: a caller that follows Next sees each row once and in order, however the parts are cut.
func TestMerge(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		parts := make([][]Position, 1+random.IntN(4))
		var all []Position
		for i := range 60 {
			p := Position{sharding.ShardID{Type: sharding.EntityType(fmt.Sprint("T", i%2)), Index: uint32(random.IntN(8))}, sharding.EntityID(fmt.Sprint(i))}
			part := int(p.Shard.Index) % len(parts)
			parts[part], all = append(parts[part], p), append(all, p)
		}
		for _, part := range parts {
			slices.SortFunc(part, Position.Compare)
		}
		slices.SortFunc(all, Position.Compare)
		var got []Position
		var from *Position
		for rounds := 0; ; rounds++ {
			if rounds > 200 {
				t.Fatalf("seed %d: it does not end", seed)
			}
			var pages []Page[Position]
			for _, part := range parts {
				first := 0
				for from != nil && first < len(part) && part[first].Compare(*from) <= 0 {
					first++
				}
				n := min(1+random.IntN(20), len(part)-first)
				page := Page[Position]{Rows: part[first : first+n]}
				if first+n < len(part) { // it continues after its last row, or at the beginning of the next one's shard
					next := part[first+n-1]
					if at := (Position{Shard: part[first+n].Shard}); random.IntN(2) == 0 && at.Compare(next) > 0 {
						next = at
					}
					page.Next = &next
				}
				pages = append(pages, page)
			}
			limit := 1 + random.IntN(30)
			page := Merge(pages, limit, same)
			if len(page.Rows) > limit {
				t.Fatalf("seed %d: %d rows of %d", seed, len(page.Rows), limit)
			}
			got = append(got, page.Rows...)
			if from = page.Next; from == nil {
				break
			}
		}
		if !slices.Equal(got, all) {
			t.Fatalf("seed %d: got\n%v\nwant\n%v", seed, got, all)
		}
	}
}

// TestMergeNothing: parts without rows can go on somewhere.
func TestMergeNothing(t *testing.T) {
	if page := Merge([]Page[Position]{{}, {}}, 5, same); len(page.Rows) > 0 || page.Next != nil {
		t.Errorf("of nothing: %v", page)
	}
	a, b := Position{Shard: sharding.ShardID{Type: "T", Index: 3}}, Position{Shard: sharding.ShardID{Type: "T", Index: 2}}
	if page := Merge([]Page[Position]{{Next: &a}, {Next: &b}}, 5, same); len(page.Rows) > 0 || page.Next == nil || *page.Next != b {
		t.Errorf("of parts that go on: %v", page)
	}
}
