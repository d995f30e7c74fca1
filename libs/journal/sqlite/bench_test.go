package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

var benchShard = sharding.ShardID{Type: "Airport"}

// load is the work of one region: flights that leave one of a few hundred
// airports, arrive at another, and count for their route, one command each.
type load struct {
	rng  *rand.Rand
	name string
	seqs map[sharding.EntityID]uint64
	n    int
}

func newLoad(name string) *load {
	return &load{rng: rand.New(rand.NewPCG(1, 2)), name: name, seqs: map[sharding.EntityID]uint64{}}
}

// batch is n appends to n different entities.
func (l *load) batch(n int) []journal.Op {
	ops := make([]journal.Op, 0, n)
	used := map[sharding.EntityID]bool{}
	for len(ops) < n {
		l.n++
		id := sharding.EntityID(fmt.Sprintf("%s-%d", l.name, l.airport()))
		if l.n%3 == 0 {
			id = sharding.EntityID(fmt.Sprintf("%s-%d-%d", l.name, l.airport(), l.airport()))
		}
		if used[id] {
			continue
		}
		used[id] = true
		l.seqs[id]++
		ops = append(ops, journal.Op{Append: &sharding.Append{
			Shard: benchShard, Epoch: 1, Entity: sharding.Entity{Type: "Airport", ID: id},
			Records: []sharding.Record{{
				Seq:     l.seqs[id],
				Command: sharding.CommandID(fmt.Sprintf("%s-3f2a9c41d07be856-%08d-depart", l.name, l.n)),
				Hash:    sharding.Hash{1},
				Events:  []sharding.Event{{Name: "Departed", Payload: fmt.Appendf(nil, `{"route":"PHX-LAX","delay":%d,"at":"01011325"}`, l.n%90)}},
				Reply:   sharding.Reply{Outcome: sharding.Executed, Payload: fmt.Appendf(nil, `{"departures":%d}`, l.seqs[id])},
			}},
		}})
	}
	return ops
}

// airport is one of 240, the first ones far more often.
func (l *load) airport() int { return int(240 * l.rng.Float64() * l.rng.Float64()) }

// BenchmarkCommit appends records in batches of several sizes, from one writer
// and from three that share the file. An operation is a record.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 3} {
		for _, size := range []int{10, 50, 150} {
			b.Run(fmt.Sprintf("writers=%d/batch=%d", writers, size), func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "j.db")
				backends := make([]*Backend, writers)
				for i := range backends {
					var err error
					if backends[i], err = Open(context.Background(), path, journal.DefaultConfig()); err != nil {
						b.Fatal(err)
					}
					defer backends[i].Close()
				}
				claim := []journal.Op{{Claim: &sharding.Claim{Shard: benchShard, Epoch: 1, Owner: 1}}}
				if _, err := backends[0].Commit(context.Background(), claim); err != nil {
					b.Fatal(err)
				}
				b.ResetTimer()
				var all sync.WaitGroup
				for i, w := range backends {
					l := newLoad(fmt.Sprint("w", i))
					all.Go(func() {
						for n := 0; n < b.N/writers; n += size {
							results, err := w.Commit(context.Background(), l.batch(size))
							if err != nil || results[0].Verdict != sharding.Durable {
								b.Error(results, err)
								return
							}
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

// BenchmarkBare inserts the same number of bytes with as little as possible:
// what SQLite itself takes.
func BenchmarkBare(b *testing.B) {
	for _, size := range []int{10, 50, 150} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			j, err := Open(context.Background(), filepath.Join(b.TempDir(), "j.db"), journal.DefaultConfig())
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			body := make([]byte, 190)
			seqs := map[int]int{}
			rng := rand.New(rand.NewPCG(1, 2))
			b.ResetTimer()
			for n := 0; n < b.N; n += size {
				if err := j.write.begin.Exec(); err != nil {
					b.Fatal(err)
				}
				for range size {
					id := rng.IntN(2000)
					seqs[id]++
					if err := j.write.addRecord.Exec(id, seqs[id], 0, 0, 0, body, []byte(nil)); err != nil {
						b.Fatal(err)
					}
				}
				if err := j.write.commit.Exec(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
