package entitytest_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// rack is an item in stock, purchase reserves it.
type (
	rack     struct{ Left int }
	purchase struct{ Log []string }

	taken  struct{ N int }
	noted  struct{ Line string }
	wanted struct{ N int }
	given  struct{ Left int }
)

func (s *rack) Take(ctx *entity.Ctx, in wanted) (given, error) {
	if in.N > s.Left {
		return given{}, entity.Errorf(entity.FailedPrecondition, "only %d are left", s.Left)
	}
	ctx.Persist(taken(in))
	return given{s.Left}, nil
}

type wish struct {
	Item  string
	N     int
	Told  bool
	Times int
}

func (o *purchase) Buy(ctx *entity.Ctx, in wish) (struct{}, error) {
	for range max(1, in.Times) {
		if in.Told {
			takeSome.Send(ctx, in.Item, wanted{in.N}, entity.ReplyTo(gotIt))
		} else {
			takeSome.Send(ctx, in.Item, wanted{in.N})
		}
	}
	ctx.Persist(noted{"buy " + in.Item})
	return struct{}{}, nil
}

// Leave buys something and deletes the entity.
func (o *purchase) Leave(ctx *entity.Ctx, in wish) (struct{}, error) {
	takeSome.Send(ctx, in.Item, wanted{in.N}, entity.ReplyTo(gotIt))
	ctx.Delete()
	return struct{}{}, nil
}

func (o *purchase) Bought(ctx *entity.Ctx, a entity.Answer[given]) (struct{}, error) {
	line := fmt.Sprintf("%s %s: %d left", a.Type+"/"+a.ID, a.Command, a.Value.Left)
	if a.Err != nil {
		line = fmt.Sprintf("%s %s: %s, outcome %s", a.Type+"/"+a.ID, a.Command, a.Err.Code, a.Err.Outcome)
	}
	if _, ok := ctx.Reminder(); ok {
		line = "a reminder"
	}
	if in, err := takeSome.Sent(a); err != nil || in.N == 0 {
		line = fmt.Sprintf("what was sent: %+v, %v", in, err)
	}
	if _, err := entity.Command[wanted, given]("Shelf", "Give").Sent(a); err == nil {
		line = "the input of another command"
	}
	ctx.Persist(noted{line})
	return struct{}{}, nil
}

var (
	takeSome   = entity.Command[wanted, given]("Shelf", "Take", entity.Stored())
	buyIt      = entity.Command[wish, struct{}]("Order", "Buy")
	leaveIt    = entity.Command[wish, struct{}]("Order", "Leave")
	gotIt      = entity.Command[entity.Answer[given], struct{}]("Order", "Bought")
	seeOnly    = entity.Command[struct{}, given]("Shelf", "Look", entity.ReadOnly())
	sendToRead = entity.Command[string, struct{}]("Order", "Peek")

	racks = entity.Define("Shelf", func(string) *rack { return &rack{Left: 3} }, entity.On(takeSome, (*rack).Take),
		entity.Event("taken", func(s *rack, ev taken) { s.Left -= ev.N }),
	)
	purchases = entity.Define("Order", func(string) *purchase { return &purchase{} },
		entity.On(buyIt, (*purchase).Buy), entity.On(leaveIt, (*purchase).Leave), entity.On(gotIt, (*purchase).Bought),
		entity.On(sendToRead, func(_ *purchase, ctx *entity.Ctx, id string) (struct{}, error) {
			seeOnly.Send(ctx, id, struct{}{})
			return struct{}{}, nil
		}),
		entity.Event("noted", func(o *purchase, ev noted) { o.Log = append(o.Log, ev.Line) }),
	)
)

func wantLog(t *testing.T, k *entitytest.Kit, want ...string) {
	t.Helper()
	var got []string
	for _, ev := range k.Entity(purchases, "o").Events() {
		got = append(got, ev.(noted).Line)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the order has\n %q, want\n %q", got, want)
	}
}

func do(t *testing.T, k *entitytest.Kit, in wish) {
	t.Helper()
	if _, err := buyIt.Call(t.Context(), k, "o", in); err != nil {
		t.Fatal(err)
	}
}

