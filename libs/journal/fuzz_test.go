package journal

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/sharding"
	"github.com/roost-cluster/roost/libs/test/archtest"
)

// forge gives a body the checksum that its place asks for, which no fuzzer
// would find.
func forge(body []byte, entity sharding.Entity, seq uint64) []byte {
	b := append(make([]byte, 4, 4+len(body)), body...)
	seal(b, entity, seq)
	return b
}

var fuzzed = sharding.Entity{Type: "Account", ID: "alice"}

// FuzzRecord: no body panics or takes much memory, and whatever is accepted has
// exactly this one form.
func FuzzRecord(f *testing.F) {
	at := time.UnixMilli(978307200123)
	for _, r := range []sharding.Record{
		{Seq: 1},
		{Seq: 1, Command: "k", Hash: sharding.Hash{7}, Reply: sharding.Reject(sharding.NotFound, "no")},
		{Seq: 1, Events: []sharding.Event{{Name: "Opened", Payload: []byte(`{"n":1}`)}, {Encoding: sharding.Protobuf}}},
		{Seq: 1, Wakes: []sharding.Wake{{Kind: sharding.ReminderWake, Name: "t", Number: 1, Due: 5, Period: 6, Input: sharding.Input{Command: "go", Version: 1, Shape: 7, Payload: []byte("{}")}}}},
		{Seq: 1, Wakes: []sharding.Wake{{Kind: sharding.RememberWake, Due: -5}, {Kind: sharding.ReminderWake, Name: "t"}}},
		{Seq: 1, Wakes: []sharding.Wake{{Kind: sharding.ReminderWake, Due: -5}}}, // refused
		{Seq: 1, Sends: []sharding.Send{{To: sharding.Entity{Type: "T", ID: "i"}, Input: sharding.Input{Command: "go", ReadableBy: 1}, ReplyTo: "done", Options: sharding.SendOptions{MaxAge: 1e9}}}},
		{Seq: 1, Wakes: slices.Repeat([]sharding.Wake{{Kind: sharding.RememberWake}}, MaxWakes), Sends: make([]sharding.Send, MaxSends)},
		{Seq: 1, Events: make([]sharding.Event, maxTinyEvents)},
		{Seq: 1, Events: make([]sharding.Event, 5000)}, // refused
		{Seq: 1, Events: slices.Repeat([]sharding.Event{{Name: "Open"}}, 5000)},
	} {
		f.Add(AppendRecord(nil, fuzzed, sharding.MakeEpoch(7, 2), at, &r)[4:])
	}
	// The epoch 5 in two bytes.
	f.Add(append([]byte{0x85, 0}, AppendRecord(nil, fuzzed, 5, at, &sharding.Record{Seq: 1})[5:]...))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := forge(body, fuzzed, 1)
		if _, err := DecodeRecord(fuzzed, 1, body); err == nil {
			t.Errorf("%x is accepted without a checksum", body)
		}
		archtest.Memory(t, archtest.MemoryFactor, len(b), func() { _, _ = DecodeRecord(fuzzed, 1, b) })
		e, err := DecodeRecord(fuzzed, 1, b)
		if err != nil {
			return
		}
		if denseRecord(e.Record) {
			t.Errorf("%x is read, and would not be written", b)
		}
		for i := range e.Record.Wakes {
			if err := e.Record.Wakes[i].Check(); err != nil {
				t.Errorf("%x is read, and would not be written: %v", b, err)
			}
		}
		if again := AppendRecord(nil, fuzzed, e.Epoch, e.At, &e.Record); !bytes.Equal(again, b) {
			t.Errorf("%x\ndecodes to %+v\nencodes to %x", b, e, again)
		}
	})
}

// FuzzReply is FuzzRecord for replies.
func FuzzReply(f *testing.F) {
	for _, r := range []sharding.Reply{{Outcome: sharding.Executed}, sharding.Reject(sharding.NotFound, "no"), {Outcome: sharding.Executed, Encoding: sharding.Protobuf, Payload: make([]byte, 200)}} {
		f.Add(AppendReply(nil, fuzzed, &sharding.Record{Seq: 1, Reply: r})[4:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append(make([]byte, 4, 4+len(body)), body...)
		sealReply(b, fuzzed, 1)
		archtest.Memory(t, archtest.MemoryFactor, len(b), func() { _, _ = DecodeReply(fuzzed, 1, b) })
		r, err := DecodeReply(fuzzed, 1, b)
		if err != nil {
			return
		}
		if again := AppendReply(nil, fuzzed, &sharding.Record{Seq: 1, Reply: r}); !bytes.Equal(again, b) {
			t.Errorf("%x\ndecodes to %+v\nencodes to %x", b, r, again)
		}
	})
}

// FuzzSnapshot is FuzzRecord for snapshots.
func FuzzSnapshot(f *testing.F) {
	for _, payload := range []string{"", "state", string(make([]byte, 200))} {
		s := WriteSnapshot{Entity: fuzzed, Epoch: 9, Snapshot: Snapshot{Seq: 1, Encoding: sharding.Protobuf, Payload: []byte(payload)}}
		f.Add(AppendSnapshot(nil, &s)[4:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := forge(body, fuzzed, 1)
		archtest.Memory(t, archtest.MemoryFactor, len(b), func() { _, _ = DecodeSnapshot(fuzzed, 1, b) })
		s, err := DecodeSnapshot(fuzzed, 1, b)
		if err != nil {
			return
		}
		d := decoder{b: body}
		again := AppendSnapshot(nil, &WriteSnapshot{Entity: fuzzed, Epoch: sharding.Epoch(d.uint()), Snapshot: s})
		if !bytes.Equal(again, b) {
			t.Errorf("%x\ndecodes to %+v\nencodes to %x", b, s, again)
		}
	})
}
