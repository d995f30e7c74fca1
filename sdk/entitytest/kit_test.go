package entitytest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

type account struct {
	Balance int64
	Frozen  bool
}

type (
	deposited struct{ Amount int64 }
	withdrawn struct{ Amount int64 }
	frozen    struct{ Reason string }
	money     struct {
		Amount int64 `json:"amount"`
	}
)

func (a *account) Deposit(ctx *entity.Ctx, in money) (money, error) {
	ctx.Persist(deposited(in))
	if in.Amount == 13 {
		return money{}, errors.New("bad luck after staging")
	}
	if in.Amount == 666 {
		panic("evil")
	}
	return money{a.Balance}, nil
}

func (a *account) Withdraw(ctx *entity.Ctx, in money) (money, error) {
	switch {
	case a.Frozen:
		return money{}, entity.Errorf(entity.FailedPrecondition, "account is frozen")
	case in.Amount > a.Balance:
		freeze.After(ctx, time.Minute, "overdraft", "overdraft attempt")
		return money{}, entity.Errorf(entity.FailedPrecondition, "have %d, want %d", a.Balance, in.Amount)
	}
	ctx.Persist(withdrawn(in))
	return money{a.Balance}, nil
}

func (a *account) Try(ctx *entity.Ctx, in money) (money, error) {
	watch.After(ctx, time.Minute, "watch", "tried")
	return money{a.Balance}, nil
}

func (a *account) Freeze(ctx *entity.Ctx, reason string) (struct{}, error) {
	ctx.Persist(frozen{reason})
	return struct{}{}, nil
}

func (a *account) Balanced(ctx *entity.Ctx, _ struct{}) (money, error) {
	if a.Balance == -1 {
		ctx.Persist(deposited{1})
		return money{}, nil
	}
	return money{a.Balance}, nil
}

func (a *account) Cheat(*entity.Ctx, struct{}) (struct{}, error) {
	a.Balance++
	return struct{}{}, nil
}

func (a *account) Close(ctx *entity.Ctx, _ struct{}) (struct{}, error) {
	ctx.Passivate()
	return struct{}{}, nil
}

var stops []entity.StopReason

func (a *account) OnStop(_ *entity.Ctx, why entity.StopReason) { stops = append(stops, why) }

var (
	deposit  = entity.Command[money, money]("Account", "Deposit")
	withdraw = entity.Command[money, money]("Account", "Withdraw")
	try      = entity.Command[money, money]("Account", "Try")
	freeze   = entity.Command[string, struct{}]("Account", "Freeze")
	watch    = freeze
	balance  = entity.Command[struct{}, money]("Account", "Balance", entity.ReadOnly())
	cheat    = entity.Command[struct{}, struct{}]("Account", "Cheat")
	closeIt  = entity.Command[struct{}, struct{}]("Account", "Close")
	accounts = entity.Define("Account", func(string) *account { return &account{} },
		entity.On(deposit, (*account).Deposit), entity.On(withdraw, (*account).Withdraw),
		entity.On(try, (*account).Try), entity.On(freeze, (*account).Freeze),
		entity.On(balance, (*account).Balanced), entity.On(cheat, (*account).Cheat), entity.On(closeIt, (*account).Close),
		entity.Event("deposited", func(a *account, e deposited) { a.Balance += e.Amount }),
		entity.Event("withdrawn", func(a *account, e withdrawn) { a.Balance -= e.Amount }),
		entity.Event("frozen", func(a *account, _ frozen) { a.Frozen = true }),
		entity.With[account](entity.SnapshotEvery(2)),
	)
)

func TestGivenWhenThen(t *testing.T) {
	k := entitytest.New(t, accounts)
	ctx := t.Context()
	k.Entity(accounts, "alice").Given(deposited{100})
	if _, err := withdraw.Call(ctx, k, "alice", money{150}); entity.CodeOf(err) != entity.FailedPrecondition {
		t.Fatalf("overdraft: %v", err)
	}
	if got, err := withdraw.Call(ctx, k, "alice", money{30}); err != nil || got.Amount != 70 {
		t.Fatalf("withdraw: %v %v", got, err)
	}
	k.Entity(accounts, "alice").WantEvents(deposited{100}, withdrawn{30})
	k.Restart()
	if got, err := balance.Call(ctx, k, "alice", struct{}{}); err != nil || got.Amount != 70 {
		t.Fatalf("after restart: %v %v", got, err)
	}
}

