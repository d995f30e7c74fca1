//go:build linux

package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
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
