// Package ledger judges the accounts of examples/bank by the records of a journal.
//
// [Ledger.Add] takes the records of accounts, each account's in their order, as they are stored.
// [Ledger.Balance] can be called whenever all records and all pending sends of one moment are
// known: the balances, the amounts of pending sends, and the amounts in doubt, add up to the
// deposits. [Ledger.End] is called when nothing is on the way any more: each transfer has one
// debit, and one credit or its refund, and none is in doubt; the credits of one account to another come in the order of the
// debits; what a client was told is what is stored.
//
// # What this does not do
//
// It uses no code of the system under test, reads no database and knows no time.
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/roost-cluster/roost/e2e/cluster/history"
)

// Place is a record of an account.
type Place struct {
	Account string
	Seq     int64
}

// transfer is the data of a transfer in the journal.
type transfer struct {
	from, to                          string
	amount                            int64
	command                           string
	debits, credits, refunds, settled int
	doubts                            int // how often its target has not answered in time
	creditedTo, creditedFrom          string
	creditedAmount, refunded, sentFor int64
}

// account is an account as its records make it.
type account struct {
	seq      int64
	epoch    uint64
	balance  int64
	commands map[string]int64
}

// inDoubt reports whether the target has not answered in time, and it is unresolved since.
func (t *transfer) inDoubt() bool { return t.doubts > 0 && t.settled == 0 }

// Ledger is the content of the added records. [New] makes one.
type Ledger struct {
	// Deposited is the money from outside, Credits and Refunds count transfers.
	Deposited        int64
	Credits, Refunds int
	Deletes          int

	accounts  map[string]*account
	transfers map[string]*transfer
	sends     map[Place]string // the transfer whose credit a record sends
	debited   map[[2]string][]string
	credited  map[[2]string][]string
	ended     map[[2]string][]string
	findings  []error
}

// New returns a ledger without accounts.
func New() *Ledger {
	return &Ledger{
		accounts: map[string]*account{}, transfers: map[string]*transfer{}, sends: map[Place]string{},
		debited: map[[2]string][]string{}, credited: map[[2]string][]string{}, ended: map[[2]string][]string{},
	}
}

func (l *Ledger) found(format string, args ...any) {
	l.findings = append(l.findings, fmt.Errorf(format, args...))
}

// err returns what was found, and forgets nothing.
func (l *Ledger) err() error {
	if len(l.findings) == 0 {
		return nil
	}
	return fmt.Errorf("%d findings: %w", len(l.findings), errors.Join(l.findings[:min(10, len(l.findings))]...))
}

func (l *Ledger) transfer(id string) *transfer {
	t := l.transfers[id]
	if t == nil {
		t = &transfer{}
		l.transfers[id] = t
	}
	return t
}

// Add takes the next record of an account.
func (l *Ledger) Add(at Place, r history.Record) {
	a := l.accounts[at.Account]
	if a == nil {
		a = &account{commands: map[string]int64{}}
		l.accounts[at.Account] = a
	}
	if at.Seq != a.seq+1 {
		l.found("a gap: record %d of %s follows %d", at.Seq, at.Account, a.seq)
	}
	if r.Epoch < a.epoch {
		l.found("epochs fall: record %d of %s", at.Seq, at.Account)
	}
	if seq, twice := a.commands[r.Command]; twice && r.Command != "" {
		l.found("one effect twice: command %q has records %d and %d of %s", r.Command, seq, at.Seq, at.Account)
	}
	a.seq, a.epoch, a.commands[r.Command] = at.Seq, r.Epoch, at.Seq
	for _, e := range r.Events {
		l.event(at, a, r.Command, e)
	}
	for _, s := range r.Sends {
		var in struct {
			ID, From string
			Amount   int64
		}
		if err := json.Unmarshal(s.Payload, &in); err != nil || s.Type != "Account" || s.Command != "Credit" || in.From != at.Account || len(r.Sends) > 1 {
			l.found("record %d of %s sends what no account sends: %+v", at.Seq, at.Account, s)
		}
		l.sends[at], l.transfer(in.ID).sentFor = in.ID, in.Amount
	}
	if a.balance < 0 {
		l.found("overdrawn: %s has %d after record %d", at.Account, a.balance, at.Seq)
	}
	if r.Deletes {
		l.Deletes++
		if a.balance != 0 {
			l.found("deleted with money: %s has %d", at.Account, a.balance)
		}
	}
}

