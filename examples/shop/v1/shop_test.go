package shop_test

import (
	"maps"
	"testing"

	shop "github.com/roost-cluster/roost/examples/shop/v1"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

func TestCart(t *testing.T) {
	k := entitytest.New(t, shop.Carts)
	for _, in := range []shop.AddItem{{SKU: "tea", Count: 2, Price: 450}, {SKU: "cup", Count: 1, Price: 1200}, {SKU: "tea", Count: 1, Price: 400}} {
		if _, err := shop.Add.Call(t.Context(), k, "anna", in); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := shop.Remove.Call(t.Context(), k, "anna", shop.RemoveItem{SKU: "cup"}); err != nil {
		t.Fatal(err)
	}
	got, err := shop.Show.Call(t.Context(), k, "anna", shop.Nothing{})
	if err != nil || !maps.Equal(got.Items, map[string]int64{"tea": 3}) || got.Total != 3*400 {
		t.Errorf("Show: %+v, %v", got, err)
	}
	if _, err := shop.Add.Call(t.Context(), k, "anna", shop.AddItem{SKU: "tea"}); entity.CodeOf(err) != entity.InvalidArgument {
		t.Errorf("an Add of nothing: %v", err)
	}
	if _, err := shop.Remove.Call(t.Context(), k, "anna", shop.RemoveItem{SKU: "cup"}); entity.CodeOf(err) != entity.NotFound {
		t.Errorf("a Remove of an item that is not in the cart: %v", err)
	}
	k.Entity(shop.Carts, "anna").WantEvents(shop.ItemAdded{SKU: "tea", Count: 2, Price: 450}, shop.ItemAdded{SKU: "cup", Count: 1, Price: 1200}, shop.ItemAdded{SKU: "tea", Count: 1, Price: 400}, shop.ItemRemoved{SKU: "cup"})
}

func TestStock(t *testing.T) {
	k := entitytest.New(t, shop.Stocks)
	if got, err := shop.Receive.Call(t.Context(), k, "tea", shop.Quantity{Count: 5}); err != nil || got.Count != 5 {
		t.Errorf("Receive: %+v, %v", got, err)
	}
	for range 2 { // the second one is a repeat, and takes nothing
		if got, err := shop.Take.Call(t.Context(), k, "tea", shop.Quantity{Count: 4}, entity.Key("order 1")); err != nil || got.Count != 1 {
			t.Errorf("Take: %+v, %v", got, err)
		}
	}
	if _, err := shop.Take.Call(t.Context(), k, "tea", shop.Quantity{Count: 2}); entity.CodeOf(err) != entity.FailedPrecondition {
		t.Errorf("a Take of more than there is: %v", err)
	}
	for _, h := range []*entity.Handle[shop.Quantity, shop.Level]{shop.Receive, shop.Take} {
		if _, err := h.Call(t.Context(), k, "tea", shop.Quantity{}); entity.CodeOf(err) != entity.InvalidArgument {
			t.Errorf("a %s of nothing: %v", h.Name(), err)
		}
	}
	k.Restart() // the stock is loaded from stored data
	if got, err := shop.InStock.Call(t.Context(), k, "tea", shop.Nothing{}); err != nil || got.Count != 1 {
		t.Errorf("InStock: %+v, %v", got, err)
	}
}

// TestSchema: stored data stays readable.
func TestSchema(t *testing.T) { entitytest.Schema(t, shop.Carts, shop.Stocks) }
