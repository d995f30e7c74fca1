//go:build linux

package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/postgres/postgrestest"
	"github.com/roost-cluster/roost/libs/sharding"
)

// BenchmarkCommit commits batches of appends to different entities of 64
// shards, one record with one key each.
func BenchmarkCommit(b *testing.B) {
	server := postgrestest.Start(b)
	for _, size := range []int{1, 32, 256, 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			name, err := server.NewDatabase()
			if err != nil {
				b.Fatal(err)
			}
			backend, err := Open(context.Background(), server.URL(postgrestest.Superuser, name), journal.DefaultConfig())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = backend.Close() }()
			var claims []journal.Op
			for i := range uint32(64) {
				claims = append(claims, journal.Op{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "Airport", Index: i}, Epoch: 1, Owner: 1}})
			}
			if _, err := backend.Commit(b.Context(), claims); err != nil {
				b.Fatal(err)
			}
			rng, seqs := rand.New(rand.NewPCG(1, 2)), make([]uint64, 10_000)
			for b.Loop() {
				ops := make([]journal.Op, size)
				for i, n := range rng.Perm(len(seqs))[:size] {
					seqs[n]++
					ops[i].Append = &sharding.Append{
						Shard: sharding.ShardID{Type: "Airport", Index: uint32(n % 64)}, Epoch: 1,
						Entity: sharding.Entity{Type: "Airport", ID: sharding.EntityID(fmt.Sprint("airport-", n))},
						Records: []sharding.Record{{
							Seq: seqs[n], Command: sharding.CommandID(fmt.Sprintf("3f2a9c41d07be856-%08d-depart", seqs[n])),
							Events: []sharding.Event{{Name: "Departed", Payload: []byte(`{"route":"PHX-LAX","delay":12,"at":"01011325"}`)}},
						}},
					}
				}
				results, err := backend.Commit(b.Context(), ops)
				if err != nil {
					b.Fatal(err)
				}
				for i, r := range results {
					if r.Verdict != sharding.Durable {
						b.Fatalf("operation %d is %v", i, r.Verdict)
					}
				}
			}
			b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

// BenchmarkLoad loads entities of one record each, as a region does that starts remembered ones:
// with connections that have been used since the tables were empty, and with new ones.
func BenchmarkLoad(b *testing.B) {
	const entities = 20_000
	server := postgrestest.Start(b)
	name, err := server.NewDatabase()
	if err != nil {
		b.Fatal(err)
	}
	open := func() *Backend {
		d, err := Open(context.Background(), server.URL(postgrestest.Superuser, name), journal.DefaultConfig())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = d.Close() })
		return d
	}
	shard := sharding.ShardID{Type: "Poller"}
	request := func(n int) journal.LoadRequest {
		return journal.LoadRequest{Entity: sharding.Entity{Type: "Poller", ID: sharding.EntityID(fmt.Sprint("p", n))}, Shard: shard, Wakes: true}
	}
	old := open()
	commit := func(ops ...journal.Op) {
		b.Helper()
		results, err := old.Commit(b.Context(), ops)
		if err != nil {
			b.Fatal(err)
		}
		for i, r := range results {
			if r.Verdict != sharding.Durable {
				b.Fatalf("operation %d is %v", i, r.Verdict)
			}
		}
	}
	commit(journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}})
	for n := range 100 { // plans are made now
		if _, err := old.Load(b.Context(), request(n)); err != nil {
			b.Fatal(err)
		}
	}
	for n := 0; n < entities; n += 500 {
		var ops []journal.Op
		for i := n; i < n+500; i++ {
			ops = append(ops, journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: request(i).Entity, Records: []sharding.Record{{
				Seq: 1, Events: []sharding.Event{{Name: "Polled", Payload: []byte(`{"route":"PHX-LAX","delay":12,"at":"01011325"}`)}},
				Wakes: []sharding.Wake{{Kind: sharding.RememberWake, Name: journal.RememberName, Due: -1_000_000}},
			}}}})
		}
		commit(ops...)
	}
	for _, c := range []struct {
		name string
		d    *Backend
	}{{"old", old}, {"new", open()}} {
		for _, at := range []int{1, 6} {
			b.Run(fmt.Sprintf("%s/%d", c.name, at), func(b *testing.B) {
				var n atomic.Int64
				b.SetParallelism(at)
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						if l, err := c.d.Load(b.Context(), request(int(n.Add(7919)%entities))); err != nil || l.LastSeq != 1 {
							b.Error(l.LastSeq, err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "loads/s")
			})
		}
	}
}
