package journal_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// rawEntity has three records; the second one has a reply, and has set a remembered start.
func rawEntity(t *testing.T) *journal.RawEntity {
	t.Helper()
	e := &journal.RawEntity{Entity: sharding.Entity{Type: "Cart", ID: "dora"}, LastSeq: 3}
	for seq := uint64(1); seq <= 3; seq++ {
		r := sharding.Record{Seq: seq, Command: sharding.CommandID("k" + string(rune('0'+seq))), Hash: sharding.Hash{7}, Events: []sharding.Event{{Name: "x"}}, Reply: sharding.Reply{Outcome: sharding.Executed, Payload: []byte("reply")}}
		if seq == 2 {
			r.Wakes = []sharding.Wake{{Kind: sharding.RememberWake, Due: -5}}
		}
		if err := e.Add(journal.RawRecord{Seq: seq, Body: journal.AppendRecord(nil, e.Entity, 1, time.UnixMilli(1000), &r), Reply: journal.AppendReply(nil, e.Entity, &r)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.AddWake(journal.RawWake{WakeRef: sharding.WakeRef{Kind: sharding.RememberWake, Seq: 2}, Due: -5}); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestRepairOfReplies: a damaged reply is replaced by one that says so. The record stays.
func TestRepairOfReplies(t *testing.T) {
	e := rawEntity(t)
	e.Records[1].Reply[9] ^= 1
	found := e.Examine()
	if len(found) != 1 || found[0].Kind != journal.DamagedReply || found[0].Blocks || found[0].Seq != 2 {
		t.Fatalf("%+v", found)
	}
	p, err := journal.PlanRepair(e, &journal.Repair{Entity: e.Entity, Do: journal.LoseReply, Seq: 2}, time.Now())
	if err != nil || len(p.After) > 0 || len(p.Put) != 1 || string(p.Put[0].Body) != string(e.Records[1].Body) || len(p.Wakes) > 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	r, err := journal.DecodeReply(e.Entity, 2, p.Put[0].Reply)
	if err != nil || r.Outcome != sharding.Unknown || r.Code != sharding.DataLoss {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRepairOfRememberedStarts: one whose record is missing is found, and goes with the record.
func TestRepairOfRememberedStarts(t *testing.T) {
	for _, do := range []journal.RepairKind{journal.SkipRecord, journal.DropRows} {
		e := rawEntity(t)
		e.Records[1].Body[9] ^= 1
		found := e.Examine()
		if len(found) != 2 || found[0].Kind != journal.DamagedRecord || !found[0].Blocks || found[1].Kind != journal.DamagedRemember || found[1].Blocks {
			t.Fatalf("%+v", found)
		}
		p, err := journal.PlanRepair(e, &journal.Repair{Entity: e.Entity, Do: do, Seq: 2}, time.Now())
		if err != nil || len(p.Wakes) != 1 || len(p.After) != map[journal.RepairKind]int{journal.SkipRecord: 0, journal.DropRows: 1}[do] {
			t.Errorf("%s: %+v, %v", do, p, err)
		}
	}
}

// TestRepairOfNumbers: no repair guesses which record is which.
func TestRepairOfNumbers(t *testing.T) {
	for name, change := range map[string]func(e *journal.RawEntity){
		"a number that is far off":  func(e *journal.RawEntity) { e.Records[2].Seq, e.LastSeq = 1<<62, 1<<62 },
		"a number behind the last":  func(e *journal.RawEntity) { e.Records[2].Seq = 1 << 40 },
		"a last one that is not it": func(e *journal.RawEntity) { e.LastSeq = 1 << 40 },
	} {
		e := rawEntity(t)
		change(e)
		for _, do := range []journal.RepairKind{journal.SkipRecord, journal.GoBack, journal.DeleteEntity, journal.DropRows} {
			_, err := journal.PlanRepair(e, &journal.Repair{Entity: e.Entity, Do: do, Seq: 2}, time.Now())
			if !errors.Is(err, journal.ErrRepair) || !errors.Is(err, journal.ErrCorrupt) || !strings.Contains(err.Error(), "restore a backup") {
				t.Errorf("%s, %s: %v", name, do, err)
			}
		}
	}
}

// TestRepairIsBounded: an entity with more than a repair can hold is refused.
func TestRepairIsBounded(t *testing.T) {
	e := journal.RawEntity{Entity: sharding.Entity{Type: "Cart", ID: "dora"}}
	if err := e.Add(journal.RawRecord{Seq: 1, Body: make([]byte, journal.MaxRepairBytes)}); err != nil {
		t.Error(err)
	}
	if err := e.Add(journal.RawRecord{Seq: 2, Body: make([]byte, 1)}); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("more bytes than fit: %v", err)
	}
	e = journal.RawEntity{Entity: e.Entity}
	for range journal.MaxRepairRecords {
		if err := e.AddSends(journal.RawSends{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.AddWake(journal.RawWake{}); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("more rows than fit: %v", err)
	}
}

// TestRepairFence: repairs that follow each other stay at one epoch, and a term that has no epochs left has none
// for a repair.
func TestRepairFence(t *testing.T) {
	for _, c := range []struct {
		name      string
		have      sharding.Fence
		want      sharding.Epoch
		exhausted bool
	}{
		{"of a region", sharding.Fence{Epoch: sharding.MakeEpoch(7, 4), Owner: 9}, sharding.MakeEpoch(7, 5), false},
		{"of a repair", sharding.Fence{Epoch: sharding.MakeEpoch(7, 4), Owner: journal.RepairOwner}, sharding.MakeEpoch(7, 4), false},
		{"without entity", sharding.Fence{}, 1, false},
		{"the last one", sharding.Fence{Epoch: sharding.MakeEpoch(7, 1<<32-1), Owner: 9}, 0, true},
	} {
		f, err := journal.RepairFence(c.have)
		if errors.Is(err, journal.ErrRepair) != c.exhausted || err == nil && (f.Epoch != c.want || f.Owner != journal.RepairOwner) {
			t.Errorf("%s: %+v, %v", c.name, f, err)
		}
	}
}
