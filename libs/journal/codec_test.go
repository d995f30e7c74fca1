package journal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

var (
	alice  = sharding.Entity{Type: "Account", ID: "alice"}
	stored = time.UnixMilli(978307200123).UTC()
	full   = sharding.Record{
		Seq: 300, Command: "key-1", Hash: sharding.Hash([]byte("0123456789abcdef")),
		Events: []sharding.Event{{Name: "Opened", Version: 300, ReadableBy: 2, Payload: []byte(`{"n":1}`)}, {Name: "Bare", Encoding: sharding.Protobuf}},
		Wakes: []sharding.Wake{
			{Kind: sharding.ReminderWake, Name: "t", Number: 2, Due: 978307260123, Period: 60000, Input: sharding.Input{
				Command: "remind", Version: 3, ReadableBy: 1, Shape: 0xfedcba9876543210, Encoding: sharding.Protobuf, Payload: []byte{7},
			}},
			{Kind: sharding.RememberWake}, // removed
		},
		Sends: []sharding.Send{{
			To: sharding.Entity{Type: "Cart", ID: "bob"}, Input: sharding.Input{Command: "add", Payload: []byte("{}")}, ReplyTo: "added",
			Options: sharding.SendOptions{Timeout: 5 * time.Second, RetryMin: 20 * time.Millisecond, RetryMax: 24 * time.Hour, MaxAge: 900 * time.Hour},
		}, {
			To: alice, Input: sharding.Input{Command: "add"},
		}},
		Reply: sharding.Reply{Outcome: sharding.Executed, Code: sharding.NotFound, Message: "no", Encoding: sharding.Protobuf, Payload: []byte{0, 255}},
	}
)

// The stored form of format 1 must never change.
const (
	fullForm     = "73ddb71982808080e001fbe89cbdbc1c30313233343536373839616263646566056b65792d3102064f70656e6564ac020200077b226e223a317d0442617265000001000201017402dbbda0bdbc1ce0d4030672656d696e640301fedcba987654321001010702000000000000000000000000000000000002044361727403626f62036164640000000000000000000000027b7d05616464656488271480b8992980f4f9880c074163636f756e7405616c696365036164640000000000000000000000000000000000"
	replyForm    = "ca3f98a00101096e6f745f666f756e64026e6f0200ff"
	snapshotForm = "b8ee3b4f090102fedcba9876543210057374617465"
)

func TestStoredForm(t *testing.T) {
	if got := hex.EncodeToString(journal.AppendRecord(nil, alice, 7<<33|2, stored, &full)); got != fullForm {
		t.Errorf("record is stored as %s", got)
	}
	if got := hex.EncodeToString(journal.AppendReply(nil, alice, &full)); got != replyForm {
		t.Errorf("reply is stored as %s", got)
	}
	s := journal.WriteSnapshot{Entity: alice, Epoch: 9, Snapshot: journal.Snapshot{
		Seq: 4, Encoding: sharding.Protobuf, Form: sharding.SnapshotForm{Version: 2, Shape: 0xfedcba9876543210}, Payload: []byte("state"),
	}}
	if got := hex.EncodeToString(journal.AppendSnapshot(nil, &s)); got != snapshotForm {
		t.Errorf("snapshot is stored as %s", got)
	}
}