func TestSends(t *testing.T) {
	k := entitytest.New(t, racks, purchases)
	do(t, k, wish{Item: "a", N: 2, Told: true})
	wantLog(t, k, "buy a", "Shelf/a Take: 1 left")
	k.Entity(racks, "a").WantEvents(taken{2})
	do(t, k, wish{Item: "a", N: 2, Told: true})
	wantLog(t, k, "buy a", "Shelf/a Take: 1 left", "buy a", "Shelf/a Take: failed_precondition, outcome executed")
	if s := k.Entity(purchases, "o").Sends(); len(s) > 0 {
		t.Errorf("not done: %+v", s)
	}
	// Without ReplyTo the refusal has no receiver, so it stays.
	do(t, k, wish{Item: "a", N: 1})
	do(t, k, wish{Item: "a", N: 1})
	want := []entitytest.Send{{To: "Shelf/a", Command: "Take", State: "refused", Error: "failed_precondition: only 0 are left"}}
	if s := k.Entity(purchases, "o").Sends(); !reflect.DeepEqual(s, want) {
		t.Errorf("not done: %+v, want %+v", s, want)
	}
	k.Entity(racks, "a").WantEvents(taken{2}, taken{1})
}

func TestSendsAgain(t *testing.T) {
	k := entitytest.New(t, racks, purchases)
	k.CrashAtCommit(entitytest.BeforeCommit)
	_, err := buyIt.Call(t.Context(), k, "o", wish{Item: "a", N: 1, Told: true})
	if entity.OutcomeOf(err) != entity.Unknown {
		t.Errorf("the caller got %v", err)
	}
	wantLog(t, k)
	k.Entity(racks, "a").WantEvents()
	k.CrashAtCommit(entitytest.AfterCommit)
	_, _ = buyIt.Call(t.Context(), k, "o", wish{Item: "a", N: 1, Told: true})
	wantLog(t, k, "buy a", "Shelf/a Take: 2 left")
	for range 2 {
		k.DeliverAgain()
		k.Restart()
		k.Advance(time.Hour)
		k.Entity(racks, "a").WantEvents(taken{1})
		wantLog(t, k, "buy a", "Shelf/a Take: 2 left")
	}
	if s := k.Entity(purchases, "o").Sends(); len(s) > 0 {
		t.Errorf("not done: %+v", s)
	}
}

// TestSendsFail: a target that is not there is tried until the send is too old.
func TestSendsFail(t *testing.T) {
	k := entitytest.New(t, purchases)
	do(t, k, wish{Item: "a", N: 1, Told: true})
	do(t, k, wish{Item: "b", N: 1})
	k.Advance(22 * time.Hour)
	s := k.Entity(purchases, "o").Sends()
	if len(s) != 2 || s[0].Failures < 100 || !strings.HasPrefix(s[0].Error, "unavailable: no type Shelf") {
		t.Errorf("not done: %+v", s)
	}
	k.Advance(2 * time.Hour)
	wantLog(t, k, "buy a", "buy b", "Shelf/a Take: unavailable, outcome not applied")
	if s := k.Entity(purchases, "o").Sends(); len(s) != 1 || s[0].State != "refused" {
		t.Errorf("not done: %+v", s)
	}
}

// TestSendsLate: the target comes with a later version of the program.
func TestSendsLate(t *testing.T) {
	k := entitytest.New(t, purchases)
	do(t, k, wish{Item: "a", N: 1, Told: true})
	k.Advance(time.Minute)
	k.Restart(racks)
	k.Advance(time.Minute)
	wantLog(t, k, "buy a", "Shelf/a Take: 2 left")
}

func TestSendsAreRefused(t *testing.T) {
	k := entitytest.New(t, racks, purchases)
	_, err := buyIt.Call(t.Context(), k, "o", wish{Item: "a", N: 1, Times: 1001})
	if entity.CodeOf(err) != entity.FailedPrecondition || entity.OutcomeOf(err) != entity.NotApplied || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("1001 sends: %v", err)
	}
	wantLog(t, k)
	do(t, k, wish{Item: "a", N: 9, Times: 1000})
	if s := k.Entity(purchases, "o").Sends(); len(s) != 1000 {
		t.Errorf("%d are refused", len(s))
	}
	if _, err := buyIt.Call(t.Context(), k, "p", wish{Item: "\x01", N: 1}); err == nil {
		t.Error("a target with a bad id is accepted")
	}
	if _, err := sendToRead.Call(t.Context(), k, "p", "a"); err == nil || !strings.Contains(err.Error(), "only reads") {
		t.Errorf("a read-only target: %v", err)
	}
	// Only a target can answer.
	if _, err := gotIt.Call(t.Context(), k, "o", entity.Answer[given]{}); entity.CodeOf(err) != entity.InvalidArgument {
		t.Errorf("an answer from a caller: %v", err)
	}
	_, err = entity.New("Order", func(string) *purchase { return &purchase{} },
		entity.On(entity.Command[entity.Answer[given], struct{}]("Order", "Bought", entity.ReadOnly()), (*purchase).Bought))
	if err == nil || !strings.Contains(err.Error(), "cannot be read-only") {
		t.Errorf("a read-only command that takes answers: %v", err)
	}
}

