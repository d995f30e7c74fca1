package entity_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// Account is the state of an account.
type Account struct{ Balance int64 }

type (
	Deposited struct{ Cents int64 }
	Withdrawn struct{ Cents int64 }
)

func (a *Account) Deposit(ctx *entity.Ctx, cents int64) (int64, error) {
	ctx.Persist(Deposited{cents})
	return a.Balance, nil // the reducer has changed it
}

func (a *Account) Withdraw(ctx *entity.Ctx, cents int64) (int64, error) {
	if cents > a.Balance {
		return 0, entity.Errorf(entity.FailedPrecondition, "the balance is %d", a.Balance)
	}
	ctx.Persist(Withdrawn{cents})
	return a.Balance, nil
}

var (
	Deposit  = entity.Command[int64, int64]("Account", "Deposit", entity.Stored())
	Withdraw = entity.Command[int64, int64]("Account", "Withdraw")

	Accounts = entity.Define("Account", func(id string) *Account { return &Account{} },
		entity.On(Deposit, (*Account).Deposit),
		entity.On(Withdraw, (*Account).Withdraw),
		entity.Event("deposited", func(a *Account, e Deposited) { a.Balance += e.Cents }),
		entity.Event("withdrawn", func(a *Account, e Withdrawn) { a.Balance -= e.Cents }),
		entity.With[Account](entity.SnapshotEvery(100), entity.PassivateAfter(time.Minute)))
)

// exampleTest stands for the test of a kit.
type exampleTest struct{ testing.TB }

func (exampleTest) Helper()        {}
func (exampleTest) Cleanup(func()) {}

func kitOf(types ...entity.Definition) *entitytest.Kit {
	return entitytest.New(exampleTest{}, types...)
}

func Example() {
	c := kitOf(Accounts) // or a client of package client
	ctx := context.Background()
	_, _ = Deposit.Call(ctx, c, "alice", 100)
	balance, err := Withdraw.Call(ctx, c, "alice", 30)
	fmt.Println(balance, err)
	// Output: 70 <nil>
}

func ExampleHandle_Call() {
	c, ctx := kitOf(Accounts), context.Background()
	for range 2 { // a repeat with the same key takes effect once
		balance, _ := Deposit.Call(ctx, c, "alice", 100, entity.Key("payment 7"))
		fmt.Println(balance)
	}
	// Output:
	// 100
	// 100
}

func ExampleErrorf() {
	_, err := Withdraw.Call(context.Background(), kitOf(Accounts), "alice", 30)
	fmt.Println(err)
	fmt.Println(entity.CodeOf(err) == entity.FailedPrecondition, entity.OutcomeOf(err))
	// Output:
	// failed_precondition: the balance is 0
	// true executed
}

func ExampleOutcomeOf() {
	err := error(&entity.Error{Code: entity.Unavailable, Message: "no answer", Outcome: entity.Unknown})
	switch entity.OutcomeOf(err) {
	case entity.Executed:
		fmt.Println("the entity has refused it")
	case entity.NotApplied:
		fmt.Println("try again")
	case entity.Unknown:
		fmt.Println("try again with the same key")
	}
	// Output: try again with the same key
}

func ExampleNew() {
	_, err := entity.New("Account", func(id string) *Account { return &Account{} },
		entity.On(Deposit, (*Account).Deposit),
		entity.On(Deposit, (*Account).Deposit))
	fmt.Println(err)
	// Output: entity type Account: command Deposit is bound twice
}

// Item is an entity with a stock.
type Item struct{ Left int }

type Taken struct{ N int }

func (i *Item) Take(ctx *entity.Ctx, n int) (int, error) {
	if n > i.Left {
		return 0, entity.Errorf(entity.OutOfRange, "%d are left", i.Left)
	}
	ctx.Persist(Taken{n})
	return i.Left, nil
}

