package entitytest_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// A cart reserves items of a stock, at the price that it reads.

type (
	stock struct{ Left, Price int64 }
	cart  struct {
		Items map[string]int64 // what was paid
		Fails bool
	}
	stocked  struct{ N, Price int64 }
	reserved struct{ For string }
	bought   struct {
		Item string
		Paid int64
	}
	setFailing struct{ Fails bool }
	offer      struct {
		Price int64 `json:"price"`
		Left  int64 `json:"left"`
	}
	order struct {
		Item string `json:"item"`
		How  string `json:"how"`
	}
)

func (s *stock) Add(ctx *entity.Ctx, in stocked) (offer, error) {
	ctx.Persist(in)
	return offer{}, nil
}

func (s *stock) Look(*entity.Ctx, struct{}) (offer, error) { return offer{s.Price, s.Left}, nil }

func (s *stock) Reserve(ctx *entity.Ctx, by string) (offer, error) {
	if s.Left == 0 {
		return offer{}, entity.Errorf(entity.OutOfRange, "sold out")
	}
	if strings.HasPrefix(by, "back:") { // asks who asks it
		if _, err := spent.Ask(ctx, strings.TrimPrefix(by, "back:"), struct{}{}); err != nil {
			return offer{}, err
		}
	}
	ctx.Persist(reserved{by})
	return offer{s.Price, s.Left}, nil
}

func (c *cart) Paid(*entity.Ctx, struct{}) (int64, error) {
	var sum int64
	for _, p := range c.Items { // order-free: a sum
		sum += p
	}
	return sum, nil
}

func (c *cart) SetFailing(ctx *entity.Ctx, fails bool) (bool, error) {
	ctx.Persist(setFailing{fails})
	return fails, nil
}

var kept *entity.Ctx

func (c *cart) Buy(ctx *entity.Ctx, in order) (offer, error) {
	kept = ctx
	by := ctx.ID()
	switch in.How {
	case "by state": // an input that does not depend only on the command
		by += strings.Repeat("!", len(c.Items))
		if c.Fails {
			by += "failing"
		}
	case "cycle":
		by = "back:" + by
	case "later":
		buy.After(ctx, time.Second, "buy", order{Item: in.Item})
		return offer{}, nil
	case "remind":
		buy.Remind(ctx, ctx.Now().Add(time.Second), "buy", order{Item: in.Item})
		return offer{}, nil
	case "at once":
		errs := make(chan error)
		go func() {
			_, err := look.Ask(ctx, in.Item, struct{}{})
			errs <- err
		}()
		_, err := look.Ask(ctx, in.Item, struct{}{})
		if other := <-errs; err != nil || other != nil {
			return offer{}, errors.Join(err, other)
		}
		return offer{}, nil
	}
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	switch in.How {
	case "out of time":
		own, cancel = context.WithTimeout(ctx, -time.Second)
		defer cancel()
	case "not any more":
		cancel()
	}
	seen, err := look.Ask(ctx, in.Item, struct{}{})
	if err != nil {
		return offer{}, err
	}
	if own.Err() != nil {
		if _, err := reserve.Ask(ctx, in.Item, by, entity.Until(own)); entity.OutcomeOf(err) != entity.NotApplied || !strings.Contains(err.Error(), "not sent") {
			return offer{}, fmt.Errorf("before the barrier: %w", err)
		}
		if _, err := reserve.Ask(ctx, in.Item, by); err != nil {
			return offer{}, err
		}
		return reserve.Ask(ctx, in.Item, by, entity.Until(own))
	}
	var opts []entity.AskOption
	if in.How == "step" {
		opts = append(opts, entity.StepKey("reserve"))
	}
	got, err := reserve.Ask(ctx, in.Item, by, opts...)
	if err != nil {
		return offer{}, err
	}
	if in.How == "twice" {
		if got, err = reserve.Ask(ctx, in.Item, by); err != nil {
			return offer{}, err
		}
	}
	if c.Fails {
		return offer{}, errors.New("something broke")
	}
	ctx.Persist(bought{in.Item, seen.Price})
	return got, nil
}

var (
	addStock = entity.Command[stocked, offer]("Stock", "Add")
	look     = entity.Command[struct{}, offer]("Stock", "Look", entity.ReadOnly())
	reserve  = entity.Command[string, offer]("Stock", "Reserve")
	buy      = entity.Command[order, offer]("Cart", "Buy", entity.Stored())
	spent    = entity.Command[struct{}, int64]("Cart", "Paid", entity.ReadOnly())
	failing  = entity.Command[bool, bool]("Cart", "SetFailing")
)