// TestPendingSends: an entity has a bounded number of pending sends.
func TestPendingSends(t *testing.T) {
	k := entitytest.New(t, purchases)
	for n := range 10 {
		do(t, k, wish{Item: fmt.Sprint(n), N: 1, Times: 1000})
	}
	_, err := buyIt.Call(t.Context(), k, "o", wish{Item: "a", N: 1})
	if entity.CodeOf(err) != entity.ResourceExhausted || entity.OutcomeOf(err) != entity.NotApplied {
		t.Errorf("with 10,000 pending: %v", err)
	}
	if len(k.Entity(purchases, "o").Events()) != 10 {
		t.Error("the refused turn has left an event")
	}
	k.Advance(25 * time.Hour) // they are dead letters by now
	do(t, k, wish{Item: "a", N: 1})
}

// TestAnswerToAnotherLife: the answer to what a deleted entity has sent is nothing to the life
// that comes after it, and the send has ended.
func TestAnswerToAnotherLife(t *testing.T) {
	k := entitytest.New(t, racks, purchases)
	if _, err := leaveIt.Call(t.Context(), k, "o", wish{Item: "a", N: 2}); err != nil {
		t.Fatal(err)
	}
	do(t, k, wish{Item: "b", N: 1})
	k.Advance(time.Minute)
	wantLog(t, k, "buy b")
	k.Entity(racks, "a").WantEvents(taken{2})
	if s := k.Entity(purchases, "o").Sends(); len(s) > 0 {
		t.Errorf("not done: %+v", s)
	}
}

// errand sends a letter with options of its own.
type errand struct{ Told []string }

func (e *errand) Go(ctx *entity.Ctx, id string) (struct{}, error) {
	letterBox.Send(ctx, id, id, entity.ReplyTo(errandEnd))
	return struct{}{}, nil
}

func (e *errand) End(ctx *entity.Ctx, a entity.Answer[struct{}]) (struct{}, error) {
	ctx.Persist(noted{a.Err.Error()})
	return struct{}{}, nil
}

var (
	letterBox = entity.Command[string, struct{}]("Mail", "Post", entity.Stored(), entity.Retry(10*time.Minute, 10*time.Minute), entity.MaxAge(time.Hour))
	errandGo  = entity.Command[string, struct{}]("Errand", "Go")
	errandEnd = entity.Command[entity.Answer[struct{}], struct{}]("Errand", "End")
	errands   = entity.Define("Errand", func(string) *errand { return &errand{} }, entity.On(errandGo, (*errand).Go), entity.On(errandEnd, (*errand).End),
		entity.Event("noted", func(e *errand, ev noted) { e.Told = append(e.Told, ev.Line) }),
	)
)

// TestSendOptions: a send has the pauses and the age of its command, also after a restart.
func TestSendOptions(t *testing.T) {
	k := entitytest.New(t, errands)
	if _, err := errandGo.Call(t.Context(), k, "e", "x"); err != nil {
		t.Fatal(err)
	}
	k.Advance(59 * time.Minute)
	if s := k.Entity(errands, "e").Sends(); len(s) != 1 || s[0].Failures < 6 || s[0].Failures > 12 {
		t.Errorf("after 59 minutes: %+v, want 6 to 12 failures", s)
	}
	k.Restart()
	k.Advance(61 * time.Second)
	k.Entity(errands, "e").WantEvents(noted{"unavailable: it has not succeeded in 1h0m0s; the last attempt failed with: no type Mail in this kit (it may have been applied)"})
	if s := k.Entity(errands, "e").Sends(); len(s) > 0 {
		t.Errorf("not done: %+v", s)
	}
}
