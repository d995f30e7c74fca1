package orders_test

import (
	"testing"

	"github.com/roost-cluster/roost/examples/shop/orders"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/sdk/entitytest"
)

// TestOrdersOfACustomerAreTogether: wherever shards go, a customer's orders go together.
func TestOrdersOfACustomerAreTogether(t *testing.T) {
	k := entitytest.New(t, orders.Orders)
	k.WantOneShard(orders.Orders, "customer-17/order-5", "customer-17/order-6", "customer-17/gift")
	if one, other := k.Entity(orders.Orders, "customer-1/order-5").ShardKey(), k.Entity(orders.Orders, "customer-17/order-5").ShardKey(); one == other {
		t.Errorf("customer-1 and customer-17 have the same shard key %q", one)
	}
}

func TestPlaceAgain(t *testing.T) {
	k := entitytest.New(t, orders.Orders)
	if _, err := orders.Place.Call(t.Context(), k, "customer-17/order-5", orders.Contents{"tea": 2}); err != nil {
		t.Fatal(err)
	}
	got, err := orders.PlaceAgain.Call(t.Context(), k, "customer-17/order-6", orders.Earlier{Order: "order-5"})
	if err != nil || got["tea"] != 2 {
		t.Errorf("PlaceAgain: %v, %v", got, err)
	}
	for id, c := range map[string]struct {
		earlier string
		want    entity.Code
	}{
		"customer-17/order-7": {"order-9", entity.NotFound},
		"customer-1/order-6":  {"order-5", entity.NotFound}, // it is of another customer
		"customer-17/order-6": {"order-5", entity.AlreadyExists},
		"customer-17/order-5": {"order-5", entity.InvalidArgument},
	} {
		if _, err := orders.PlaceAgain.Call(t.Context(), k, id, orders.Earlier{Order: c.earlier}); entity.CodeOf(err) != c.want {
			t.Errorf("PlaceAgain of %s: %v, want %s", id, err, c.want)
		}
	}
	if _, err := orders.Place.Call(t.Context(), k, "order-5", orders.Contents{"tea": 2}); entity.CodeOf(err) != entity.InvalidArgument {
		t.Errorf("an order without a customer: %v", err)
	}
	k.Entity(orders.Orders, "customer-17/order-6").WantEvents(orders.Placed{Items: orders.Contents{"tea": 2}})
}

func TestSchema(t *testing.T) { entitytest.Schema(t, orders.Orders) }
