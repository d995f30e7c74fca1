package memory

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

var start = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)

// moment is the time in a process whose clock is right.
func moment(now time.Time) journal.Moment {
	return journal.Moment{Wall: now, Writer: 1, Elapsed: now.Sub(start)}
}

// randomOps draws a small batch that is often refused.
func randomOps(rng *rand.Rand, l *Ledger) []journal.Op {
	ops := make([]journal.Op, 1+rng.IntN(4))
	for i := range ops {
		shard := sharding.ShardID{Type: "T", Index: uint32(rng.IntN(2))}
		epoch := sharding.Epoch(1 + rng.IntN(4))
		if f := l.Fence(shard); rng.IntN(3) > 0 && f.Epoch > 0 {
			epoch = f.Epoch
		}
		id := sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprint(shard.Index, "-", rng.IntN(3)))}
		var last uint64
		if e := l.entities[id]; e != nil {
			last = e.last()
		}
		switch rng.IntN(8) {
		case 0:
			ops[i].Claim = &sharding.Claim{Shard: shard, Epoch: epoch + sharding.Epoch(rng.IntN(2)), Owner: sharding.NodeUID(1 + rng.IntN(2))}
		case 1:
			ops[i].Fence = &sharding.ReadFence{Shard: shard, Epoch: epoch}
		case 2:
			ops[i].Snapshot = &journal.WriteSnapshot{Shard: shard, Epoch: epoch, Entity: id,
				Snapshot: journal.Snapshot{Seq: uint64(rng.IntN(int(last) + 2)), Payload: []byte("s")}}
		default:
			a := &sharding.Append{Shard: shard, Epoch: epoch, Entity: id}
			for n := range 1 + rng.IntN(3) {
				a.Records = append(a.Records, sharding.Record{
					Seq:     last + uint64(n) + 1 + uint64(rng.IntN(8)/7),
					Command: sharding.CommandID(fmt.Sprint(rng.IntN(40))),
					Wakes:   []sharding.Wake{{Kind: sharding.ReminderWake, Name: fmt.Sprint("w", rng.IntN(3)), Due: int64(rng.IntN(3))}},
					Sends:   make([]sharding.Send, rng.IntN(3)),
				})
			}
			randomRows(rng, l.entities[id], a)
			ops[i].Append = a
		}
	}
	return ops
}

// randomRows marks wake-ups as fired, and sends as ended.
func randomRows(rng *rand.Rand, e *entity, a *sharding.Append) {
	if e == nil || rng.IntN(3) == 0 {
		return
	}
	for n := range rng.IntN(3) {
		key := wakeKey{sharding.ReminderWake, fmt.Sprint("w", n)}
		if w, ok := e.wakes[key]; ok {
			a.Fired = append(a.Fired, sharding.Fired{WakeRef: sharding.WakeRef{Kind: key.kind, Name: key.name, Seq: w.seq, Number: w.number}, Next: int64(rng.IntN(2))})
		}
	}
	a.Delivered = append(a.Delivered, sharding.Delivered{Seq: 1 + uint64(rng.IntN(int(e.last())+1)), Sends: []uint16{uint16(rng.IntN(2))}, As: sharding.SendDone})
	if rng.IntN(3) == 0 {
		a.Records = nil
	}
}

func TestCloneAndReplay(t *testing.T) {
	cfg := journal.DefaultConfig()
	cfg.DedupeAge, cfg.DedupeCount = 30*time.Second, 3
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		now, l := start, NewLedger(cfg)
		for range 60 {
			now = now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
			ops, before := randomOps(rng, l), l.AppendState(nil, now)
			c := l.Clone()
			got := fmt.Sprint(l.Apply(moment(now), ops))
			if after := c.AppendState(nil, now); !bytes.Equal(before, after) {
				t.Fatalf("seed %d: a clone changed with its original", seed)
			}
			if again := fmt.Sprint(c.Apply(moment(now), ops)); again != got {
				t.Fatalf("seed %d: the clone answers %s, the original %s", seed, again, got)
			}
			if !bytes.Equal(c.AppendState(nil, now), l.AppendState(nil, now)) {
				t.Fatalf("seed %d: same operations, other states", seed)
			}
			if err := l.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}

func TestLogIsWhatHolds(t *testing.T) {
	l := NewLedger(journal.DefaultConfig())
	shard, id := sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"}
	unit := func(epoch sharding.Epoch, seq uint64) journal.Op {
		return journal.Op{Append: &sharding.Append{Shard: shard, Epoch: epoch, Entity: id, Records: []sharding.Record{{Seq: seq}}}}
	}
	l.Apply(moment(start), []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 7, Owner: 1}}, unit(6, 1), unit(7, 2)})
	l.Apply(moment(start), []journal.Op{unit(7, 1)})
	l.Apply(moment(start), []journal.Op{{Claim: &sharding.Claim{Shard: shard, Epoch: 8, Owner: 1}}, unit(7, 2), unit(8, 2)})
	var got string
	for _, c := range l.Log() {
		got += fmt.Sprint(c.Epoch.Counter(), ":", c.Append.Records[0].Seq, " ")
	}
	if got != "7:1 8:2 " {
		t.Fatalf("log is %q", got)
	}
}

// TestStateHasRows: what an append without records changes is part of the state, and times
// are relative.
func TestStateHasRows(t *testing.T) {
	shard, id := sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "a"}
	made := func(now time.Time) *Ledger {
		l := NewLedger(journal.DefaultConfig())
		r := sharding.Record{Seq: 1, Sends: make([]sharding.Send, 2), Wakes: []sharding.Wake{{Kind: sharding.ReminderWake, Name: "w", Due: now.UnixMilli() + 5}}}
		l.Apply(moment(now), []journal.Op{
			{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}},
			{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: id, Records: []sharding.Record{r}}},
		})
		return l
	}
	ref := sharding.WakeRef{Kind: sharding.ReminderWake, Name: "w", Seq: 1}
	seen := map[string]string{}
	for name, a := range map[string]sharding.Append{
		"as it was": {},
		"fired":     {Fired: []sharding.Fired{{WakeRef: ref}}},
		"at 7":      {Fired: []sharding.Fired{{WakeRef: ref, Next: start.UnixMilli() + 7}}},
		"at 8":      {Fired: []sharding.Fired{{WakeRef: ref, Next: start.UnixMilli() + 8}}},
		"first":     {Delivered: []sharding.Delivered{{Seq: 1, Sends: []uint16{0}, As: sharding.SendDone}}},
		"second":    {Delivered: []sharding.Delivered{{Seq: 1, Sends: []uint16{1}, As: sharding.SendDone}}},
		"refused":   {Delivered: []sharding.Delivered{{Seq: 1, Sends: []uint16{0}, As: sharding.SendRefused}}},
		"both":      {Delivered: []sharding.Delivered{{Seq: 1, Sends: []uint16{0, 1}, As: sharding.SendDone}}},
	} {
		l := made(start)
		a.Shard, a.Epoch, a.Entity = shard, 1, id
		l.Apply(moment(start), []journal.Op{{Append: &a}})
		state := string(l.AppendState(nil, start))
		if other, again := seen[state]; again {
			t.Errorf("%s and %s are the same state", name, other)
		}
		seen[state] = name
	}
	later := start.Add(time.Hour)
	a, b := made(start), made(later)
	a.entities[id].entries[0].stamp = b.entities[id].entries[0].stamp // the age of the process
	if !bytes.Equal(a.AppendState(nil, start), b.AppendState(nil, later)) {
		t.Error("the same an hour later is another state")
	}
}
