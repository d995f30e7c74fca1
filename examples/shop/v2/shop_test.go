package shop_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	shopv1 "github.com/roost-cluster/roost/examples/shop/v1"
	shop "github.com/roost-cluster/roost/examples/shop/v2"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// TestStored reads what version 1 has stored, without version 1.
func TestStored(t *testing.T) {
	k := entitytest.New(t, shop.Carts, shop.Stocks)
	k.Entity(shop.Carts, "anna").GivenStored("item-added", 1, `{"SKU":"tea","Count":2,"Price":450}`)
	k.Entity(shop.Stocks, "tea").GivenStored("received", 1, `{"Count":5}`)
	k.Entity(shop.Stocks, "tea").GivenStored("taken", 1, `{"Count":2}`)
	if got, err := shop.Show.Call(t.Context(), k, "anna", shop.Nothing{}); err != nil || got.Items["tea"] != 2 || got.Total != 900 {
		t.Errorf("Show: %+v, %v", got, err)
	}
	if got, err := shop.InStock.Call(t.Context(), k, "tea", shop.Nothing{}); err != nil || got.Count != 3 {
		t.Errorf("InStock: %+v, %v", got, err)
	}
	k.Entity(shop.Carts, "anna").WantEvents(shop.ItemAdded{Item: "tea", Count: 2, Price: 450})
	k.Entity(shop.Stocks, "tea").WantEvents(shop.Received{Count: 5}, shop.Taken{Count: 2})
}

func TestTakeFor(t *testing.T) {
	k := entitytest.New(t, shop.Stocks)
	k.Entity(shop.Stocks, "tea").Given(shop.Received{Count: 5})
	if got, err := shop.TakeFor.Call(t.Context(), k, "tea", shop.Order{Count: 2, Cart: "anna"}); err != nil || got.Count != 3 {
		t.Errorf("TakeFor: %+v, %v", got, err)
	}
	for wrong, want := range map[shop.Order]entity.Code{
		{Count: 1}:               entity.InvalidArgument,
		{Cart: "anna"}:           entity.InvalidArgument,
		{Count: 4, Cart: "anna"}: entity.FailedPrecondition,
	} {
		if _, err := shop.TakeFor.Call(t.Context(), k, "tea", wrong); entity.CodeOf(err) != want {
			t.Errorf("TakeFor %+v: %v", wrong, err)
		}
	}
	k.Entity(shop.Stocks, "tea").WantEvents(shop.Received{Count: 5}, shop.Taken{Count: 2, Cart: "anna"})
}

// TestStockGoesBack rolls out, goes back and rolls out again: a stock is readable by both
// versions all the time, whichever of them has written to it.
func TestStockGoesBack(t *testing.T) {
	k := entitytest.New(t, shopv1.Stocks)
	want := int64(1000)
	if _, err := shopv1.Receive.Call(t.Context(), k, "tea", shopv1.Quantity{Count: want}); err != nil {
		t.Fatal(err)
	}
	take := func() {
		t.Helper()
		for range 25 { // more than there are between two snapshots
			want -= 3
			if got, err := shopv1.Take.Call(t.Context(), k, "tea", shopv1.Quantity{Count: 3}); err != nil || got.Count != want {
				t.Fatalf("Take: %+v, %v; want %d", got, err, want)
			}
		}
	}
	take()
	for range 2 {
		k.Restart(shop.Stocks)
		take()
		want -= 2
		if got, err := shop.TakeFor.Call(t.Context(), k, "tea", shop.Order{Count: 2, Cart: "anna"}); err != nil || got.Count != want {
			t.Fatalf("TakeFor: %+v, %v; want %d", got, err, want)
		}
		k.Restart(shopv1.Stocks)
		if _, err := shop.TakeFor.Call(t.Context(), k, "tea", shop.Order{Count: 2, Cart: "anna"}); entity.CodeOf(err) != entity.Unimplemented {
			t.Errorf("version 1 answers TakeFor with %v", err)
		}
		take()
	}
}

