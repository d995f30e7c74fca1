package history

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/libs/journal"
	"github.com/roost-cluster/roost/libs/sharding"
)

// store returns the records that a correct history leaves.
func store(ops []Op, final map[string][]int64) (stored []Stored) {
	keys := map[int64]string{}
	for i := range ops {
		if o := &ops[i]; o.Kind == Add {
			if o.Value%3 > 0 {
				o.Key = fmt.Sprint("key-", o.Value)
			}
			keys[o.Value] = o.Key
		}
	}
	for _, list := range []string{"a", "b"} {
		for i, v := range final[list] {
			command := keys[v]
			if command == "" {
				command = fmt.Sprint("gateway-", v)
			}
			stored = append(stored, Stored{List: list, Seq: int64(i + 1), Epoch: uint64(1 + i/50), Command: command, Values: []int64{v}})
		}
	}
	return stored
}

// all checks what a run does.
func all(ops []Op, final map[string][]int64, stored []Stored) error {
	if err := CheckStored(ops, stored); err != nil {
		return err
	}
	return CheckRead(final, stored)
}

func TestCorrectJournals(t *testing.T) {
	for seed := range uint64(50) {
		ops, final := generate(seed)
		if err := all(ops, final, store(ops, final)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestCorruptedJournals: every corruption is found, with its name.
func TestCorruptedJournals(t *testing.T) {
	record := func(stored []Stored, o *Op) *Stored {
		return &stored[slices.IndexFunc(stored, func(s Stored) bool { return s.Values[0] == o.Value })]
	}
	keyed := func(o *Op) bool { return acknowledged(o) && o.Key != "" }
	notApplied := func(o *Op) bool { return o.Kind == Add && o.Outcome == NotApplied && o.List == "b" && o.Key != "" }
	last := func(stored []Stored) Stored {
		s := stored[len(stored)-1]
		s.Seq, s.Command, s.Values = s.Seq+1, "another", nil
		return s
	}
	for _, c := range []struct {
		name, want string
		corrupt    func(ops []Op, final map[string][]int64, stored []Stored) []Stored
	}{
		{"acknowledged and lost", "lost", func(ops []Op, _ map[string][]int64, stored []Stored) []Stored {
			record(stored, pick(ops, acknowledged)).Values = nil
			return stored
		}},
		{"a record is missing", "a gap", func(_ []Op, _ map[string][]int64, stored []Stored) []Stored {
			return slices.Delete(stored, 20, 21)
		}},
		{"a value of a refused command", "refused and stored", func(ops []Op, _ map[string][]int64, stored []Stored) []Stored {
			s := last(stored)
			s.Values = []int64{pick(ops, notApplied).Value}
			return append(stored, s)
		}},
		{"a record without effect of a refused command", "refused and stored", func(ops []Op, _ map[string][]int64, stored []Stored) []Stored {
			s := last(stored)
			s.Command = pick(ops, notApplied).Key
			return append(stored, s)
		}},
		{"a command twice", "one effect twice", func(ops []Op, _ map[string][]int64, stored []Stored) []Stored {
			s := last(stored)
			s.Command = stored[len(stored)-1].Command
			return append(stored, s)
		}},
		{"a value twice", "double", func(ops []Op, _ map[string][]int64, stored []Stored) []Stored {
			s := last(stored)
			s.Values = stored[3].Values
			return append(stored, s)
		}},
		{"in another list", "astray", func(ops []Op, _ map[string][]int64, stored []Stored) []Stored {
			o := pick(ops, acknowledged)
			record(stored, o).Values = nil
			s := last(stored)
			s.Values = []int64{o.Value}
			return append(stored, s)
		}},
		{"under another key", "another's", func(ops []Op, _ map[string][]int64, stored []Stored) []Stored {
			record(stored, pick(ops, keyed)).Command = "another"
			return stored
		}},
		{"of a lower epoch", "epochs fall", func(ops []Op, _ map[string][]int64, stored []Stored) []Stored {
			stored[60].Epoch = 1
			return stored
		}},
		{"in another order", "moved", func(ops []Op, final map[string][]int64, stored []Stored) []Stored {
			a, b := record(stored, pick(ops, acknowledged)), record(stored, pick(ops, func(o *Op) bool { return acknowledged(o) && o.Value > 350 }))
			a.Values, b.Values, a.Command, b.Command = b.Values, a.Values, b.Command, a.Command
			return stored
		}},
		{"read otherwise", "another list", func(_ []Op, final map[string][]int64, stored []Stored) []Stored {
			final["a"] = append(final["a"], 7)
			return stored
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(10) {
				ops, final := generate(seed)
				stored := c.corrupt(ops, final, store(ops, final))
				if err := all(ops, final, stored); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("seed %d: got %v, want %q", seed, err, c.want)
				}
			}
		})
	}
}

// form returns a stored record, encoded by hand.
func form(events ...string) []byte {
	b := []byte("\x01\x02\x03\x04")
	b = binary.AppendUvarint(b, 1<<32|7)
	b = binary.AppendUvarint(b, 1_700_000_000_000)
	b = append(b, "hashhashhashhash\x05key-1"...)
	b = append(b, byte(len(events)))
	for _, e := range events {
		b = append(b, "\x05Added\x01\x00\x00"...)
		b = append(append(b, byte(len(e))), e...)
	}
	return append(b, 0, 0)
}

func TestDecode(t *testing.T) {
	got, err := Decode("a", 3, form(`{"Value":5}`, `{"Value":-6}`))
	if err != nil || got.List != "a" || got.Seq != 3 || got.Epoch != 1<<32|7 || got.Command != "key-1" || !slices.Equal(got.Values, []int64{5, -6}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := Decode("a", 3, form(`{"Number":5}`)); err != nil || !slices.Equal(got.Values, []int64{5}) {
		t.Errorf("of version 2: %+v, %v", got, err)
	}
	if got, err := Decode("a", 3, form()); err != nil || got.Values != nil {
		t.Errorf("without events: %+v, %v", got, err)
	}
	whole := form(`{"Value":5}`)
	for i := range whole {
		if s, err := Decode("a", 3, whole[:i]); err == nil {
			t.Errorf("%d of %d bytes are read as %+v", i, len(whole), s)
		}
	}
	for name, b := range map[string][]byte{"more": append(whole, 0), "a wake-up": append(whole[:len(whole)-2:len(whole)-2], 1, 0), "no number": form(`{"Value":"x"}`), "no JSON": form("x")} {
		if s, err := Decode("a", 3, b); err == nil {
			t.Errorf("%s: read as %+v", name, s)
		}
	}
}

// TestFormOfTheJournal: what the journal itself writes is read here, too.
func TestFormOfTheJournal(t *testing.T) {
	alarm := sharding.Input{Command: "Ring", Version: 2, Encoding: sharding.JSON, Payload: []byte(`{}`)}
	credit := sharding.Input{Command: "Credit", Encoding: sharding.JSON, Payload: []byte(`{"amount":8}`)}
	r := sharding.Record{
		Seq: 3, Command: "key-1", Events: []sharding.Event{{Name: "debited", Payload: []byte(`{"amount":8}`)}},
		Wakes: []sharding.Wake{{Kind: sharding.ReminderWake, Name: "ring", Due: 1_700_000_000_000, Input: alarm}},
		Sends: []sharding.Send{{To: sharding.Entity{Type: "Account", ID: "bob"}, Input: credit, ReplyTo: "Settle", Options: sharding.SendOptions{Timeout: time.Second, RetryMin: time.Second, RetryMax: time.Minute, MaxAge: time.Hour}}},
	}
	body := journal.AppendRecord(nil, sharding.Entity{Type: "Account", ID: "anna"}, 1<<32|7, time.UnixMilli(1_700_000_000_000), &r)
	got, err := DecodeRecord(body)
	want := []Send{{Type: "Account", ID: "bob", Command: "Credit", Payload: credit.Payload}}
	if err != nil || got.Epoch != 1<<32|7 || got.Command != "key-1" || len(got.Events) != 1 || got.Wakes != 1 || !reflect.DeepEqual(got.Sends, want) || got.Deletes {
		t.Errorf("got %+v, %v", got, err)
	}
}