func TestRecordRoundTrip(t *testing.T) {
	for _, r := range []sharding.Record{full, {Seq: 1}, {Seq: 1<<64 - 1, Command: "c", Hash: sharding.Hash([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))}} {
		b := journal.AppendRecord([]byte("before"), alice, 5, stored, &r)
		e, err := journal.DecodeRecord(alice, r.Seq, b[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		bare := r
		bare.Reply = sharding.Reply{}
		want := journal.Entry{Record: bare, Epoch: 5, At: stored}
		if fmt.Sprint(e) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", e, want)
		}
		clear(b)
		if fmt.Sprint(e) != fmt.Sprint(want) {
			t.Errorf("the record shares memory with its stored form")
		}
		form := journal.AppendReply([]byte("before"), alice, &r)[len("before"):]
		reply, err := journal.DecodeReply(alice, r.Seq, form)
		clear(form)
		if err != nil || fmt.Sprint(reply) != fmt.Sprint(r.Reply) {
			t.Errorf("the reply is %v (%v), want %v", reply, err, r.Reply)
		}
	}
}

func TestDamageIsFound(t *testing.T) {
	record, reply := journal.AppendRecord(nil, alice, 5, stored, &full), journal.AppendReply(nil, alice, &full)
	damaged(t, "record", record, reply, func(e sharding.Entity, seq uint64, b []byte) error {
		_, err := journal.DecodeRecord(e, seq, b)
		return err
	})
	damaged(t, "reply", reply, record, func(e sharding.Entity, seq uint64, b []byte) error {
		if len(b) == 0 {
			return journal.ErrCorrupt // nothing is stored where there is no reply
		}
		_, err := journal.DecodeReply(e, seq, b)
		return err
	})
	s := journal.WriteSnapshot{Entity: alice, Epoch: 9, Snapshot: journal.Snapshot{Seq: 4, Payload: []byte("state")}}
	form := journal.AppendSnapshot(nil, &s)
	if got, err := journal.DecodeSnapshot(alice, 4, form); err != nil || string(got.Payload) != "state" {
		t.Fatalf("snapshot: %v, %v", got, err)
	}
	form[len(form)-1] ^= 1
	if _, err := journal.DecodeSnapshot(alice, 4, form); !errors.Is(err, journal.ErrCorrupt) {
		t.Fatalf("damaged snapshot: %v", err)
	}
}

// damaged flips every bit of a stored form, cuts it, and moves it elsewhere.
func damaged(t *testing.T, what string, form, other []byte, decode func(sharding.Entity, uint64, []byte) error) {
	for bit := range len(form) * 8 {
		b := bytes.Clone(form)
		b[bit/8] ^= 1 << (bit % 8)
		if err := decode(alice, full.Seq, b); !errors.Is(err, journal.ErrCorrupt) {
			t.Fatalf("%s: flipped bit %d: %v", what, bit, err)
		}
	}
	for n := range form {
		if err := decode(alice, full.Seq, form[:n]); !errors.Is(err, journal.ErrCorrupt) {
			t.Fatalf("%s: cut after %d bytes: %v", what, n, err)
		}
	}
	// In another place the same bytes are damage too.
	if err := decode(alice, full.Seq+1, form); !errors.Is(err, journal.ErrCorrupt) {
		t.Fatalf("%s: at another sequence number: %v", what, err)
	}
	moved := sharding.Entity{Type: "Accounta", ID: "lice"}
	if err := decode(moved, full.Seq, form); !errors.Is(err, journal.ErrCorrupt) {
		t.Fatalf("%s: at another entity: %v", what, err)
	}
	if err := decode(alice, full.Seq, other); !errors.Is(err, journal.ErrCorrupt) {
		t.Fatalf("%s: a form of another kind: %v", what, err)
	}
}

// TestThinRecords: what is too short for its number of events is neither written
// nor read.
func TestThinRecords(t *testing.T) {
	for name, c := range map[string]struct {
		events int
		event  sharding.Event
		good   bool
	}{
		"few of nothing":      {1024, sharding.Event{}, true},
		"many of nothing":     {1025, sharding.Event{}, false},
		"many of six bytes":   {5000, sharding.Event{Name: "O"}, false},
		"many of seven bytes": {5000, sharding.Event{Name: "Ev"}, true},
	} {
		r := sharding.Record{Seq: 1, Events: slices.Repeat([]sharding.Event{c.event}, c.events)}
		op := journal.Op{Append: &sharding.Append{
			Shard: sharding.ShardID{Type: alice.Type}, Entity: alice, Records: []sharding.Record{r},
		}}
		if err := op.Check(); (err == nil) != c.good {
			t.Errorf("%s: writing gives %v", name, err)
		}
		if _, err := journal.DecodeRecord(alice, 1, journal.AppendRecord(nil, alice, 5, stored, &r)); (err == nil) != c.good {
			t.Errorf("%s: reading gives %v", name, err)
		}
	}
}

// TestWakesAndSends: what is not in the stored form of wake-ups and sends is neither written
// nor read.
func TestWakesAndSends(t *testing.T) {
	timer, send := full.Wakes[0], full.Sends[0]
	with := func(change func(w *sharding.Wake)) sharding.Record {
		w := timer
		change(&w)
		return sharding.Record{Seq: 1, Wakes: []sharding.Wake{w}}
	}
	timers := func(n int) (all []sharding.Wake) {
		for i := range n {
			all = append(all, timer)
			all[i].Name += fmt.Sprint(i)
		}
		return all
	}
	sends := func(n int) []sharding.Send { return slices.Repeat([]sharding.Send{send}, n) }
	for name, c := range map[string]struct {
		r             sharding.Record
		writes, reads bool
	}{
		"the most":                  {sharding.Record{Seq: 1, Wakes: timers(journal.MaxWakes), Sends: sends(1000)}, true, true},
		"too many wake-ups":         {sharding.Record{Seq: 1, Wakes: timers(journal.MaxWakes + 1)}, false, false},
		"too many sends":            {sharding.Record{Seq: 1, Sends: sends(1001)}, false, false},
		"a send without sense":      {sharding.Record{Seq: 1, Sends: []sharding.Send{{Options: sharding.SendOptions{Timeout: -time.Second}}}}, false, false},
		"twice the same wake-up":    {sharding.Record{Seq: 1, Wakes: slices.Repeat([]sharding.Wake{timer}, 2)}, false, true},
		"no kind":                   {sharding.Record{Seq: 1, Wakes: make([]sharding.Wake, 1)}, false, false},
		"unknown kind":              {with(func(w *sharding.Wake) { w.Kind = 3 }), false, false},
		"a time before 1970":        {with(func(w *sharding.Wake) { w.Due = -1 }), false, false},
		"a negative period":         {with(func(w *sharding.Wake) { w.Period = -1 }), false, false},
		"a name that is too long":   {with(func(w *sharding.Wake) { w.Name = strings.Repeat("n", 257) }), false, false},
		"a remembered entity":       {with(func(w *sharding.Wake) { w.Kind, w.Due = sharding.RememberWake, -1 }), true, true},
		"one that will be active":   {with(func(w *sharding.Wake) { w.Kind, w.Due = sharding.RememberWake, 1 }), false, false},
		"a wake-up that is removed": {with(func(w *sharding.Wake) { w.Due = 0 }), true, true},
		"thin events before":        {sharding.Record{Seq: 1, Events: make([]sharding.Event, 1025), Wakes: timers(900)}, false, false},
	} {
		_, err := journal.DecodeRecord(alice, 1, journal.AppendRecord(nil, alice, 5, stored, &c.r))
		if (err == nil) != c.reads {
			t.Errorf("%s: reading gives %v", name, err)
		}
		op := journal.Op{Append: &sharding.Append{Shard: sharding.ShardID{Type: alice.Type}, Entity: alice, Records: []sharding.Record{c.r}}}
		if err := op.Check(); (err == nil) != c.writes {
			t.Errorf("%s: writing gives %v", name, err)
		}
		bare := sharding.Record{Seq: 1, Events: c.r.Events}
		if payloads := 10 * (len(c.r.Wakes) + len(c.r.Sends)); c.r.ReplaySize() < bare.ReplaySize()+payloads {
			t.Errorf("%s: a replay of it counts as %d bytes", name, c.r.ReplaySize())
		}
	}
}

// TestFiredAndDelivered: what an append without records may say.
func TestFiredAndDelivered(t *testing.T) {
	fired := func(kind sharding.WakeKind, name string, next int64) sharding.Fired {
		return sharding.Fired{WakeRef: sharding.WakeRef{Kind: kind, Name: name, Seq: 1}, Next: next}
	}
	for name, c := range map[string]struct {
		a    sharding.Append
		good bool
	}{
		"nothing":                  {sharding.Append{}, false},
		"fired":                    {sharding.Append{Fired: []sharding.Fired{fired(1, "a", 0), fired(1, "b", 5)}}, true},
		"of two kinds":             {sharding.Append{Fired: []sharding.Fired{fired(1, "a", 0), fired(2, "a", 0)}}, true},
		"twice":                    {sharding.Append{Fired: []sharding.Fired{fired(1, "a", 0), fired(1, "a", 5)}}, false},
		"of no kind":               {sharding.Append{Fired: []sharding.Fired{fired(0, "a", 0)}}, false},
		"before 1970":              {sharding.Append{Fired: []sharding.Fired{fired(1, "a", -5)}}, false},
		"delivered":                {sharding.Append{Delivered: []sharding.Delivered{{Seq: 1, Sends: []uint16{0, 999}, As: sharding.SendDone}}}, true},
		"delivered as pending":     {sharding.Append{Delivered: []sharding.Delivered{{Seq: 1, Sends: []uint16{0}}}}, false},
		"delivered as what is not": {sharding.Append{Delivered: []sharding.Delivered{{Seq: 1, Sends: []uint16{0}, As: 4}}}, false},
		"with a record that lacks": {sharding.Append{Fired: []sharding.Fired{fired(1, "a", 0)}, Records: []sharding.Record{{Seq: 2, Wakes: make([]sharding.Wake, 1)}}}, false},
	} {
		c.a.Shard, c.a.Entity = sharding.ShardID{Type: alice.Type}, alice
		op := journal.Op{Append: &c.a}
		if err := op.Check(); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
		if says := 16 * (len(c.a.Fired) + len(c.a.Delivered)); op.Size() < says {
			t.Errorf("%s: counts as %d bytes", name, op.Size())
		}
	}
}

func TestConfig(t *testing.T) {
	good := journal.DefaultConfig()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	var none journal.Config
	err := none.Validate()
	for _, field := range []string{"dedupe_age", "BatchOps", "BatchBytes", "QueueOps", "QueueBytes", "OpBytes", "PageBytes", "Loads", "CommitTimeout", "RetryFor", "RetryDelay"} {
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(field)) {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}

func BenchmarkDecodeRecord(b *testing.B) {
	form := journal.AppendRecord(nil, alice, 9, stored, &full)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := journal.DecodeRecord(alice, full.Seq, form); err != nil {
			b.Fatal(err)
		}
	}
}