func TestTimersCountOnlyIfTheHandlerSucceeds(t *testing.T) {
	k := entitytest.New(t, accounts)
	ctx := t.Context()
	// Withdraw answers with an error, so that its timer is not set.
	_, _ = withdraw.Call(ctx, k, "a", money{1})
	k.Advance(61 * time.Second)
	k.Entity(accounts, "a").WantEvents()
	if _, err := try.Call(ctx, k, "a", money{}); err != nil {
		t.Fatal(err)
	}
	k.Advance(59 * time.Second)
	k.Entity(accounts, "a").WantEvents()
	k.Advance(2 * time.Second)
	k.Entity(accounts, "a").WantEvents(frozen{"tried"})
}

// TestTimersAfterARestart: a firing of the second life is not taken for the
// repeat of one of the first.
func TestTimersAfterARestart(t *testing.T) {
	k := entitytest.New(t, accounts)
	for range 2 {
		if _, err := try.Call(t.Context(), k, "a", money{}); err != nil {
			t.Fatal(err)
		}
		k.Advance(time.Minute)
		k.Restart()
	}
	k.Entity(accounts, "a").WantEvents(frozen{"tried"}, frozen{"tried"})
}

func TestPassivation(t *testing.T) {
	stops = nil
	k := entitytest.New(t, accounts)
	ctx := t.Context()
	_, _ = deposit.Call(ctx, k, "a", money{5})
	k.Advance(119 * time.Second)
	if !k.Entity(accounts, "a").Active() {
		t.Fatal("passivated too early")
	}
	k.Advance(time.Second)
	if k.Entity(accounts, "a").Active() || len(stops) != 1 || stops[0] != entity.Passivated {
		t.Fatalf("active %t, stop hook %v", k.Entity(accounts, "a").Active(), stops)
	}
	if got, err := balance.Call(ctx, k, "a", struct{}{}); err != nil || got.Amount != 5 {
		t.Fatalf("after passivation: %v %v", got, err)
	}
	_, _ = closeIt.Call(ctx, k, "a", struct{}{})
	if k.Entity(accounts, "a").Active() {
		t.Fatal("alive after its own wish to go")
	}
}

func TestFailedTurnsAreUndone(t *testing.T) {
	k := entitytest.New(t, accounts)
	ctx := t.Context()
	_, _ = deposit.Call(ctx, k, "a", money{5})
	for _, amount := range []int64{13, 666} {
		_, err := deposit.Call(ctx, k, "a", money{amount}, entity.Key("k"))
		if entity.CodeOf(err) != entity.Internal || entity.OutcomeOf(err) != entity.NotApplied {
			t.Fatalf("deposit of %d: %v", amount, err)
		}
	}
	if got, err := balance.Call(ctx, k, "a", struct{}{}); err != nil || got.Amount != 5 {
		t.Fatalf("balance: %v %v", got, err)
	}
}

func TestKeys(t *testing.T) {
	k := entitytest.New(t, accounts)
	ctx := t.Context()
	for range 3 {
		got, err := deposit.Call(ctx, k, "a", money{5}, entity.Key("k1"))
		if err != nil || got.Amount != 5 {
			t.Fatalf("deposit: %v %v", got, err)
		}
		k.Restart()
	}
	if _, err := deposit.Call(ctx, k, "a", money{6}, entity.Key("k1")); entity.CodeOf(err) != entity.AlreadyExists {
		t.Fatalf("another payload under the same key: %v", err)
	}
	for range 2 { // a business error is an answer like any other
		if _, err := withdraw.Call(ctx, k, "a", money{7}, entity.Key("k2")); entity.CodeOf(err) != entity.FailedPrecondition {
			t.Fatalf("withdraw: %v", err)
		}
		_, _ = deposit.Call(ctx, k, "a", money{50}, entity.Key("k3"))
	}
}

func TestBadInput(t *testing.T) {
	k := entitytest.New(t, accounts)
	_, err := k.Call(t.Context(), entity.Call{Type: "Account", ID: "a", Command: "Deposit", Payload: []byte(`{"amout":5}`)})
	if entity.CodeOf(err) != entity.InvalidArgument || !strings.Contains(err.Error(), "amout") {
		t.Fatalf("misspelt field: %v", err)
	}
	k.Entity(accounts, "b").Given(deposited{-1})
	if _, err := balance.Call(t.Context(), k, "b", struct{}{}); entity.CodeOf(err) != entity.Internal || !strings.Contains(err.Error(), "read-only") {
		t.Fatalf("a read-only command that persists: %v", err)
	}
}