var (
	Take  = entity.Command[int, int]("Item", "Take", entity.Stored())
	Items = entity.Define("Item", func(id string) *Item { return &Item{Left: 2} },
		entity.On(Take, (*Item).Take),
		entity.Event("taken", func(i *Item, e Taken) { i.Left -= e.N }))
)

// Order is an entity that takes from items.
type Order struct{ Got, Refused int }

type (
	Got     struct{ N int }
	Refused struct{}
)

func ExampleHandle_Ask() {
	buy := entity.Command[string, int]("Order", "Buy")
	orders := entity.Define("Order", func(id string) *Order { return &Order{} },
		entity.On(buy, func(o *Order, ctx *entity.Ctx, item string) (int, error) {
			left, err := Take.Ask(ctx, item, 1) // the order waits for the item
			if err != nil {
				return 0, err
			}
			ctx.Persist(Got{1})
			return left, nil
		}),
		entity.Event("got", func(o *Order, e Got) { o.Got += e.N }))
	c := kitOf(orders, Items)
	left, err := buy.Call(context.Background(), c, "o1", "tea", entity.Key("buy tea")) // an ask that changes something needs a key
	fmt.Println(left, err)
	// Output: 1 <nil>
}

func ExampleHandle_Send() {
	buy := entity.Command[int, struct{}]("Order", "Buy")
	taken := entity.Command[entity.Answer[int], struct{}]("Order", "Taken")
	orders := entity.Define("Order", func(id string) *Order { return &Order{} },
		entity.On(buy, func(o *Order, ctx *entity.Ctx, n int) (struct{}, error) {
			Take.Send(ctx, "tea", n, entity.ReplyTo(taken)) // is delivered when this turn is durable
			return struct{}{}, nil
		}),
		entity.On(taken, func(o *Order, ctx *entity.Ctx, a entity.Answer[int]) (struct{}, error) {
			if a.Err != nil {
				ctx.Persist(Refused{})
				return struct{}{}, nil
			}
			n, err := Take.Sent(a)
			ctx.Persist(Got{n})
			return struct{}{}, err
		}),
		entity.Event("got", func(o *Order, e Got) { o.Got += e.N }),
		entity.Event("refused", func(o *Order, _ Refused) { o.Refused++ }))
	k := kitOf(orders, Items)
	for _, n := range []int{2, 5} {
		_, _ = buy.Call(context.Background(), k, "o1", n)
	}
	fmt.Println(k.Entity(orders, "o1").Events())
	// Output: [{2} {}]
}

func ExampleHandle_RemindEvery() {
	subscribe := entity.Command[int64, struct{}]("Account", "Subscribe")
	accounts := entity.Define("Account", func(id string) *Account { return &Account{} },
		entity.On(Deposit, (*Account).Deposit),
		entity.On(subscribe, func(a *Account, ctx *entity.Ctx, cents int64) (struct{}, error) {
			Deposit.RemindEvery(ctx, 24*time.Hour, "allowance", cents) // also if the process has died meanwhile
			return struct{}{}, nil
		}),
		entity.Event("deposited", func(a *Account, e Deposited) { a.Balance += e.Cents }))
	k := kitOf(accounts)
	_, _ = subscribe.Call(context.Background(), k, "alice", 100)
	k.Advance(72 * time.Hour)
	fmt.Println(entitytest.State(k, accounts, "alice").Balance)
	// Output: 300
}

// Poller counts in memory.
type Poller struct{ Polls int }

func (p *Poller) OnStart(ctx *entity.Ctx) error {
	poll.Every(ctx, time.Second, "poll", struct{}{})
	return nil
}

func (p *Poller) Poll(*entity.Ctx, struct{}) (int, error) { p.Polls++; return p.Polls, nil }

var poll = entity.Command[struct{}, int]("Poller", "Poll")