// event takes an event of an account.
func (l *Ledger) event(at Place, a *account, command string, e history.Event) {
	var in struct {
		ID, To, From string
		Amount       int64
	}
	if err := json.Unmarshal(e.Payload, &in); err != nil {
		l.found("record %d of %s: %w", at.Seq, at.Account, err)
		return
	}
	switch e.Name {
	case "opened", "closed":
	case "deposited":
		a.balance, l.Deposited = a.balance+in.Amount, l.Deposited+in.Amount
	case "withdrawn":
		a.balance, l.Deposited = a.balance-in.Amount, l.Deposited-in.Amount
	case "debited":
		t := l.transfer(in.ID)
		if t.debits++; t.debits > 1 {
			l.found("debited twice: %s", in.ID)
		}
		t.from, t.to, t.amount, t.command = at.Account, in.To, in.Amount, command
		a.balance -= in.Amount
		l.debited[[2]string{t.from, t.to}] = append(l.debited[[2]string{t.from, t.to}], in.ID)
	case "credited":
		t := l.transfer(in.ID)
		if t.credits++; t.credits > 1 {
			l.found("credited twice: %s", in.ID)
		}
		t.creditedTo, t.creditedFrom, t.creditedAmount = at.Account, in.From, in.Amount
		a.balance += in.Amount
		l.Credits++
		l.credited[[2]string{in.From, at.Account}] = append(l.credited[[2]string{in.From, at.Account}], in.ID)
	case "settled", "refunded":
		t := l.transfer(in.ID)
		if t.from != at.Account {
			l.found("astray: %s has the end of %s, which is of %q", at.Account, in.ID, t.from)
		}
		if t.settled++; t.settled > 1 {
			l.found("ended twice: %s", in.ID)
		}
		if t.doubts == 0 { // otherwise it was resolved, whenever that was
			l.ended[[2]string{t.from, t.to}] = append(l.ended[[2]string{t.from, t.to}], in.ID)
		}
		if e.Name == "refunded" {
			t.refunds, t.refunded = t.refunds+1, in.Amount
			a.balance += in.Amount
			l.Refunds++
		}
	case "doubted": // the end of the send, and not of the transfer
		t := l.transfer(in.ID)
		if t.from != at.Account {
			l.found("astray: %s doubts %s, which is of %q", at.Account, in.ID, t.from)
		}
		if t.doubts++; t.doubts > 1 || t.settled > 0 {
			l.found("doubted after its end: %s", in.ID)
		}
		l.ended[[2]string{t.from, t.to}] = append(l.ended[[2]string{t.from, t.to}], in.ID)
	default:
		l.found("record %d of %s has an event %q", at.Seq, at.Account, e.Name)
	}
}

// Balance checks one moment, given all its records (added) and all its pending sends:
// no money was made or lost.
func (l *Ledger) Balance(pending []Place) error {
	sum, onTheWay, inDoubt, sent := int64(0), int64(0), int64(0), map[string]bool{}
	for _, a := range l.accounts { // order-free: a sum
		sum += a.balance
	}
	for _, p := range pending {
		id, ok := l.sends[p]
		if t := l.transfers[id]; !ok {
			l.found("record %d of %s is said to send", p.Seq, p.Account)
		} else if t.credits == 0 && t.refunds == 0 {
			onTheWay, sent[id] = onTheWay+t.sentFor, true
		}
	}
	for id, t := range l.transfers { // order-free: a sum
		if t.inDoubt() && t.credits == 0 && !sent[id] {
			inDoubt += t.amount
		}
	}
	if sum+onTheWay+inDoubt != l.Deposited {
		l.found("the total is wrong: %d in accounts, %d on the way and %d in doubt, and %d were deposited", sum, onTheWay, inDoubt, l.Deposited)
	}
	return l.err()
}

// Op is a transfer, as its client has seen it.
type Op struct {
	ID, Key, From, To string
	Amount            int64
	// Outcome is the outcome of the last attempt; Refused is true if the account itself has refused it.
	Outcome history.Outcome
	Refused bool
}

// End checks the whole, when no send is pending.
func (l *Ledger) End(ops []Op) error {
	for id, t := range l.transfers { // order-free: all are checked
		switch {
		case t.debits == 0:
			l.found("credited and never debited: %s", id)
		case t.credits > 0 && t.refunds > 0:
			l.found("credited and refunded: %s", id)
		case t.inDoubt():
			l.found("in doubt: the target of %s has not answered in time, and it is unresolved; it was credited %d times", id, t.credits)
		case t.credits+t.refunds == 0:
			l.found("lost: %s was debited, and neither credited nor refunded", id)
		case t.settled == 0:
			l.found("never ended: %s", id)
		case t.credits > 0 && (t.creditedTo != t.to || t.creditedFrom != t.from || t.creditedAmount != t.amount) || t.refunds > 0 && t.refunded != t.amount:
			l.found("another transfer: %s is %+v", id, *t)
		}
	}
	for pair, debited := range l.debited { // order-free: all are checked
		arrived := slices.DeleteFunc(slices.Clone(debited), func(id string) bool { return l.transfers[id].credits == 0 })
		if !slices.Equal(arrived, l.credited[pair]) {
			l.found("out of order: %v were debited, and %v credited", arrived, l.credited[pair])
		}
		if !slices.Equal(debited, l.ended[pair]) {
			l.found("out of order: %v were debited, and %v ended", debited, l.ended[pair])
		}
	}
	for _, o := range ops {
		l.op(o)
	}
	return l.err()
}

// op compares a transfer with what its client was told.
func (l *Ledger) op(o Op) {
	t, there := l.transfers[o.ID]
	stored := false
	if a := l.accounts[o.From]; a != nil {
		_, stored = a.commands[o.Key]
	}
	switch {
	case there && (t.from != o.From || t.to != o.To || t.amount != o.Amount || t.command != o.Key):
		l.found("another's: %+v is stored as %+v", o, *t)
	case o.Outcome == history.Executed && !o.Refused && !there:
		l.found("acknowledged and lost: %+v", o)
	case o.Outcome == history.Executed && o.Refused && there, o.Outcome == history.NotApplied && (there || stored):
		l.found("refused and stored: %+v", o)
	}
}

// Balances returns what each account has.
func (l *Ledger) Balances() map[string]int64 {
	all := map[string]int64{}
	for name, a := range l.accounts { // order-free: a map
		all[name] = a.balance
	}
	return all
}
