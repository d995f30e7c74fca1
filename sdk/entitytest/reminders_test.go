package entitytest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// subscription is charged every month, until it is cancelled.
type subscription struct {
	Charges, Missed int
	Offline         bool
}

type (
	charged  struct{ Missed int }
	switched struct{ Offline bool }
)

const month = 30 * 24 * time.Hour

var (
	subscribe = entity.Command[int, string]("Subscription", "Subscribe")
	charge    = entity.Command[int, string]("Subscription", "Charge", entity.Stored())
	bankIs    = entity.Command[bool, string]("Subscription", "BankIsOffline")
	cancel    = entity.Command[int, string]("Subscription", "Cancel")
	once      = entity.Command[int, string]("Subscription", "ChargeOnce")
)

func (s *subscription) subscribe(ctx *entity.Ctx, price int) (string, error) {
	charge.RemindEvery(ctx, month, "charge", price)
	return "", nil
}

func (s *subscription) charge(ctx *entity.Ctx, _ int) (string, error) {
	if s.Offline {
		return "", errors.New("the bank is offline")
	}
	r, _ := ctx.Reminder()
	ctx.Persist(charged{Missed: r.Missed})
	return "", nil
}

func (s *subscription) bank(ctx *entity.Ctx, offline bool) (string, error) {
	ctx.Persist(switched{offline})
	return "", nil
}

func (s *subscription) cancel(ctx *entity.Ctx, _ int) (string, error) {
	ctx.CancelReminder("charge")
	return "", nil
}

func (s *subscription) once(ctx *entity.Ctx, _ int) (string, error) {
	charge.Remind(ctx, ctx.Now().Add(time.Hour), "once", 1)
	return "", nil
}

func subscriptions() entity.Type[subscription] {
	return entity.Define("Subscription", func(string) *subscription { return &subscription{} },
		entity.On(subscribe, (*subscription).subscribe), entity.On(charge, (*subscription).charge), entity.On(bankIs, (*subscription).bank),
		entity.On(cancel, (*subscription).cancel), entity.On(once, (*subscription).once),
		entity.Event("charged", func(s *subscription, e charged) {
			s.Charges++
			s.Missed += e.Missed
		}),
		entity.Event("switched", func(s *subscription, e switched) { s.Offline = e.Offline }),
	)
}

// ask sends a command that must succeed.
func ask[In any](t *testing.T, k *entitytest.Kit, h *entity.Handle[In, string], in In) {
	t.Helper()
	if _, err := h.Call(t.Context(), k, "dora", in); err != nil {
		t.Fatal(err)
	}
}

func charges(k *entitytest.Kit) (n int) {
	for _, e := range k.Entity(subscriptions(), "dora").Events() {
		if _, ok := e.(charged); ok {
			n++
		}
	}
	return n
}

func TestReminders(t *testing.T) {
	k := entitytest.New(t, subscriptions())
	ask(t, k, subscribe, 5)
	k.Advance(month - time.Second)
	if n := charges(k); n != 0 || k.Entity(subscriptions(), "dora").Active() {
		t.Fatalf("%d charges before the first month was over, or the entity is alive", n)
	}
	k.Advance(time.Second)
	k.Restart()
	k.Advance(month)
	if n := charges(k); n != 2 {
		t.Fatalf("%d charges after two months", n)
	}
	// While the bank is offline the charge is tried again and again. It counts as one then.
	ask(t, k, bankIs, true)
	k.Advance(3*month - time.Hour)
	if r := k.Entity(subscriptions(), "dora").Reminders(); len(r) != 1 || r[0].Failures < 1000 || r[0].Error == "" || r[0].Period != month {
		t.Fatalf("reminders: %+v", r)
	}
	ask(t, k, bankIs, false)
	k.Advance(2 * time.Minute)
	if n := charges(k); n != 3 {
		t.Fatalf("%d charges after the bank was online again", n)
	}
	if s := entitytest.State(k, subscriptions(), "dora"); s.Missed != 1 {
		t.Errorf("%d were missed", s.Missed)
	}
	ask(t, k, cancel, 0)
	k.Advance(12 * month)
	if n := charges(k); n != 3 || len(k.Entity(subscriptions(), "dora").Reminders()) != 0 {
		t.Errorf("%d charges after it was cancelled", n)
	}
}

// TestReminderAtACrash: a region that dies at the commit of a firing neither loses nor
// repeats its effect.
func TestReminderAtACrash(t *testing.T) {
	for _, when := range []entitytest.Crash{entitytest.BeforeCommit, entitytest.AfterCommit} {
		k := entitytest.New(t, subscriptions())
		ask(t, k, once, 0)
		k.CrashAtCommit(when)
		k.Advance(2 * time.Hour)
		if n := charges(k); n != 1 || len(k.Entity(subscriptions(), "dora").Reminders()) != 0 {
			t.Errorf("crash %d: %d charges, reminders %+v", when, n, k.Entity(subscriptions(), "dora").Reminders())
		}
		k.FireAgain()
		if n := charges(k); n != 1 {
			t.Errorf("crash %d: %d charges after it has fired again", when, n)
		}
	}
}

// TestCrashAtTheCommitOfACommand: its caller does not know whether it was done.
func TestCrashAtTheCommitOfACommand(t *testing.T) {
	for when, want := range map[entitytest.Crash]int{entitytest.BeforeCommit: 0, entitytest.AfterCommit: 1} {
		k := entitytest.New(t, subscriptions())
		k.CrashAtCommit(when)
		if _, err := once.Call(t.Context(), k, "dora", 1); entity.OutcomeOf(err) != entity.Unknown {
			t.Errorf("crash %d: %v", when, err)
		}
		if r := k.Entity(subscriptions(), "dora").Reminders(); len(r) != want {
			t.Errorf("crash %d: reminders %+v", when, r)
		}
	}
}
