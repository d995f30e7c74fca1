package console

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/journal/commit"
	"github.com/roost-cluster/roost/libs/journal/memory"
	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/sharding/shardingtest"
	"github.com/roost-cluster/roost/services/coordinator"
)

// stored is a journal of a test.
type stored struct {
	StoredForms
	t       *testing.T
	journal *commit.Journal
}

func openJournal(t *testing.T) stored {
	t.Helper()
	j, err := commit.Open(t.Context(), memory.New(journal.DefaultConfig()), journal.Declaration{Cluster: "dev"}, journal.DefaultConfig(), commit.Observer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return stored{StoredForms{Journal: j, Log: slog.New(slog.DiscardHandler)}, t, j}
}

func (s stored) close() {
	s.t.Helper()
	if err := s.journal.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// commit executes operations, and fails the test unless all hold.
func (s stored) commit(ops ...journal.Op) {
	s.t.Helper()
	results := make(chan journal.Result, len(ops))
	for _, op := range ops {
		s.journal.Submit(op, func(res journal.Result) { results <- res })
	}
	for range ops {
		if res := <-results; res.Verdict != sharding.Durable {
			s.t.Fatalf("%+v", res)
		}
	}
}

// TestFindForms: the entities of all pages are found, those of other shards are not read, and
// reading ends when there is nothing left to find.
func TestFindForms(t *testing.T) {
	r := openJournal(t)
	form := func(version uint16) sharding.Form {
		return sharding.Form{Kind: sharding.FormOfEvent, Name: "added", Version: version}
	}
	const shards = 2
	var ops []journal.Op
	for i := range uint32(shards) {
		ops = append(ops, journal.Op{Claim: &sharding.Claim{Shard: sharding.ShardID{Type: "T", Index: i}, Epoch: 1, Owner: 1}})
	}
	r.commit(ops...)
	// All store version 1, and the last one of the second page version 2.
	ops = nil
	ask := coordinator.ReadForms{Desc: sharding.TypeDesc{Type: "T", Shards: shards}, Forms: []sharding.Form{form(1), form(2), form(3)}}
	here := 0
	for i := range lookPage + 10 {
		e := sharding.Entity{Type: "T", ID: sharding.EntityID(fmt.Sprintf("e%05d", i))}
		index := shardingtest.ShardOf(e.ID, shards)
		event := sharding.Event{Name: "added", Version: 1, Encoding: sharding.JSON, Payload: []byte("{}")}
		if i == lookPage+9 {
			event.Version = 2
			ask.At = []coordinator.FormsAt{{Index: index, Forms: sharding.FormSet("").With(1).With(2)}}
		}
		ops = append(ops, journal.Op{Append: &sharding.Append{
			Shard: sharding.ShardID{Type: "T", Index: index}, Epoch: 1, Entity: e, Records: []sharding.Record{{Seq: 1, Events: []sharding.Event{event}}},
		}})
	}
	r.commit(ops...)
	for _, op := range ops {
		here += one(shardingtest.ShardOf(op.Append.Entity.ID, shards) == ask.At[0].Index)
	}
	found := ask.Begin()
	n, err := r.findForms(t.Context(), "T", found)
	if want := sharding.FormSet("").With(0).With(1); err != nil || n != here || found.Answer().At[0].Forms != want {
		t.Errorf("%d entities read of %d, found %x, want %x; %v", n, here, string(found.Answer().At[0].Forms), string(want), err)
	}
	ask.At[0].Forms = sharding.FormSet("").With(0)
	found = ask.Begin()
	if n, err := r.findForms(t.Context(), "T", found); err != nil || n != 1 {
		t.Errorf("%d entities read to find what the first one has; %v", n, err)
	}
	// Of a trimmed entity counts what a region reads: the events after its snapshot, and the form
	// of that, which is not looked for.
	ask = coordinator.ReadForms{Desc: sharding.TypeDesc{Type: "U", Shards: 1}, Forms: []sharding.Form{form(1), form(2), form(3), {Kind: sharding.FormOfSnapshot, Version: 1}}}
	ask.At = []coordinator.FormsAt{{Forms: sharding.FormSet("").With(0).With(1).With(2).With(3)}}
	shard, trimmed := sharding.ShardID{Type: "U"}, sharding.Entity{Type: "U", ID: "u"}
	add := &sharding.Append{Shard: shard, Epoch: 1, Entity: trimmed}
	for i := range uint16(2) {
		add.Records = append(add.Records, sharding.Record{Seq: uint64(i) + 1, Events: []sharding.Event{{Name: "added", Version: i + 1, Encoding: sharding.JSON, Payload: []byte("{}")}}})
	}
	r.commit(journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}}, journal.Op{Append: add},
		journal.Op{Snapshot: &journal.WriteSnapshot{Shard: shard, Epoch: 1, Entity: trimmed, Snapshot: journal.Snapshot{Seq: 1}, Cut: 1}})
	found = ask.Begin()
	n, err = r.findForms(t.Context(), "U", found)
	if want := sharding.FormSet("").With(1).With(3); err != nil || n != 1 || found.Answer().At[0].Forms != want {
		t.Errorf("%d entities read, found %x, want %x; %v", n, string(found.Answer().At[0].Forms), string(want), err)
	}
	r.close()
	if _, err := r.findForms(t.Context(), "T", ask.Begin()); err == nil {
		t.Error("a journal that is closed is read")
	}
}

