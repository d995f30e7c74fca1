// Package bank is a small bank: accounts that send money to each other. A transfer debits its
// source, and sends the target a credit that becomes durable together with the debit
// ([entity.Handle.Send]). A target that refuses answers that to the source, which takes the
// money back. So money moves exactly once, whichever process dies.
//
// A region hosts [Accounts]. Callers import this package for its handles:
//
//	_, err := bank.Open.Ask(ctx, client, "alice", bank.Terms{})
//	_, err = bank.Deposit.Ask(ctx, client, "alice", bank.Money{Amount: 10000})
//	status, err := bank.Transfer.Ask(ctx, client, "alice", bank.Order{ID: "rent 2026-11", To: "bob", Amount: 9000}, entity.Key("rent 2026-11"))
//
// The answer to a transfer comes when the source is debited and the credit can no longer get
// lost. Whether the target has taken it is known later: until then it is in Status.OnTheWay.
//
// # What this does not do
//
// It does not check who calls: Deposit, Withdraw and Credit make money come and go. A real
// bank would keep them from the public. An operator who deletes an account deletes the money
// in it, and what comes back to it.
package bank

import (
	"cmp"
	"slices"

	"github.com/roost-cluster/roost/sdk/entity"
)

// Most is the highest balance of an account without a limit, and the highest amount, in cents.
const Most = 1_000_000_000_000

// snapshotEvery is after how many events the state of an account is stored.
const snapshotEvery = 50

// Nothing is the input of commands that need none.
type Nothing struct{}

// Commands of an account.
var (
	Open     = entity.Command[Terms, Status]("Account", "Open")
	Deposit  = entity.Command[Money, Status]("Account", "Deposit")
	Withdraw = entity.Command[Money, Status]("Account", "Withdraw")
	Transfer = entity.Command[Order, Status]("Account", "Transfer")
	Close    = entity.Command[Closing, Status]("Account", "Close")
	Resolve  = entity.Command[Resolution, Status]("Account", "Resolve")
	Show     = entity.Command[Nothing, Status]("Account", "Show", entity.ReadOnly())

	// Credit is the command that the source of a transfer sends to its target, and settle takes the answer.
	Credit = entity.Command[Incoming, Nothing]("Account", "Credit", entity.Stored())
	settle = entity.Command[entity.Answer[Nothing], Nothing]("Account", "Settle")
)

// Accounts is the entity type, for the main of a region.
var Accounts = entity.Define("Account", func(string) *Account { return &Account{} },
	entity.On(Open, (*Account).Open),
	entity.On(Deposit, (*Account).Deposit),
	entity.On(Withdraw, (*Account).Withdraw),
	entity.On(Transfer, (*Account).Transfer),
	entity.On(Close, (*Account).Close),
	entity.On(Resolve, (*Account).Resolve),
	entity.On(Show, (*Account).Show),
	entity.On(Credit, (*Account).Credit),
	entity.On(settle, (*Account).Settle),
	entity.Event("opened", func(a *Account, e Opened) { a.IsOpen, a.Limit = true, e.Limit }),
	entity.Event("deposited", func(a *Account, e Deposited) { a.Balance += e.Amount }),
	entity.Event("withdrawn", func(a *Account, e Withdrawn) { a.Balance -= e.Amount }),
	entity.Event("debited", func(a *Account, e Debited) {
		a.Balance -= e.Amount
		a.Out = append(a.Out, e)
	}),
	entity.Event("credited", func(a *Account, e Credited) { a.Balance += e.Amount }),
	entity.Event("settled", func(a *Account, e Settled) { a.end(e.ID) }),
	entity.Event("refunded", func(a *Account, e Refunded) {
		a.end(e.ID)
		a.Balance += e.Amount
		a.IsClosing = false // if it was the remaining balance, another account has to get it
	}),
	entity.Event("doubted", func(a *Account, e Doubted) {
		a.Doubtful = append(a.Doubtful, a.end(e.ID))
		a.IsClosing = false
	}),
	entity.Event("closed", func(a *Account, _ Closed) { a.IsClosing = true }),
	entity.With[Account](entity.SnapshotEvery(snapshotEvery)),
)

// Terms is the input of Open.
type Terms struct {
	// Limit is the highest balance, in cents; 0 is [Most]. Money that would exceed it is refused.
	Limit int64 `json:"limit"`
}

// Money is the input of Deposit and Withdraw.
type Money struct {
	Amount int64 `json:"amount"` // in cents
}

// Order is the input of Transfer.
type Order struct {
	// ID names the transfer; it is in all events of it.
	ID     string `json:"id"`
	To     string `json:"to"`
	Amount int64  `json:"amount"` // in cents
}

// Closing is the input of Close.
type Closing struct {
	ID string `json:"id"` // of the transfer of the remaining balance
	To string `json:"to"` // the account that receives it
}

// Resolution is the input of Resolve.
type Resolution struct {
	ID       string `json:"id"`       // of the transfer
	Credited bool   `json:"credited"` // the target has taken it
}

