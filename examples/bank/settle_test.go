package bank

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// deaf are accounts of a program that cannot take answers.
var deaf = entity.Define("Account", func(string) *Account { return &Account{} },
	entity.On(Open, (*Account).Open),
	entity.On(Deposit, (*Account).Deposit),
	entity.On(Transfer, (*Account).Transfer),
	entity.On(Credit, (*Account).Credit),
	entity.On(settle, func(*Account, *entity.Ctx, entity.Answer[Nothing]) (Nothing, error) {
		return Nothing{}, errors.New("a fault of the program")
	}),
	entity.Event("opened", func(a *Account, e Opened) { a.IsOpen, a.Limit = true, e.Limit }),
	entity.Event("deposited", func(a *Account, e Deposited) { a.Balance += e.Amount }),
	entity.Event("debited", func(a *Account, e Debited) {
		a.Balance -= e.Amount
		a.Out = append(a.Out, e)
	}),
	entity.Event("credited", func(a *Account, e Credited) { a.Balance += e.Amount }),
)

// TestAnswerThatNeverComes: the answer to a transfer cannot be taken for its whole time. Those
// to later transfers are booked on these all the same.
func TestAnswerThatNeverComes(t *testing.T) {
	k := entitytest.New(t, deaf)
	must := func(_ Status, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(Open.Call(t.Context(), k, "alice", Terms{}))
	must(Deposit.Call(t.Context(), k, "alice", Money{100}))
	must(Open.Call(t.Context(), k, "bob", Terms{Limit: 40}))
	must(Transfer.Call(t.Context(), k, "alice", Order{ID: "lost", To: "bob", Amount: 30}))
	k.Advance(25 * time.Hour)
	if s := k.Entity(Accounts, "alice").Sends(); len(s) != 1 || s[0].State != "in doubt" {
		t.Fatalf("after a day: %+v", s)
	}
	k.Restart(Accounts)
	must(Transfer.Call(t.Context(), k, "alice", Order{ID: "refused", To: "bob", Amount: 20}))
	must(Transfer.Call(t.Context(), k, "alice", Order{ID: "taken", To: "bob", Amount: 10}))
	events := k.Entity(Accounts, "alice").Events()
	ends := []any{}
	for _, e := range events {
		switch e := e.(type) {
		case Settled:
			ends = append(ends, e)
		case Refunded:
			e.Reason = ""
			ends = append(ends, e)
		}
	}
	if want := []any{Refunded{ID: "refused", Amount: 20}, Settled{"taken"}}; !slices.Equal(ends, want) {
		t.Errorf("the transfers have ended with %+v, want %+v", ends, want)
	}
	got, err := Show.Call(t.Context(), k, "alice", Nothing{})
	if want := (Status{Open: true, Balance: 60, OnTheWay: 30}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	// The account waits for an answer that never comes. Bob has the money.
	got, err = Resolve.Call(t.Context(), k, "alice", Resolution{ID: "lost", Credited: true})
	if want := (Status{Open: true, Balance: 60}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

// TestResolveWhileClosing: the rest was sent, and the account never learns the result.
func TestResolveWhileClosing(t *testing.T) {
	for _, credited := range []bool{true, false} {
		k := entitytest.New(t, Accounts)
		k.Entity(Accounts, "alice").Given(Opened{Limit: 100}, Deposited{10}, Debited{ID: "c", To: "bob", Amount: 10}, Closed{})
		got, err := Resolve.Call(t.Context(), k, "alice", Resolution{ID: "c", Credited: credited})
		if err != nil {
			t.Fatal(err)
		}
		now, err := Show.Call(t.Context(), k, "alice", Nothing{})
		if want := (Status{Open: !credited, Balance: got.Balance}); err != nil || now != want || credited != (got.Balance == 0) {
			t.Errorf("credited %t: %+v, then %+v, %v", credited, got, now, err)
		}
	}
}
