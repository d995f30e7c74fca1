// Package entities has the entities of the benchmarks: one that counts in memory, one that
// keeps its count in the journal, and one that is slow.
//
// # What this does not do
//
// The handlers of the first two do almost nothing, so that Roost is measured.
package entities

import (
	"encoding/binary"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/roost-cluster/roost/sdk/entity"
)

// Names of types and commands.
const (
	EchoType    = "Echo"
	Ask         = "Ask"     // protobuf: 64 bytes answered by 16
	AskJSON     = "AskJSON" // the same in JSON
	Look        = "Look"    // the same as Ask, read-only
	AccountType = "Account"
	Deposit     = "Deposit" // JSON: 64 bytes answered by 16, one event
	Balance     = "Balance" // the same, read-only
	SavingsType = "Savings" // the same as an account, for a journal of two databases
	ClerkType   = "Clerk"
	Serve       = "Serve" // JSON: takes TurnTime
)

// What entities ask each other.
var (
	LookAt    = entity.Command[*wrapperspb.BytesValue, *wrapperspb.BytesValue](EchoType, Look, entity.ReadOnly())
	BalanceOf = entity.Command[Question, Answer](AccountType, Balance, entity.ReadOnly())
	DepositTo = entity.Command[Question, Answer](AccountType, Deposit)
)

// TurnTime is the time that a clerk takes for a command. It waits, so that the capacity does not
// depend on the machine.
const TurnTime = 5 * time.Millisecond

// Shards is the number of shards of each type, unless the region's environment has ShardsVariable.
const Shards = 1024

// ShardsVariable is the environment variable of bench-region that sets another number of shards.
const ShardsVariable = "BENCH_SHARDS"

// TenDigits makes a JSON answer of 16 bytes.
const TenDigits = 1_000_000_000

// Question is 64 bytes of JSON if Data has 53.
type Question struct {
	Data string `json:"data"`
}

// Answer is 16 bytes of JSON.
type Answer struct {
	N int64 `json:"n"`
}

// Echo is a volatile entity.
type Echo struct{ n uint64 }

// Ask counts.
func (e *Echo) Ask(*entity.Ctx, *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	e.n++
	return &wrapperspb.BytesValue{Value: binary.BigEndian.AppendUint64(make([]byte, 6, 14), e.n)}, nil
}

// Look counts too, which is not noticed.
func (e *Echo) Look(ctx *entity.Ctx, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	return e.Ask(ctx, in)
}

// AskJSON counts.
func (e *Echo) AskJSON(*entity.Ctx, Question) (Answer, error) {
	e.n++
	return Answer{TenDigits + int64(e.n)}, nil
}

// SnapshotEvery is after how many events an account has a snapshot, so that activation
// takes as long in a long run as in a short one.
const SnapshotEvery = 50

// Account is a durable entity.
type Account struct{ N int64 }

// Deposited is its event.
type Deposited struct{ Data string }

// Deposit stores one event.
func (a *Account) Deposit(ctx *entity.Ctx, in Question) (Answer, error) {
	ctx.Persist(Deposited(in))
	return Answer{TenDigits + a.N}, nil
}

// Balance returns what Deposit has returned last.
func (a *Account) Balance(*entity.Ctx, Question) (Answer, error) {
	return Answer{TenDigits + a.N}, nil
}

// Clerk is a volatile entity whose commands take TurnTime.
type Clerk struct{ n int64 }

// Serve takes TurnTime.
func (c *Clerk) Serve(ctx *entity.Ctx, _ Question) (Answer, error) {
	timer := time.NewTimer(TurnTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	c.n++
	return Answer{TenDigits + c.n}, nil
}

// Types returns the types that the region of the benchmarks hosts. Nothing is passivated,
// because figures would depend on the time since an earlier suite.
func Types(shards uint32) []entity.Definition {
	ask := entity.Command[*wrapperspb.BytesValue, *wrapperspb.BytesValue](EchoType, Ask)
	askJSON := entity.Command[Question, Answer](EchoType, AskJSON)
	serve := entity.Command[Question, Answer](ClerkType, Serve)
	return []entity.Definition{
		entity.Define(EchoType, func(string) *Echo { return &Echo{} },
			entity.On(ask, (*Echo).Ask), entity.On(askJSON, (*Echo).AskJSON), entity.On(LookAt, (*Echo).Look),
			entity.With[Echo](entity.Volatile(), entity.Shards(shards), entity.PassivateAfter(0)),
		),
		entity.Define(AccountType, func(string) *Account { return &Account{} },
			entity.On(DepositTo, (*Account).Deposit), entity.On(BalanceOf, (*Account).Balance),
			entity.Event("Deposited", func(a *Account, _ Deposited) { a.N++ }),
			entity.With[Account](entity.Shards(shards), entity.PassivateAfter(0), entity.SnapshotEvery(SnapshotEvery)),
		),
		entity.Define(SavingsType, func(string) *Account { return &Account{} },
			entity.On(entity.Command[Question, Answer](SavingsType, Deposit), (*Account).Deposit),
			entity.Event("Deposited", func(a *Account, _ Deposited) { a.N++ }),
			entity.With[Account](entity.Shards(shards), entity.PassivateAfter(0), entity.SnapshotEvery(SnapshotEvery)),
		),
		entity.Define(ClerkType, func(string) *Clerk { return &Clerk{} },
			entity.On(serve, (*Clerk).Serve),
			entity.With[Clerk](entity.Volatile(), entity.Shards(shards), entity.PassivateAfter(0)),
		),
	}
}
