package bank_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/examples/bank"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// rich opens an account with money in it.
func rich(t *testing.T, k *entitytest.Kit, id string, amount, limit int64) {
	t.Helper()
	if _, err := bank.Open.Call(t.Context(), k, id, bank.Terms{Limit: limit}); err != nil {
		t.Fatal(err)
	}
	if amount == 0 {
		return
	}
	if _, err := bank.Deposit.Call(t.Context(), k, id, bank.Money{Amount: amount}); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, k *entitytest.Kit, id string, want bank.Status) {
	t.Helper()
	if got, err := bank.Show.Call(t.Context(), k, id, bank.Nothing{}); err != nil || got != want {
		t.Errorf("%s: %+v, %v; want %+v", id, got, err, want)
	}
}

func TestAccount(t *testing.T) {
	k := entitytest.New(t, bank.Accounts)
	for name, c := range map[string]struct {
		do   func() error
		code entity.Code
	}{
		"deposit into nothing":  {func() error { _, err := bank.Deposit.Call(t.Context(), k, "x", bank.Money{Amount: 1}); return err }, entity.FailedPrecondition},
		"withdraw from nothing": {func() error { _, err := bank.Withdraw.Call(t.Context(), k, "x", bank.Money{Amount: 1}); return err }, entity.FailedPrecondition},
		"close nothing": {func() error {
			_, err := bank.Close.Call(t.Context(), k, "x", bank.Closing{ID: "c", To: "bob"})
			return err
		}, entity.FailedPrecondition},
		"open with a wrong limit": {func() error { _, err := bank.Open.Call(t.Context(), k, "x", bank.Terms{Limit: -1}); return err }, entity.InvalidArgument},
	} { // order-free
		if err := c.do(); entity.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	rich(t, k, "alice", 100, 150)
	for _, c := range []struct {
		name string
		do   func() error
		code entity.Code
	}{
		{"open again", func() error { _, err := bank.Open.Call(t.Context(), k, "alice", bank.Terms{}); return err }, entity.FailedPrecondition},
		{"deposit nothing", func() error { _, err := bank.Deposit.Call(t.Context(), k, "alice", bank.Money{}); return err }, entity.InvalidArgument},
		{"deposit too much", func() error { _, err := bank.Deposit.Call(t.Context(), k, "alice", bank.Money{Amount: 51}); return err }, entity.FailedPrecondition},
		{"withdraw too much", func() error {
			_, err := bank.Withdraw.Call(t.Context(), k, "alice", bank.Money{Amount: 101})
			return err
		}, entity.FailedPrecondition},
		{"transfer too much", func() error {
			_, err := bank.Transfer.Call(t.Context(), k, "alice", bank.Order{ID: "1", To: "bob", Amount: 101})
			return err
		}, entity.FailedPrecondition},
		{"transfer to itself", func() error {
			_, err := bank.Transfer.Call(t.Context(), k, "alice", bank.Order{ID: "1", To: "alice", Amount: 1})
			return err
		}, entity.InvalidArgument},
		{"transfer without a name", func() error {
			_, err := bank.Transfer.Call(t.Context(), k, "alice", bank.Order{To: "bob", Amount: 1})
			return err
		}, entity.InvalidArgument},
	} {
		if err := c.do(); entity.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	want(t, k, "alice", bank.Status{Open: true, Balance: 100})
	if _, err := bank.Withdraw.Call(t.Context(), k, "alice", bank.Money{Amount: 40}); err != nil {
		t.Error(err)
	}
	k.Entity(bank.Accounts, "alice").WantEvents(bank.Opened{Limit: 150}, bank.Deposited{Amount: 100}, bank.Withdrawn{Amount: 40})
}

// TestTransfer: money arrives once, although the region dies at each commit of the transfer and
// everything is repeated.
func TestTransfer(t *testing.T) {
	for _, at := range []string{"alice", "bob"} {
		for name, when := range map[string]entitytest.Crash{"before": entitytest.BeforeCommit, "after": entitytest.AfterCommit} { // order-free
			t.Run(at+" "+name, func(t *testing.T) {
				k := entitytest.New(t, bank.Accounts)
				rich(t, k, "alice", 100, 0)
				rich(t, k, "bob", 0, 0)
				k.Entity(bank.Accounts, at).CrashAtCommit(when)
				for range 3 { // until its outcome is known, and once more
					_, _ = bank.Transfer.Call(t.Context(), k, "alice", bank.Order{ID: "1", To: "bob", Amount: 30}, entity.Key("1"))
				}
				k.Advance(time.Minute)
				k.DeliverAgain()
				k.Restart()
				k.Entity(bank.Accounts, "alice").WantEvents(bank.Opened{Limit: bank.Most}, bank.Deposited{Amount: 100}, bank.Debited{ID: "1", To: "bob", Amount: 30}, bank.Settled{ID: "1"})
				k.Entity(bank.Accounts, "bob").WantEvents(bank.Opened{Limit: bank.Most}, bank.Credited{ID: "1", From: "alice", Amount: 30})
				want(t, k, "alice", bank.Status{Open: true, Balance: 70})
				want(t, k, "bob", bank.Status{Open: true, Balance: 30})
			})
		}
	}
}

// TestRefund: a target that is not open, or would have too much, sends the money back.
func TestRefund(t *testing.T) {
	k := entitytest.New(t, bank.Accounts)
	rich(t, k, "alice", 100, 0)
	rich(t, k, "bob", 90, 100)
	for id, to := range []string{"nobody", "bob"} {
		if _, err := bank.Transfer.Call(t.Context(), k, "alice", bank.Order{ID: fmt.Sprint(id), To: to, Amount: 30}); err != nil {
			t.Fatal(err)
		}
		k.DeliverAgain()
		k.Restart()
	}
	want(t, k, "alice", bank.Status{Open: true, Balance: 100})
	k.Entity(bank.Accounts, "bob").WantEvents(bank.Opened{Limit: 100}, bank.Deposited{Amount: 90})
	events := k.Entity(bank.Accounts, "alice").Events()
	for i, reason := range []string{"not open", "more than the limit"} {
		if e, ok := events[3+2*i].(bank.Refunded); !ok || e.ID != fmt.Sprint(i) || e.Amount != 30 || !strings.Contains(e.Reason, reason) {
			t.Errorf("%#v", events[3+2*i])
		}
	}
}

// TestClose: an account ends when the rest was taken, and later transfers to it come back.
// A new one has nothing of it.
func TestClose(t *testing.T) {
	k := entitytest.New(t, bank.Accounts)
	rich(t, k, "alice", 100, 0)
	rich(t, k, "bob", 95, 100)
	ask := func(to string) error {
		_, err := bank.Close.Call(t.Context(), k, "alice", bank.Closing{ID: "close to " + to, To: to})
		return err
	}
	if err := ask("bob"); err != nil { // who does not take it
		t.Error(err)
	}
	want(t, k, "alice", bank.Status{Open: true, Balance: 100})
	rich(t, k, "chris", 0, 0)
	k.Entity(bank.Accounts, "chris").CrashAtCommit(entitytest.AfterCommit)
	if err := ask("chris"); err != nil {
		t.Error(err)
	}
	k.Advance(time.Minute)
	want(t, k, "alice", bank.Status{})
	want(t, k, "chris", bank.Status{Open: true, Balance: 100})
	if _, err := bank.Transfer.Call(t.Context(), k, "bob", bank.Order{ID: "late", To: "alice", Amount: 5}); err != nil {
		t.Error(err)
	}
	want(t, k, "bob", bank.Status{Open: true, Balance: 95})
	rich(t, k, "alice", 0, 0)
	want(t, k, "alice", bank.Status{Open: true})
	if err := ask("bob"); err != nil { // with nothing left
		t.Error(err)
	}
	want(t, k, "alice", bank.Status{})
}

// TestOnTheWay: while a target cannot be reached, the money is on the way, the account cannot
// be closed, and the oldest transfer is answered first.
func TestOnTheWay(t *testing.T) {
	k := entitytest.New(t, bank.Accounts)
	rich(t, k, "alice", 100, 0)
	k.Entity(bank.Accounts, "broken").GivenStored("opened", 99, `{}`)
	for _, id := range []string{"1", "2"} {
		if _, err := bank.Transfer.Call(t.Context(), k, "alice", bank.Order{ID: id, To: "broken", Amount: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bank.Transfer.Call(t.Context(), k, "alice", bank.Order{ID: "1", To: "bob", Amount: 10}); entity.CodeOf(err) != entity.FailedPrecondition {
		t.Errorf("a second transfer of the same name: %v", err)
	}
	k.Advance(time.Hour)
	want(t, k, "alice", bank.Status{Open: true, Balance: 80, OnTheWay: 20})
	if s := k.Entity(bank.Accounts, "alice").Sends(); len(s) != 2 || s[0].State != "pending" {
		t.Errorf("on the way: %+v", s)
	}
	if _, err := bank.Close.Call(t.Context(), k, "alice", bank.Closing{ID: "c", To: "bob"}); entity.CodeOf(err) != entity.FailedPrecondition {
		t.Errorf("closing an account with money on the way: %v", err)
	}
	k.Advance(24 * time.Hour)
	got, err := bank.Show.Call(t.Context(), k, "alice", bank.Nothing{})
	if err != nil || got.OnTheWay != 0 || got.Balance+got.InDoubt != 100 {
		t.Errorf("after a day: %+v, %v", got, err)
	}
	if got, err := bank.Transfer.Call(t.Context(), k, "alice", bank.Order{ID: "3", To: "nobody", Amount: 1}); err != nil || got.OnTheWay != 1 {
		t.Errorf("the next one: %+v, %v", got, err)
	}
}

// TestResolve: who has looked at the target ends a transfer in doubt. Then the account can be
// closed.
func TestResolve(t *testing.T) {
	k := entitytest.New(t, bank.Accounts)
	rich(t, k, "alice", 100, 0)
	rich(t, k, "bob", 0, 0)
	k.Entity(bank.Accounts, "broken").GivenStored("opened", 99, `{}`)
	transfer := func(id string) {
		t.Helper()
		if _, err := bank.Transfer.Call(t.Context(), k, "alice", bank.Order{ID: id, To: "broken", Amount: 10}); err != nil {
			t.Fatal(err)
		}
	}
	resolve := func(id string, credited bool) error {
		_, err := bank.Resolve.Call(t.Context(), k, "alice", bank.Resolution{ID: id, Credited: credited})
		return err
	}
	transfer("came")
	k.Restart() // so that it is unknown whether it was delivered before
	transfer("did not")
	k.Advance(25 * time.Hour)
	if s, err := bank.Show.Call(t.Context(), k, "alice", bank.Nothing{}); err != nil || s.InDoubt == 0 || s.InDoubt+s.Balance != 100 {
		t.Fatalf("after a day: %+v, %v", s, err)
	}
	closing := bank.Closing{ID: "c", To: "bob"}
	if _, err := bank.Close.Call(t.Context(), k, "alice", closing); entity.CodeOf(err) != entity.FailedPrecondition || !strings.Contains(err.Error(), "Resolve") {
		t.Errorf("closing an account with a transfer in doubt: %v", err)
	}
	if err := resolve("unheard", true); entity.CodeOf(err) != entity.NotFound {
		t.Errorf("resolving something that is not a transfer: %v", err)
	}
	if err := resolve("came", true); err != nil {
		t.Error(err)
	}
	want(t, k, "alice", bank.Status{Open: true, Balance: 90})
	if err := resolve("came", false); entity.CodeOf(err) != entity.NotFound {
		t.Errorf("resolving it a second time: %v", err)
	}
	if _, err := bank.Close.Call(t.Context(), k, "alice", closing); err != nil {
		t.Error(err)
	}
	want(t, k, "alice", bank.Status{})
	want(t, k, "bob", bank.Status{Open: true, Balance: 90})
}

// TestTotal transfers at random, closes, opens and crashes: no money is made or lost.
func TestTotal(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	k := entitytest.New(t, bank.Accounts)
	const accounts, each = 6, 100
	name := func() string { return fmt.Sprint("a", r.IntN(accounts)) }
	for i := range accounts {
		rich(t, k, fmt.Sprint("a", i), each, int64(each*(2+i)))
	}
	refused := 0
	for n := range 1000 {
		key := fmt.Sprint("key ", n)
		from, to, dice, amount := name(), name(), r.IntN(20), 1+r.Int64N(60)
		if r.IntN(5) == 0 {
			k.CrashAtCommit(entitytest.Crash(1 + r.IntN(2)))
		}
		var err error
		for range 3 {
			switch {
			case dice == 0:
				_, err = bank.Close.Call(t.Context(), k, from, bank.Closing{ID: key, To: to}, entity.Key(key))
			case dice < 4:
				_, err = bank.Open.Call(t.Context(), k, from, bank.Terms{Limit: each * 2}, entity.Key(key))
			default:
				_, err = bank.Transfer.Call(t.Context(), k, from, bank.Order{ID: key, To: to, Amount: amount}, entity.Key(key))
			}
			if err == nil || entity.OutcomeOf(err) == entity.Executed {
				break
			}
		}
		if err != nil {
			refused++
		}
		if r.IntN(10) == 0 {
			k.Advance(time.Minute)
		}
	}
	k.Advance(10 * time.Minute)
	total := int64(0)
	for i := range accounts {
		s, err := bank.Show.Call(t.Context(), k, fmt.Sprint("a", i), bank.Nothing{})
		if err != nil || s.OnTheWay+s.InDoubt > 0 {
			t.Errorf("a%d: %+v, %v", i, s, err)
		}
		total += s.Balance
	}
	if total != accounts*each || refused == 0 {
		t.Errorf("the total is %d, it was %d; %d commands were refused", total, accounts*each, refused)
	}
}

// TestSchema: stored data stays readable.
func TestSchema(t *testing.T) { entitytest.Schema(t, bank.Accounts) }