// TestCartsThatCannotGoBack: version 1 reads a cart as long as version 2 has not added to
// it, and refuses it afterwards, until version 2 is back. Nothing is lost by that.
func TestCartsThatCannotGoBack(t *testing.T) {
	k := entitytest.New(t, shopv1.Carts)
	show := func(id string, total int64, code entity.Code) {
		t.Helper()
		got, err := shopv1.Show.Call(t.Context(), k, id, shopv1.Nothing{})
		if entity.CodeOf(err) != code || err == nil && got.Total != total {
			t.Errorf("%s: %+v, %v; want %d, %q", id, got, err, total, code)
		}
	}
	for _, id := range []string{"anna", "ben", "chris"} {
		for range 15 { // a snapshot is taken on the way
			if _, err := shopv1.Add.Call(t.Context(), k, id, shopv1.AddItem{SKU: "tea", Count: 1, Price: 10}); err != nil {
				t.Fatal(err)
			}
		}
	}

	k.Restart(shop.Carts)
	if _, err := shop.Add.Call(t.Context(), k, "anna", shop.AddItem{SKU: "cup", Count: 1, Price: 100}); err != nil {
		t.Fatal(err)
	}
	if _, err := shop.Remove.Call(t.Context(), k, "ben", shop.RemoveItem{SKU: "tea"}); err != nil {
		t.Fatal(err)
	}
	for id, total := range map[string]int64{"anna": 250, "ben": 0, "chris": 150} {
		show(id, total, "")
	}

	k.Restart(shopv1.Carts)
	show("anna", 0, entity.DataLoss)
	show("ben", 0, "") // version 1 knows item-removed
	show("chris", 150, "")

	k.Restart(shop.Carts)
	for id, total := range map[string]int64{"anna": 250, "ben": 0, "chris": 150} {
		show(id, total, "")
	}
}

// TestModel sends random commands of version 1, restarts with either version in between,
// and compares every reply with a model. Carts go to version 2 once, stocks back and forth.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	k := entitytest.New(t, shopv1.Carts, shopv1.Stocks)
	carts, prices, stocks := map[string]map[string]int64{}, map[string]int64{}, map[string]int64{}
	newCarts := false
	for range 1000 {
		cart, sku, count := fmt.Sprint("customer ", r.IntN(3)), fmt.Sprint("item ", r.IntN(3)), 1+r.Int64N(5)
		if carts[cart] == nil {
			carts[cart] = map[string]int64{}
		}
		switch r.IntN(10) {
		case 0:
			if r.IntN(2) == 0 {
				k.Restart(shopv1.Stocks)
			} else {
				k.Restart(shop.Stocks)
			}
			if newCarts = newCarts || r.IntN(4) == 0; newCarts {
				k.Restart(shop.Carts)
			}
		case 1:
			delete(carts[cart], sku)
			_, _ = shopv1.Remove.Call(t.Context(), k, cart, shopv1.RemoveItem{SKU: sku})
		case 2, 3, 4:
			price := r.Int64N(100)
			carts[cart][sku] += count
			prices[cart+sku] = price
			if _, err := shopv1.Add.Call(t.Context(), k, cart, shopv1.AddItem{SKU: sku, Count: count, Price: price}); err != nil {
				t.Fatal(err)
			}
		case 5, 6:
			stocks[sku] += count
			if got, err := shopv1.Receive.Call(t.Context(), k, sku, shopv1.Quantity{Count: count}); err != nil || got.Count != stocks[sku] {
				t.Fatalf("Receive: %+v, %v; want %d", got, err, stocks[sku])
			}
		default:
			var want entity.Code
			if count > stocks[sku] {
				want = entity.FailedPrecondition
			} else {
				stocks[sku] -= count
			}
			got, err := shopv1.Take.Call(t.Context(), k, sku, shopv1.Quantity{Count: count})
			if entity.CodeOf(err) != want || err == nil && got.Count != stocks[sku] {
				t.Fatalf("Take: %+v, %v; want %d, %q", got, err, stocks[sku], want)
			}
		}
		total := int64(0)
		for sku, count := range carts[cart] {
			total += count * prices[cart+sku]
		}
		got, err := shopv1.Show.Call(t.Context(), k, cart, shopv1.Nothing{})
		if err != nil || !maps.Equal(got.Items, carts[cart]) || got.Total != total {
			t.Fatalf("Show: %+v, %v; want %v, %d", got, err, carts[cart], total)
		}
	}
}

// TestSchema: stored data stays readable, by the versions before this one too.
func TestSchema(t *testing.T) { entitytest.Schema(t, shop.Carts, shop.Stocks) }