// broken records what a test under test reports.
type broken struct {
	testing.TB
	errs []string
}

func (b *broken) Errorf(format string, args ...any) { b.errs = append(b.errs, format) }
func (b *broken) Helper()                           {}
func (b *broken) Cleanup(func())                    {}

type hider struct{ n int }

// TestSnapshotsHaveTheWholeState: a field that no snapshot has is found before the first
// snapshot is taken.
func TestSnapshotsHaveTheWholeState(t *testing.T) {
	b := &broken{TB: t}
	hide := entity.Command[int, int]("Hider", "Hide")
	k := entitytest.New(b, entity.Define("Hider", func(string) *hider { return &hider{} },
		entity.On(hide, func(h *hider, ctx *entity.Ctx, n int) (int, error) {
			ctx.Persist(paid{n})
			return h.n, nil
		}),
		entity.Event("paid", func(h *hider, _ paid) { h.n++ }),
		entity.With[hider](entity.SnapshotEvery(500)),
	))
	_, _ = hide.Call(t.Context(), k, "a", 1)
	k.Restart()
	if len(b.errs) != 1 || strings.Contains(b.errs[0], "differs from live") {
		t.Errorf("reported: %v", b.errs)
	}
}

func TestReplayMustEqualLive(t *testing.T) {
	b := &broken{TB: t}
	k := entitytest.New(b, accounts)
	_, _ = cheat.Call(context.Background(), k, "a", struct{}{})
	k.Restart()
	if len(b.errs) == 0 || !strings.Contains(b.errs[0], "differs from live") {
		t.Fatalf("a state change outside reducers was not noticed: %v", b.errs)
	}
}

// line is an entity with a connection in memory, which replay has not.
type line struct {
	Calls int
	conn  *strings.Builder
	seen  int
}

func (l *line) OnStart(*entity.Ctx) error { l.conn = &strings.Builder{}; return nil }

// TestMemoryIsNotCompared: a hook and a handler may keep in memory what is not exported.
func TestMemoryIsNotCompared(t *testing.T) {
	call := entity.Command[int, int]("Line", "Call")
	lines := entity.Define("Line", func(string) *line { return &line{} },
		entity.On(call, func(l *line, ctx *entity.Ctx, n int) (int, error) {
			l.seen++
			fmt.Fprint(l.conn, "ring")
			ctx.Persist(paid{n})
			return l.Calls, nil
		}),
		entity.Event("paid", func(l *line, e paid) { l.Calls += e.Cents }),
	)
	k := entitytest.New(t, lines)
	for want := range 3 {
		if n, err := call.Call(t.Context(), k, "a", 1); err != nil || n != want+1 {
			t.Fatal(n, err)
		}
		k.Restart()
	}
}

// secret is an entity without exported fields: all of its state is compared.
type secret struct{ n int }

func TestStateWithoutExportedFieldsIsCompared(t *testing.T) {
	b := &broken{TB: t}
	hide := entity.Command[int, int]("Secret", "Hide")
	k := entitytest.New(b, entity.Define("Secret", func(string) *secret { return &secret{} },
		entity.On(hide, func(s *secret, ctx *entity.Ctx, n int) (int, error) {
			ctx.Persist(paid{n})
			s.n++
			return s.n, nil
		}),
		entity.Event("paid", func(s *secret, e paid) { s.n += e.Cents }),
	))
	_, _ = hide.Call(t.Context(), k, "a", 1)
	k.Restart()
	if len(b.errs) == 0 || !strings.Contains(b.errs[0], "differs from live") {
		t.Errorf("reported: %v", b.errs)
	}
}

// TestTimerOutlastsPassivation: an entity that waits for its timer is not idle.
func TestTimerOutlastsPassivation(t *testing.T) {
	late := entity.Define("Account", func(string) *account { return &account{} },
		entity.On(try, (*account).Try), entity.On(freeze, (*account).Freeze),
		entity.Event("frozen", func(a *account, _ frozen) { a.Frozen = true }),
		entity.With[account](entity.PassivateAfter(10*time.Second)),
	)
	k := entitytest.New(t, late)
	if _, err := try.Call(t.Context(), k, "alice", money{}); err != nil { // sets a timer of a minute
		t.Fatal(err)
	}
	k.Advance(59 * time.Second)
	if !k.Entity(accounts, "alice").Active() {
		t.Fatal("passivated before its timer has fired")
	}
	k.Advance(time.Second)
	k.Entity(accounts, "alice").WantEvents(frozen{"tried"})
	k.Advance(10 * time.Second)
	if k.Entity(accounts, "alice").Active() {
		t.Fatal("alive without a timer")
	}
}

