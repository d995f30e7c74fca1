package journaltest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
)

// testAgainstLedger runs random batches through a few handles and through the
// ledger, which must agree about everything.
func testAgainstLedger(e *env) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 11))
		cfg := e.cfg
		cfg.DedupeCount = 1 << 30 // when entries are dropped is each backend's affair
		store := e.fresh(e.T, cfg, e.clock)
		ledger := memory.NewLedger(cfg)
		var handles []journal.Backend
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
			e.compareRows(fmt.Sprintf("seed %d round %d", seed, round), rng, ledger)
		}
		if len(ledger.Log()) < 40 {
			e.Fatalf("seed %d: only %d appends held, the batches prove little", seed, len(ledger.Log()))
		}
		if n := countFired(ledger); n < 5 {
			e.Fatalf("seed %d: only %d wake-ups have fired", seed, n)
		}
	}
}

func countFired(l *memory.Ledger) (n int) {
	for _, c := range l.Log() {
		n += len(c.Append.Fired)
	}
	return n
}

// compareRows compares the wake-ups and sends of a store, read in pages, with the ledger's.
func (e *env) compareRows(when string, rng *rand.Rand, l *memory.Ledger) {
	e.Helper()
	var shards []journal.ShardPosition
	var senders []journal.SendPosition
	for n := range uint32(3) {
		s := sharding.ShardID{Type: "Account", Index: n}
		shards = append(shards, journal.ShardPosition{Shard: s, After: journal.WakePosition{Due: math.MinInt64}})
		senders = append(senders, journal.SendPosition{Shard: s})
	}
	until := int64(rng.IntN(400))
	wakes := e.wakes(e.b, until, 1+rng.IntN(5), shards...)
	slices.SortFunc(wakes, func(a, b journal.WakeEntry) int {
		return cmp.Or(a.Shard.Compare(b.Shard), cmp.Compare(a.Due, b.Due), a.Entity.Compare(b.Entity), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	e.equal(when+": wake-ups", wakes, l.Wakes(e.now, journal.WakesRequest{Shards: shards, Until: until, Limit: 1000}).Entries)
	for i := range shards {
		shards[i].After = journal.WakePosition{Due: journal.PurgeFrom}
	}
	left := e.wakes(e.b, math.MaxInt64, 1+rng.IntN(5), shards...)
	e.equal(when+": deleted entities", len(left), len(l.Wakes(e.now, journal.WakesRequest{Shards: shards, Until: math.MaxInt64, Limit: 1000}).Entries))
	sends := e.sends(e.b, 1+rng.IntN(5), senders...)
	slices.SortFunc(sends, func(a, b journal.SendEntry) int {
		return cmp.Or(a.Shard.Compare(b.Shard), a.Entity.Compare(b.Entity), cmp.Compare(a.Seq, b.Seq))
	})
	e.equal(when+": sends", sends, l.Sends(e.now, journal.SendsRequest{Shards: senders, Limit: 1000}).Entries)
	dead := e.sendPages(e.b, true, 1+rng.IntN(5), senders...)
	slices.SortFunc(dead, func(a, b journal.SendEntry) int {
		return cmp.Or(a.Shard.Compare(b.Shard), a.Entity.Compare(b.Entity), cmp.Compare(a.Seq, b.Seq))
	})
	e.equal(when+": dead letters", dead, l.Sends(e.now, journal.SendsRequest{Shards: senders, Dead: true, Limit: 1000}).Entries)
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
		s := (&sharding.TypeDesc{Type: who.Type, Shards: 2}).ShardOf(who.ID)
		at := l.Fence(s).Epoch
		if at == 0 || rng.IntN(8) == 0 {
			at += sharding.Epoch(rng.IntN(3))
		}
		have, _ := l.Load(journal.LoadRequest{Entity: who})
		switch rng.IntN(12) {
		case 11:
			life := have.Life
			if rng.IntN(8) == 0 {
				life++
			}
			ops[i] = purge(at, who, life)
			ops[i].Purge.Shard = s
		case 0:
			ops[i] = claim(s, at+sharding.Epoch(rng.IntN(2)), sharding.NodeUID(1+rng.IntN(2)))
		case 1:
			ops[i] = fence(s, at)
		case 2:
			ops[i] = snapshot(at, who, uint64(rng.IntN(int(have.LastSeq)+2)), fmt.Sprint("state", rng.IntN(100)))
			ops[i].Snapshot.Shard = s
			if rng.IntN(3) == 0 {
				ops[i].Snapshot.Cut = uint64(rng.IntN(int(ops[i].Snapshot.Snapshot.Seq) + 1))
			}
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
				if rng.IntN(12) == 0 {
					r.Events, r.Delete = nil, true
				} else {
					randomWakes(rng, &r)
				}
				a.Records = append(a.Records, r)
			}
			randomRows(rng, l, a)
			ops[i].Append = a
		}
	}
	return ops
}

// randomWakes lets a record change wake-ups, and send.
func randomWakes(rng *rand.Rand, r *sharding.Record) {
	for k := range 3 {
		if rng.IntN(4) > 0 {
			continue
		}
		w := setting(fmt.Sprint("w", k), int64(rng.IntN(300)), int64(rng.IntN(2)))
		if rng.IntN(3) == 0 {
			w.Kind, w.Due = sharding.RememberWake, -w.Due
		}
		r.Wakes = append(r.Wakes, w)
	}
	if rng.IntN(5) == 0 {
		r.Sends = mailing(r.Seq, 1+rng.IntN(10)).Sends
	}
}

// randomRows lets an append say that wake-ups have fired and sends were delivered, which is
// mostly true. Sometimes that is all that it says.
func randomRows(rng *rand.Rand, l *memory.Ledger, a *sharding.Append) {
	all := journal.WakesRequest{Shards: []journal.ShardPosition{{Shard: a.Shard, After: journal.WakePosition{Due: math.MinInt64}}}, Limit: 1000}
	for _, w := range l.Wakes(time.Time{}, all).Entries {
		if w.Entity != a.Entity || rng.IntN(4) > 0 {
			continue
		}
		f := sharding.Fired{WakeRef: w.WakeRef}
		if rng.IntN(2) == 0 {
			f.Next = 2 * w.Due
		}
		switch rng.IntN(12) {
		case 0:
			f.Seq++
		case 1:
			f.Number++
		case 2:
			f.Name += "x"
		}
		a.Fired = append(a.Fired, f)
	}
	for _, s := range l.Sends(time.Time{}, journal.SendsRequest{Shards: []journal.SendPosition{{Shard: a.Shard}}, Limit: 1000}).Entries {
		if s.Entity != a.Entity || rng.IntN(3) == 0 {
			continue
		}
		d := sharding.Delivered{Seq: s.Seq + uint64(rng.IntN(8)/7), As: sharding.SendDone + sharding.SendState(rng.IntN(4)%3), Once: rng.IntN(6) == 0}
		for range rng.IntN(8) {
			d.Sends = append(d.Sends, uint16(rng.IntN(12)))
		}
		a.Delivered = append(a.Delivered, d)
	}
	if rng.IntN(4) == 0 {
		a.Records = nil
	}
}

// testThroughJournal runs two journals on two handles of the store, with many
// entities at work at the same time.
func testThroughJournal(e *env) {
	const entities, turns = 20, 15
	journals := make([]*commit.Journal, 2)
	for i := range journals {
		b, err := e.store.Open()
		if err != nil {
			e.Fatal(err)
		}
		if journals[i], err = commit.Open(e.Context(), b, journal.Declaration{Cluster: "blue"}, e.cfg, commit.Observer{}); err != nil {
			e.Fatal(err)
		}
	}
	submit := func(j *commit.Journal, op journal.Op) journal.Result {
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