// Incoming is the input of Credit.
type Incoming struct {
	ID     string `json:"id"`
	From   string `json:"from"`
	Amount int64  `json:"amount"`
}

// Status is the reply of all commands for callers.
type Status struct {
	Open    bool  `json:"open"`
	Balance int64 `json:"balance"`
	// OnTheWay was debited, and the target has not yet answered.
	OnTheWay int64 `json:"on_the_way"`
	// InDoubt was debited, and the target has not answered in time: an operator must find out from the
	// target whether it was credited, and call Resolve.
	InDoubt int64 `json:"in_doubt"`
}

// Account is an account. Its id is its number.
type Account struct {
	IsOpen  bool
	Limit   int64
	Balance int64
	// Out are the transfers that were not answered yet, in the order in which they were sent.
	Out []Debited
	// Doubtful are those that will not be answered any more.
	Doubtful []Debited
	// IsClosing: what was left is on the way, and the account ends when that has arrived.
	IsClosing bool
}

// Opened is the event of an Open.
type Opened struct{ Limit int64 }

// Deposited is the event of a Deposit.
type Deposited struct{ Amount int64 }

// Withdrawn is the event of a Withdraw.
type Withdrawn struct{ Amount int64 }

// Debited is the event of a Transfer at its source.
type Debited struct {
	ID, To string
	Amount int64
}

// Credited is the event of a Transfer at its target.
type Credited struct {
	ID, From string
	Amount   int64
}

// Settled records that the target has taken a transfer.
type Settled struct{ ID string }

// Refunded records that the target has refused a transfer, and that the source has it back.
type Refunded struct {
	ID     string
	Amount int64
	Reason string
}

// Doubted records that the target has not answered a transfer in time. It may have taken it.
type Doubted struct{ ID string }

// Closed records that an account takes no more commands and has sent away its remaining balance.
type Closed struct{}

// find returns a transfer without a known end: it is on the way, or in doubt; an operator may have sent it
// again then.
func (a *Account) find(id string) (d Debited, unused bool) {
	for _, list := range [][]Debited{a.Out, a.Doubtful} {
		if i := slices.IndexFunc(list, func(d Debited) bool { return d.ID == id }); i >= 0 {
			return list[i], false
		}
	}
	return d, true
}

// end removes a transfer from those whose end is not known, and returns it.
func (a *Account) end(id string) (d Debited) {
	d, _ = a.find(id)
	same := func(d Debited) bool { return d.ID == id }
	a.Out, a.Doubtful = slices.DeleteFunc(a.Out, same), slices.DeleteFunc(a.Doubtful, same)
	return d
}

// usable refuses commands of an account that is not open.
func (a *Account) usable() error {
	switch {
	case !a.IsOpen:
		return entity.Errorf(entity.FailedPrecondition, "the account is not open")
	case a.IsClosing:
		return entity.Errorf(entity.FailedPrecondition, "the account is being closed")
	}
	return nil
}

// payable refuses amounts that cannot be paid.
func payable(amount int64) error {
	if amount < 1 || amount > Most {
		return entity.Errorf(entity.InvalidArgument, "the amount is %d cents; it must be from 1 to %d", amount, int64(Most))
	}
	return nil
}

// mayTake refuses money that the account cannot take.
func (a *Account) mayTake(amount int64) error {
	if err := cmp.Or(a.usable(), payable(amount)); err != nil {
		return err
	}
	if a.Balance+amount > a.Limit {
		return entity.Errorf(entity.FailedPrecondition, "%d cents would be more than the limit of %d", a.Balance+amount, a.Limit)
	}
	return nil
}

// mayGive refuses to give money that the account does not have.
func (a *Account) mayGive(amount int64) error {
	if err := cmp.Or(a.usable(), payable(amount)); err != nil {
		return err
	}
	if amount > a.Balance {
		return entity.Errorf(entity.FailedPrecondition, "%d cents are wanted, and the balance is %d", amount, a.Balance)
	}
	return nil
}

// Open opens the account.
func (a *Account) Open(ctx *entity.Ctx, in Terms) (Status, error) {
	if a.IsOpen {
		return Status{}, entity.Errorf(entity.FailedPrecondition, "the account is open already")
	}
	if in.Limit < 0 || in.Limit > Most {
		return Status{}, entity.Errorf(entity.InvalidArgument, "the limit is %d cents; it must be from 0 to %d", in.Limit, int64(Most))
	}
	ctx.Persist(Opened{Limit: cmp.Or(in.Limit, Most)})
	return a.status(), nil
}

// Deposit adds money from outside.
func (a *Account) Deposit(ctx *entity.Ctx, in Money) (Status, error) {
	if err := a.mayTake(in.Amount); err != nil {
		return Status{}, err
	}
	ctx.Persist(Deposited(in))
	return a.status(), nil
}

// Withdraw pays money out.
func (a *Account) Withdraw(ctx *entity.Ctx, in Money) (Status, error) {
	if err := a.mayGive(in.Amount); err != nil {
		return Status{}, err
	}
	ctx.Persist(Withdrawn(in))
	return a.status(), nil
}