type visited struct{ At time.Time }

type log struct{ Visits []time.Time }

// TestVirtualNow: the time of a turn is the kit's.
func TestVirtualNow(t *testing.T) {
	visit := entity.Command[struct{}, time.Time]("Log", "Visit")
	logs := entity.Define("Log", func(string) *log { return &log{} },
		entity.On(visit, func(_ *log, ctx *entity.Ctx, _ struct{}) (time.Time, error) {
			ctx.Persist(visited{ctx.Now()})
			return ctx.Now(), nil
		}),
		entity.Event("visited", func(l *log, event visited) { l.Visits = append(l.Visits, event.At) }),
	)
	k := entitytest.New(t, logs)
	for range 2 {
		k.Advance(time.Hour)
		if at, err := visit.Call(t.Context(), k, "a", struct{}{}); err != nil || !at.Equal(k.Now()) {
			t.Errorf("at %v, %v; the kit says %v", at, err, k.Now())
		}
	}
	k.Entity(logs, "a").WantEvents(visited{k.Now().Add(-time.Hour)}, visited{k.Now()})
}

type (
	ledgerV1 struct{ Sum int }
	ledger   struct{ Cents int }
	paidV1   struct{ Euro int }
	paid     struct{ Cents int }
)

// TestNextVersion: another version of the program reads what the first one has stored: its
// events by a step, its snapshots not at all.
func TestNextVersion(t *testing.T) {
	pay := entity.Command[int, int]("Ledger", "Pay")
	v1 := entity.Define("Ledger", func(string) *ledgerV1 { return &ledgerV1{} },
		entity.On(pay, func(l *ledgerV1, ctx *entity.Ctx, n int) (int, error) {
			ctx.Persist(paidV1{n})
			return l.Sum + n, nil
		}),
		entity.Event("paid", func(l *ledgerV1, ev paidV1) { l.Sum += ev.Euro }),
		entity.With[ledgerV1](entity.SnapshotEvery(2)),
	)
	v2 := entity.Define("Ledger", func(string) *ledger { return &ledger{} },
		entity.On(pay, func(l *ledger, ctx *entity.Ctx, n int) (int, error) { ctx.Persist(paid{n}); return l.Cents, nil }),
		entity.Event("paid", func(l *ledger, ev paid) { l.Cents += ev.Cents }, entity.V(2, entity.From(1, func(o paidV1) paid { return paid{100 * o.Euro} }))),
		entity.With[ledger](entity.SnapshotEvery(2)),
	)
	k := entitytest.New(t, v1)
	k.Entity(v1, "l").GivenStored("paid", 1, `{"Euro":4}`)
	for range 3 {
		if _, err := pay.Call(t.Context(), k, "l", 1); err != nil {
			t.Fatal(err)
		}
	}
	k.Restart(v2)
	if n, err := pay.Call(t.Context(), k, "l", 5); err != nil || n != 705 {
		t.Errorf("%d cents, %v", n, err)
	}
	k.Restart(v1)
	if _, err := pay.Call(t.Context(), k, "l", 1); entity.CodeOf(err) != "data_loss" || !strings.Contains(err.Error(), "of version 2") {
		t.Errorf("the first version reads the second: %v", err)
	}
	k.Restart(v2)
}

// TestSubject: a handler learns who has sent its command.
func TestSubject(t *testing.T) {
	who := entity.Command[struct{}, string]("Diary", "Who", entity.ReadOnly())
	k := entitytest.New(t, entity.Define("Diary", func(string) *struct{} { return &struct{}{} },
		entity.On(who, func(_ *struct{}, ctx *entity.Ctx, _ struct{}) (string, error) { return ctx.Subject(), nil }),
		entity.With[struct{}](entity.Volatile()),
	))
	for _, want := range []string{"key:billing", "jwt:https://login.example#anna"} {
		if got, err := who.Call(t.Context(), k.As(want), "d", struct{}{}); got != want || err != nil {
			t.Errorf("the subject is %q, %v, want %q", got, err, want)
		}
	}
	if got, err := who.Call(t.Context(), k, "d", struct{}{}); got != "" || err != nil {
		t.Errorf("without a subject it is %q, %v", got, err)
	}
}
