package journaltest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
)

// testAgainstLedger runs random batches through a few handles and through the
// ledger, which must agree about everything.
func testAgainstLedger(e *env) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 11))
		cfg := e.cfg
		cfg.DedupeCount = 1 << 30 // when entries are dropped is each driver's affair
		store := e.fresh(e.T, cfg, e.clock)
		ledger := memory.NewLedger(cfg)
		var handles []journal.Driver
		for range 3 {
			b, err := store.Open()
			if err != nil {
				e.Fatal(err)
			}
			handles = append(handles, b)
			e.Cleanup(func() { _ = b.Close() })
		}
		for round := range 80 {
			e.pass(time.Duration(rng.IntN(5000)) * time.Millisecond)
			ops := randomBatch(rng, ledger)
			b := handles[rng.IntN(len(handles))]
			got, err := b.Commit(e.Context(), ops)
			if err != nil {
				e.Fatalf("seed %d round %d: %v", seed, round, err)
			}
			for i, want := range ledger.Apply(journal.Moment{Wall: e.now}, ops) {
				if got[i] != want {
					e.Fatalf("seed %d round %d: operation %d (%s) is %+v, the ledger says %+v", seed, round, i, describe(ops[i]), got[i], want)
				}
			}
			e.b = handles[rng.IntN(len(handles))]
			who, lookup := randomEntity(rng), []sharding.CommandID{randomCommand(rng), randomCommand(rng)}
			want, err := ledger.Load(journal.LoadRequest{Entity: who, Lookup: lookup})
			if err != nil {
				e.Fatal(err)
			}
			e.equal(fmt.Sprintf("seed %d round %d: load of %s", seed, round, who), e.load(who, lookup...), want)
		}
		if len(ledger.Log()) < 40 {
			e.Fatalf("seed %d: only %d appends held, the batches prove little", seed, len(ledger.Log()))
		}
	}
}

func randomEntity(rng *rand.Rand) sharding.Entity {
	return sharding.Entity{Type: "Account", ID: sharding.EntityID(fmt.Sprint("e", rng.IntN(5)))}
}

func randomCommand(rng *rand.Rand) sharding.CommandID {
	return sharding.CommandID(fmt.Sprint("c", rng.IntN(900)))
}

func randomBatch(rng *rand.Rand, l *memory.Ledger) []journal.Op {
	ops := make([]journal.Op, 1+rng.IntN(6))
	for i := range ops {
		who := randomEntity(rng)
		s := sharding.ShardID{Type: who.Type, Index: sharding.ShardOf(who.ID, 2)}
		at := l.Fence(s).Epoch
		if at == 0 || rng.IntN(8) == 0 {
			at += sharding.Epoch(rng.IntN(3))
		}
		have, _ := l.Load(journal.LoadRequest{Entity: who})
		switch rng.IntN(11) {
		case 0:
			ops[i] = claim(s, at+sharding.Epoch(rng.IntN(2)), sharding.NodeUID(1+rng.IntN(2)))
		case 1:
			ops[i] = fence(s, at)
		case 2:
			ops[i] = snapshot(at, who, uint64(rng.IntN(int(have.LastSeq)+2)), fmt.Sprint("state", rng.IntN(100)))
			ops[i].Snapshot.Shard = s
		case 3:
			ops[i] = drop(who, uint64(rng.IntN(int(have.LastSeq)+2)))
			ops[i].Drop.Shard = s
		default:
			a := &sharding.Append{Shard: s, Epoch: at, Entity: who}
			seq := have.LastSeq + 1
			if rng.IntN(10) == 0 {
				seq += uint64(rng.IntN(3)) - 1
			}
			for n := range uint64(1 + rng.IntN(3)) {
				r := record(seq+n, randomCommand(rng))
				if rng.IntN(4) == 0 {
					r = blank(seq + n)
				}
				a.Records = append(a.Records, r)
			}
			ops[i].Append = a
		}
	}
	return ops
}

// testThroughJournal runs two journals on two handles of the store, with many
// entities at work at the same time.
func testThroughJournal(e *env) {
	const entities, turns = 20, 15
	journals := make([]*journal.Journal, 2)
	for i := range journals {
		b, err := e.store.Open()
		if err != nil {
			e.Fatal(err)
		}
		if journals[i], err = journal.Open(e.Context(), b, journal.Declaration{Cluster: "blue"}, e.cfg, journal.Observer{}); err != nil {
			e.Fatal(err)
		}
	}
	submit := func(j *journal.Journal, op journal.Op) journal.Result {
		got := make(chan journal.Result, 1)
		j.Submit(op, func(r journal.Result) { got <- r })
		return <-got
	}
	if r := submit(journals[0], claim(shard, epoch, 1)); r.Verdict != durable {
		e.Fatalf("claim is %v: %v", r.Verdict, r.Err)
	}
	name := func(i int) sharding.Entity {
		return sharding.Entity{Type: "Account", ID: sharding.EntityID(fmt.Sprint("e", i))}
	}
	var all sync.WaitGroup
	errs := make([]error, entities)
	for i := range entities {
		all.Go(func() {
			j := journals[i%len(journals)]
			for seq := uint64(1); seq <= turns; seq++ {
				if r := submit(j, add(name(i), record(seq, sharding.CommandID(fmt.Sprint(seq))))); r.Verdict != durable {
					errs[i] = fmt.Errorf("%s: append %d is %v: %v", name(i), seq, r.Verdict, r.Err)
					return
				}
				if r := submit(j, fence(shard, epoch)); r.Verdict != durable {
					errs[i] = fmt.Errorf("%s: fence read is %v: %v", name(i), r.Verdict, r.Err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		e.Fatal(err)
	}
	for i := range entities {
		l, err := journals[(i+1)%len(journals)].Load(e.Context(), journal.LoadRequest{Entity: name(i)})
		if err != nil || l.LastSeq != turns {
			e.Fatalf("%s: last record %d, want %d; %v", name(i), l.LastSeq, turns, err)
		}
	}
	for _, j := range journals {
		if err := j.Close(); err != nil {
			e.Fatal(err)
		}
	}
}