var (
	stocks = entity.Define("Stock", func(string) *stock { return &stock{} },
		entity.On(addStock, (*stock).Add), entity.On(look, (*stock).Look), entity.On(reserve, (*stock).Reserve),
		entity.Event("stocked", func(s *stock, e stocked) { s.Left, s.Price = s.Left+e.N, e.Price }),
		entity.Event("reserved", func(s *stock, _ reserved) { s.Left-- }),
	)
	carts = entity.Define("Cart", func(string) *cart { return &cart{} },
		entity.On(buy, (*cart).Buy), entity.On(spent, (*cart).Paid), entity.On(failing, (*cart).SetFailing),
		entity.Event("bought", func(c *cart, e bought) {
			if c.Items == nil {
				c.Items = map[string]int64{}
			}
			c.Items[e.Item] += e.Paid
		}),
		entity.Event("setFailing", func(c *cart, e setFailing) { c.Fails = e.Fails }),
	)
)

// shop returns a kit with five hammers for 10 each.
func shop(t *testing.T) *entitytest.Kit {
	k := entitytest.New(t, stocks, carts)
	k.Entity(stocks, "hammer").Given(stocked{5, 10})
	return k
}

func left(t *testing.T, k *entitytest.Kit) int64 {
	t.Helper()
	o, err := look.Call(t.Context(), k, "hammer", struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	return o.Left
}

func wantError(t *testing.T, err error, code entity.Code, outcome entity.Outcome, text string) {
	t.Helper()
	if entity.CodeOf(err) != code || entity.OutcomeOf(err) != outcome || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v (%v), want %s with the outcome %v and %q", err, entity.OutcomeOf(err), code, outcome, text)
	}
}

func TestAsks(t *testing.T) {
	k := shop(t)
	for range 2 { // the second one gets the stored reply
		got, err := buy.Call(t.Context(), k, "dora", order{Item: "hammer"}, entity.Key("k1"))
		if err != nil || got.Left != 4 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	k.Entity(carts, "dora").WantEvents(bought{"hammer", 10})
	k.Entity(stocks, "hammer").WantEvents(stocked{5, 10}, reserved{"dora"})
	if _, err := buy.Call(t.Context(), k, "dora", order{Item: "hammer", How: "twice"}, entity.Key("k2")); err != nil || left(t, k) != 2 {
		t.Errorf("two asks of a turn: %v, %d are left, want 2", err, left(t, k))
	}
	_, err := look.Ask(kept, "hammer", struct{}{})
	wantError(t, err, entity.FailedPrecondition, entity.NotApplied, "the handler has returned")
}

// TestAsksAndCrashes: wherever the region dies, the repeated command finishes what it began,
// and each ask takes effect once.
func TestAsksAndCrashes(t *testing.T) {
	for what, of := range map[string]func(*entitytest.Kit) entitytest.Entity{
		"of the asked entity": func(k *entitytest.Kit) entitytest.Entity { return k.Entity(stocks, "hammer") },
		"of the asking one":   func(k *entitytest.Kit) entitytest.Entity { return k.Entity(carts, "dora") },
	} {
		for _, when := range []entitytest.Crash{entitytest.BeforeCommit, entitytest.AfterCommit} {
			k := shop(t)
			of(k).CrashAtCommit(when)
			in := order{Item: "hammer", How: "twice"}
			_, err := buy.Call(t.Context(), k, "dora", in, entity.Key("k1"))
			if entity.OutcomeOf(err) != entity.Unknown {
				t.Errorf("%s, %d: %v", what, when, err)
			}
			got, err := buy.Call(t.Context(), k, "dora", in, entity.Key("k1"))
			if err != nil || got.Left != 3 || left(t, k) != 3 {
				t.Errorf("%s, %d: %+v, %v, %d are left", what, when, got, err, left(t, k))
			}
			k.Entity(carts, "dora").WantEvents(bought{"hammer", 10})
		}
	}
}

func TestAskFails(t *testing.T) {
	ctx := t.Context()
	k := shop(t)
	k.Entity(stocks, "saw").Given()
	_, err := buy.Call(ctx, k, "dora", order{Item: "saw"}, entity.Key("k0"))
	wantError(t, err, entity.OutOfRange, entity.Executed, "sold out") // as if the cart had said so
	_, err = buy.Call(ctx, k, "dora", order{Item: "hammer"}, entity.NoKey())
	wantError(t, err, entity.FailedPrecondition, entity.NotApplied, "no idempotency key")
	if n := strings.Count(err.Error(), "not sent:"); n != 1 || !strings.Contains(err.Error(), "the header Idempotency-Key") {
		t.Errorf("the kit says %d times why: %v", n, err)
	}
	_, err = buy.Call(ctx, k, "dora", order{Item: "hammer", How: "cycle"}, entity.Key("k2"))
	wantError(t, err, entity.FailedPrecondition, entity.Executed, "call cycle Cart/dora → Stock/hammer → Cart/dora")
	if n := left(t, k); n != 5 {
		t.Errorf("%d are left, want 5", n)
	}
}

// TestAskIsWithdrawn: a handler that does not want to wait learns, like in a region, whether
// its ask has left.
func TestAskIsWithdrawn(t *testing.T) {
	for _, c := range []struct {
		how  string
		code entity.Code
		left int64
	}{
		{"out of time", entity.DeadlineExceeded, 4}, // the asked entity does not begin what is out of time
		{"not any more", entity.Aborted, 3},
	} {
		k := shop(t)
		_, err := buy.Call(t.Context(), k, "dora", order{Item: "hammer", How: c.how}, entity.Key("k1"))
		wantError(t, err, c.code, entity.Unknown, "its turn had sent commands to other entities")
		if n := left(t, k); n != c.left {
			t.Errorf("%s: %d are left, want %d", c.how, n, c.left)
		}
	}
}

// TestAskAndFailure: a handler that fails after it has changed another entity is not undone.
// The repeat finds its result.
func TestAskAndFailure(t *testing.T) {
	ctx := t.Context()
	k := shop(t)
	if _, err := failing.Call(ctx, k, "dora", true); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"", "step"} {
		_, err := buy.Call(ctx, k, "dora", order{Item: "hammer", How: how}, entity.Key("k"+how))
		wantError(t, err, entity.Internal, entity.Unknown, "its turn had sent commands to other entities")
	}
	if n := left(t, k); n != 3 {
		t.Errorf("%d are left, want 3", n)
	}
	_, err := buy.Call(ctx, k, "dora", order{Item: "hammer", How: "by state"}, entity.Key("s"))
	wantError(t, err, entity.Internal, entity.Unknown, "something broke")
	if _, err := failing.Call(ctx, k, "dora", false); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"", "step"} {
		if _, err := buy.Call(ctx, k, "dora", order{Item: "hammer", How: how}, entity.Key("k"+how)); err != nil {
			t.Error(err)
		}
	}
	_, err = buy.Call(ctx, k, "dora", order{Item: "hammer", How: "by state"}, entity.Key("s"))
	wantError(t, err, entity.Aborted, entity.Unknown, "sent other input")
	if n := left(t, k); n != 2 {
		t.Errorf("%d are left, want 2", n)
	}
	k.Entity(carts, "dora").WantEvents(setFailing{true}, setFailing{false}, bought{"hammer", 10}, bought{"hammer", 10})
}