func ExampleHandle_Every() {
	pollers := entity.Define("Poller", func(id string) *Poller { return &Poller{} },
		entity.On(poll, (*Poller).Poll),
		entity.With[Poller](entity.Volatile(), entity.KeepOnMoves()))
	k := kitOf(pollers)
	_, _ = poll.Call(context.Background(), k, "p1", struct{}{})
	k.Advance(3 * time.Second)
	fmt.Println(entitytest.State(k, pollers, "p1").Polls)
	// Output: 4
}

func ExampleV() {
	type DepositedV1 struct{ Euro int64 } // as it was stored before
	show := entity.Command[struct{}, int64]("Account", "Show", entity.ReadOnly())
	accounts := entity.Define("Account", func(id string) *Account { return &Account{} },
		entity.On(show, func(a *Account, _ *entity.Ctx, _ struct{}) (int64, error) { return a.Balance, nil }),
		entity.Event("deposited", func(a *Account, e Deposited) { a.Balance += e.Cents },
			entity.V(2, entity.From(1, func(old DepositedV1) Deposited { return Deposited{Cents: 100 * old.Euro} }))))
	k := kitOf(accounts)
	k.Entity(accounts, "alice").GivenStored("deposited", 1, `{"Euro":5}`)
	balance, err := show.Call(context.Background(), k, "alice", struct{}{})
	fmt.Println(balance, err)
	// Output: 500 <nil>
}

func ExampleShardBy() {
	orders := entity.Define("Order", func(id string) *Order { return &Order{} },
		entity.On(entity.Command[int, int]("Order", "Show", entity.ReadOnly()), func(o *Order, _ *entity.Ctx, _ int) (int, error) { return o.Got, nil }),
		entity.With[Order](entity.ShardBy(entity.Prefix("/"))))
	fmt.Println(kitOf(orders).Entity(orders, "customer-17/order-5").ShardKey())
	// Output: customer-17
}

func ExampleCtx_Persist() {
	read := entity.Command[int64, int64]("Account", "Read", entity.ReadOnly())
	accounts := entity.Define("Account", func(id string) *Account { return &Account{} },
		entity.On(read, func(a *Account, ctx *entity.Ctx, cents int64) (int64, error) {
			ctx.Persist(Deposited{cents}) // breaks the turn, because the command is read-only
			return a.Balance, nil
		}),
		entity.Event("deposited", func(a *Account, e Deposited) { a.Balance += e.Cents }))
	_, err := read.Call(context.Background(), kitOf(accounts), "alice", 100)
	var e *entity.Error
	fmt.Println(errors.As(err, &e), e.Outcome)
	// Output: true not applied
}

// Biller is one of its kind: the cluster has only the entity "biller".
type Biller struct{ Runs int }

type Billed struct{}

var runBiller = entity.Command[struct{}, int]("Biller", "Run")

func (b *Biller) OnStart(ctx *entity.Ctx) error {
	runBiller.Every(ctx, time.Minute, "run", struct{}{})
	return nil
}

func (b *Biller) Run(ctx *entity.Ctx, _ struct{}) (int, error) {
	if ctx.ID() != "biller" {
		return 0, entity.Errorf(entity.InvalidArgument, "there is one biller: %q", "biller")
	}
	ctx.Persist(Billed{})
	return b.Runs, nil
}

var Billers = entity.Define("Biller", func(string) *Biller { return &Biller{} },
	entity.On(runBiller, (*Biller).Run),
	entity.Event("billed", func(b *Biller, _ Billed) { b.Runs++ }),
	entity.With[Biller](entity.Shards(1), entity.Remember(), entity.PassivateAfter(0)))

// One of its kind: started once, and with its shard from then on.
func ExampleRemember() {
	k := kitOf(Billers)
	_, _ = runBiller.Call(context.Background(), k, "biller", struct{}{})
	k.Restart() // its region has crashed
	k.Advance(2 * time.Minute)
	fmt.Println(entitytest.State(k, Billers, "biller").Runs)
	_, err := runBiller.Call(context.Background(), k, "another", struct{}{})
	fmt.Println(entity.CodeOf(err))
	// Output:
	// 3
	// invalid_argument
}