// TestFindInputs: the timers that stand are found, and the pending sends whose answers are wanted.
func TestFindInputs(t *testing.T) {
	r := openJournal(t)
	shard, e := sharding.ShardID{Type: "T"}, sharding.Entity{Type: "T", ID: "e"}
	input := func(name string) sharding.Input {
		return sharding.Input{Command: name, Version: 1, Shape: 7, Payload: []byte("{}")}
	}
	timer := func(name string) sharding.Wake {
		return sharding.Wake{Kind: sharding.ReminderWake, Name: name, Due: 1 << 40, Input: input(name)}
	}
	r.commit(journal.Op{Claim: &sharding.Claim{Shard: shard, Epoch: 1, Owner: 1}})
	r.commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: e, Records: []sharding.Record{
		{Seq: 1, Wakes: []sharding.Wake{timer("stands"), timer("removed")}},
		{Seq: 2, Wakes: []sharding.Wake{{Kind: sharding.ReminderWake, Name: "removed"}}, Sends: []sharding.Send{
			{To: e, Input: input("sent"), ReplyTo: "pending"}, {To: e, Input: input("sent"), ReplyTo: "done"}, {To: e, Input: input("sent"), ReplyTo: "dead"},
		}},
	}}})
	r.commit(journal.Op{Append: &sharding.Append{Shard: shard, Epoch: 1, Entity: e, Delivered: []sharding.Delivered{
		{Seq: 2, Sends: []uint16{1}, As: sharding.SendDone}, {Seq: 2, Sends: []uint16{2}, As: sharding.SendRefused},
	}}})
	ask := coordinator.ReadForms{Desc: sharding.TypeDesc{Type: "T", Shards: 1}, At: []coordinator.FormsAt{{}}}
	names := []string{"stands", "removed", "sent", "pending", "done", "dead"}
	for i, name := range names {
		ask.Forms = append(ask.Forms, sharding.Form{Kind: sharding.FormOfInput, Name: name, Version: 1, Shape: 7})
		ask.At[0].Forms = ask.At[0].Forms.With(i)
	}
	found := ask.Begin()
	if err := r.findInputs(t.Context(), found); err != nil || found.Answer().At[0].Forms != sharding.FormSet("").With(0).With(3) {
		t.Errorf("found %x of %v, %v", string(found.Answer().At[0].Forms), names, err)
	}
	r.close()
	if err := r.findInputs(t.Context(), ask.Begin()); err == nil {
		t.Error("a journal that is closed is read")
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