// TestAsksOfTimers: a reminder asks, and asks again for the same when the region dies; the
// timer of an incarnation may not change others.
func TestAsksOfTimers(t *testing.T) {
	ctx := t.Context()
	k := shop(t)
	if _, err := buy.Call(ctx, k, "dora", order{Item: "hammer", How: "later"}); err != nil {
		t.Fatal(err)
	}
	k.Advance(time.Minute)
	if n := left(t, k); n != 5 {
		t.Errorf("%d are left after a timer, want 5", n)
	}
	if _, err := buy.Call(ctx, k, "dora", order{Item: "hammer", How: "remind"}); err != nil {
		t.Fatal(err)
	}
	k.Entity(carts, "dora").CrashAtCommit(entitytest.BeforeCommit)
	k.Advance(time.Minute)
	k.FireAgain()
	if n := left(t, k); n != 4 {
		t.Errorf("%d are left after a reminder, want 4", n)
	}
	k.Entity(carts, "dora").WantEvents(bought{"hammer", 10})
}

// TestOneAskAtATime: goroutines of a handler do not ask at the same time.
func TestOneAskAtATime(t *testing.T) {
	k := shop(t)
	for range 20 {
		_, err := buy.Call(t.Context(), k, "dora", order{Item: "hammer", How: "at once"})
		if err != nil && !strings.Contains(err.Error(), "one at a time") {
			t.Error(err)
		}
	}
}

// link is an entity of a chain: it asks the next one.
type link struct{}

func (l *link) Next(ctx *entity.Ctx, _ struct{}) (int, error) {
	n, _ := strconv.Atoi(ctx.ID())
	return nextLink.Ask(ctx, strconv.Itoa(n+1), struct{}{})
}

var nextLink = entity.Command[struct{}, int]("Link", "Next", entity.ReadOnly())

// TestChainSaysItOnce: the caller of a chain that is too deep gets the reason, and not a message of
// each of its entities.
func TestChainSaysItOnce(t *testing.T) {
	k := entitytest.New(t, entity.Define("Link", func(string) *link { return &link{} }, entity.On(nextLink, (*link).Next), entity.With[link](entity.Volatile())))
	_, err := nextLink.Call(t.Context(), k, "0", struct{}{})
	const want = "failed_precondition: Next failed and was undone: not sent: more than 16 entities would wait for one another: Link/0 → Link/1"
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Count(err.Error(), "undone") != 1 {
		t.Error(err)
	}
}