// Transfer sends money to another account. Debit and credit become durable together: the credit
// as something that is sent. If the target refuses it, the money comes back.
func (a *Account) Transfer(ctx *entity.Ctx, in Order) (Status, error) {
	if err := a.mayGive(in.Amount); err != nil {
		return Status{}, err
	}
	err := a.send(ctx, Debited(in))
	return a.status(), err
}

// send debits the account and sends the credit.
func (a *Account) send(ctx *entity.Ctx, d Debited) error {
	_, unused := a.find(d.ID)
	switch {
	case d.ID == "" || d.To == "" || d.To == ctx.ID():
		return entity.Errorf(entity.InvalidArgument, "name the transfer, and another account")
	case !unused:
		return entity.Errorf(entity.FailedPrecondition, "another transfer of the account, %q, has not been answered yet", d.ID)
	}
	Credit.Send(ctx, d.To, Incoming{ID: d.ID, From: ctx.ID(), Amount: d.Amount}, entity.ReplyTo(settle))
	ctx.Persist(d)
	return nil
}

// Credit takes money from another account, or refuses it.
func (a *Account) Credit(ctx *entity.Ctx, in Incoming) (Nothing, error) {
	if err := a.mayTake(in.Amount); err != nil {
		return Nothing{}, err
	}
	ctx.Persist(Credited(in))
	return Nothing{}, nil
}

// Settle takes the answer of a target. The sent input identifies the transfer. The oldest one would be
// wrong: an answer that could not be taken in time never comes, and each later one would be booked on the
// transfer before it.
func (a *Account) Settle(ctx *entity.Ctx, answer entity.Answer[Nothing]) (Nothing, error) {
	sent, err := Credit.Sent(answer)
	if err != nil {
		return Nothing{}, err
	}
	d, unused := a.find(sent.ID)
	if unused { // nothing is open under this name
		return Nothing{}, nil
	}
	switch {
	case answer.Err == nil:
		a.settled(ctx, d)
	case answer.Err.Outcome == entity.Unknown:
		ctx.Persist(Doubted{ID: d.ID})
	default: // refused by the target, or not applied for another reason
		ctx.Persist(Refunded{ID: d.ID, Amount: d.Amount, Reason: answer.Err.Message})
	}
	return Nothing{}, nil
}

// settled notes that the target has taken a transfer. If it was what was left, the account ends.
func (a *Account) settled(ctx *entity.Ctx, d Debited) {
	closing := a.IsClosing
	ctx.Persist(Settled{ID: d.ID})
	if closing {
		ctx.Delete()
	}
}

// Resolve ends a transfer whose result will not reach the account any more, as the caller has seen it at
// the target: it is settled, or the money comes back. That is a transfer in doubt, or one whose credit an
// operator has dropped (roost entity sends drop). Nothing here can tell the latter from one that is on the way,
// and a refund of that would be paid twice: so the caller makes sure first that no credit of it is pending
// (roost entity sends).
func (a *Account) Resolve(ctx *entity.Ctx, in Resolution) (Status, error) {
	d, unused := a.find(in.ID)
	switch {
	case unused:
		return Status{}, entity.Errorf(entity.NotFound, "no transfer of the account, %q, is without an end", in.ID)
	case in.Credited:
		a.settled(ctx, d)
	default:
		ctx.Persist(Refunded{ID: d.ID, Amount: d.Amount, Reason: "resolved: the target has not taken it"})
	}
	return a.status(), nil
}

// Close ends the account. It sends the remaining balance to another one; when that has taken it, the
// account is deleted. If it refuses, the account stays open. As long as transfers have no end the account
// cannot be closed, because they may come back. Those that are on the way get an answer, and those in doubt
// need a Resolve.
func (a *Account) Close(ctx *entity.Ctx, in Closing) (Status, error) {
	if err := a.usable(); err != nil {
		return Status{}, err
	}
	switch {
	case len(a.Doubtful) > 0:
		return Status{}, entity.Errorf(entity.FailedPrecondition, "%d transfers are in doubt; look at their targets, and resolve them (Resolve): the first is %q to %s", len(a.Doubtful), a.Doubtful[0].ID, a.Doubtful[0].To)
	case len(a.Out) > 0:
		return Status{}, entity.Errorf(entity.FailedPrecondition, "%d transfers have not been answered yet; try again", len(a.Out))
	}
	if a.Balance == 0 {
		ctx.Delete()
		return Status{}, nil
	}
	if err := a.send(ctx, Debited{ID: in.ID, To: in.To, Amount: a.Balance}); err != nil {
		return Status{}, err
	}
	ctx.Persist(Closed{})
	return a.status(), nil
}

// Show returns the balance and what is on the way.
func (a *Account) Show(*entity.Ctx, Nothing) (Status, error) { return a.status(), nil }

func (a *Account) status() Status {
	s := Status{Open: a.IsOpen && !a.IsClosing, Balance: a.Balance}
	for _, d := range a.Out {
		s.OnTheWay += d.Amount
	}
	for _, d := range a.Doubtful {
		s.InDoubt += d.Amount
	}
	return s
}
