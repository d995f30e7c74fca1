package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/roost-cluster/roost/e2e/cluster/history"
)

// book is a history of records that can be made wrong.
type book struct {
	l   *Ledger
	seq map[string]int64
	ops []Op
}

func (b *book) record(account, command string, r history.Record, events ...string) Place {
	for i := 0; i < len(events); i += 2 {
		r.Events = append(r.Events, history.Event{Name: events[i], Payload: []byte(events[i+1])})
	}
	b.seq[account]++
	r.Command = command
	at := Place{account, b.seq[account]}
	b.l.Add(at, r)
	return at
}

func (b *book) debit(id string) Place {
	b.ops = append(b.ops, Op{ID: id, Key: "key " + id, From: "a", To: "b", Amount: 5, Outcome: history.Executed})
	return b.record("a", "key "+id, history.Record{Sends: []history.Send{{Type: "Account", ID: "b", Command: "Credit", Payload: fmt.Appendf(nil, `{"id":%q,"from":"a","amount":5}`, id)}}},
		"debited", fmt.Sprintf(`{"ID":%q,"To":"b","Amount":5}`, id))
}

func (b *book) credit(id string) {
	b.record("b", "", history.Record{}, "credited", fmt.Sprintf(`{"ID":%q,"From":"a","Amount":5}`, id))
}

func (b *book) end(id, how string) {
	b.record("a", "", history.Record{}, how, fmt.Sprintf(`{"ID":%q,"Amount":5}`, id))
}

func newBook() *book {
	b := &book{l: New(), seq: map[string]int64{}}
	b.record("a", "", history.Record{}, "opened", "{}", "deposited", `{"Amount":100}`)
	b.record("b", "", history.Record{}, "opened", "{}")
	return b
}

func TestCorrect(t *testing.T) {
	b := newBook()
	one, two := b.debit("1"), b.debit("2")
	for _, step := range []func(){func() { b.credit("1") }, func() { b.end("1", "settled") }} {
		if err := b.l.Balance([]Place{one, two}); err != nil {
			t.Fatal(err)
		}
		step()
	}
	if err := b.l.Balance([]Place{two}); err != nil {
		t.Fatal(err)
	}
	b.end("2", "refunded")
	b.ops = append(b.ops, Op{ID: "3", Key: "k", From: "a", To: "b", Amount: 5, Outcome: history.NotApplied})
	b.record("b", "", history.Record{}, "withdrawn", `{"Amount":5}`)
	b.record("b", "", history.Record{Deletes: true})
	if err := b.l.Balance(nil); err != nil {
		t.Error(err)
	}
	if err := b.l.End(b.ops); err != nil {
		t.Error(err)
	}
	if b.l.Credits != 1 || b.l.Refunds != 1 || b.l.Deletes != 1 || b.l.Deposited != 95 {
		t.Errorf("%+v", b.l)
	}
}

// TestDoubt: what is in doubt is not lost, whether the target has taken it or not, and the transfer
// ends when it is resolved, after later ones too.
func TestDoubt(t *testing.T) {
	b := newBook()
	one, two := b.debit("1"), b.debit("2")
	b.debit("3")
	b.credit("1")
	b.credit("3")
	for _, x := range []struct {
		pending []Place
		end     string
		how     string
	}{
		{[]Place{one, two}, "1", "doubted"}, {[]Place{two}, "2", "doubted"}, {nil, "3", "settled"}, {nil, "2", "refunded"}, {nil, "1", "settled"},
	} {
		if err := b.l.Balance(x.pending); err != nil {
			t.Fatal(err)
		}
		b.end(x.end, x.how)
	}
	if err := b.l.Balance(nil); err != nil {
		t.Error(err)
	}
	if err := b.l.End(b.ops); err != nil {
		t.Error(err)
	}
}

// TestWrong: each wrong history is found, with its name.
func TestWrong(t *testing.T) {
	for want, do := range map[string]func(b *book){
		"the total is wrong":       func(b *book) { b.debit("1") },
		"lost: 1":                  func(b *book) { b.debit("1") },
		"credited twice: 1":        func(b *book) { b.debit("1"); b.credit("1"); b.credit("1"); b.end("1", "settled") },
		"credited and refunded: 1": func(b *book) { b.debit("1"); b.credit("1"); b.end("1", "refunded") },
		"out of order: [1 2]": func(b *book) {
			b.debit("1")
			b.debit("2")
			b.credit("2")
			b.credit("1")
			b.end("1", "settled")
			b.end("2", "settled")
		},
		"[2 1] ended":               func(b *book) { b.debit("1"); b.debit("2"); b.end("2", "refunded"); b.end("1", "refunded") },
		"debited twice: 1":          func(b *book) { b.debit("1"); b.debit("1") },
		"one effect twice":          func(b *book) { b.debit("1"); b.debit("1") },
		"never debited: 1":          func(b *book) { b.credit("1") },
		"never ended: 1":            func(b *book) { b.debit("1"); b.credit("1") },
		"ended twice: 1":            func(b *book) { b.debit("1"); b.end("1", "refunded"); b.end("1", "refunded") },
		"a gap":                     func(b *book) { b.seq["a"]++; b.debit("1") },
		"overdrawn":                 func(b *book) { b.record("b", "", history.Record{}, "withdrawn", `{"Amount":5}`) },
		"in doubt: the target of 1": func(b *book) { b.debit("1"); b.end("1", "doubted") },
		"credited 1 times":          func(b *book) { b.debit("1"); b.credit("1"); b.end("1", "doubted") },
		"lost: 2":                   func(b *book) { b.debit("1"); b.debit("2"); b.end("2", "doubted"); b.end("2", "settled") },
		"[2] ended":                 func(b *book) { b.debit("1"); b.debit("2"); b.end("2", "doubted") },
		"doubted after its end: 1":  func(b *book) { b.debit("1"); b.end("1", "refunded"); b.end("1", "doubted") },
		"astray: b doubts 1":        func(b *book) { b.debit("1"); b.record("b", "", history.Record{}, "doubted", `{"ID":"1"}`) },
		"deleted with money":        func(b *book) { b.record("a", "", history.Record{Deletes: true}) },
		"epochs fall":               func(b *book) { b.record("a", "", history.Record{Epoch: 2}); b.debit("1") },
		"acknowledged and lost":     func(b *book) { b.ops = append(b.ops, Op{ID: "1", From: "a", Outcome: history.Executed}) },
		"refused and stored":        func(b *book) { b.debit("1"); b.ops[0].Outcome = history.NotApplied },
		"another's":                 func(b *book) { b.debit("1"); b.ops[0].Amount = 6 },
		"has an event":              func(b *book) { b.record("a", "", history.Record{}, "stolen", "{}") },
	} { // order-free
		b := newBook()
		do(b)
		err := fmt.Errorf("%w\n%w", b.l.Balance(nil), b.l.End(b.ops))
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
