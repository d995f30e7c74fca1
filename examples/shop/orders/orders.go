// Package orders has the orders of a shop. The id of an order begins with the id of its customer, such
// as customer-17/order-5, and the shard rule of the type keeps all orders of a customer in one shard. So
// they are always in the same region, and one of them asks another without a message over the network:
// [PlaceAgain] asks an earlier order of the same customer what it had.
//
// A region hosts [Orders]. Callers import this package for its handles:
//
//	order, err := orders.Place.Ask(ctx, client, "customer-17/order-5", orders.Contents{"tea": 2})
//	order, err = orders.PlaceAgain.Ask(ctx, client, "customer-17/order-6", orders.Earlier{Order: "order-5"})
//
// # What this does not do
//
// It takes nothing from a stock, and has no prices: see package examples/shop/v2.
package orders

import (
	"strings"

	"github.com/roost-cluster/roost/sdk/entity"
)

// separator divides an id into the customer and the order. No id of a customer has one.
const separator = "/"

// Commands of an order, whose id is the customer's, the separator, and the name of the order.
var (
	Place      = entity.Command[Contents, Contents]("Order", "Place")
	PlaceAgain = entity.Command[Earlier, Contents]("Order", "PlaceAgain")
	Show       = entity.Command[struct{}, Contents]("Order", "Show", entity.ReadOnly())
)

// Orders is the entity type, for the main of a region.
var Orders = entity.Define("Order", func(id string) *Order { return &Order{id: id} },
	entity.On(Place, (*Order).Place),
	entity.On(PlaceAgain, (*Order).PlaceAgain),
	entity.On(Show, (*Order).Show),
	entity.Event("placed", func(o *Order, e Placed) { o.Items = e.Items }),
	entity.With[Order](entity.ShardBy(entity.Prefix(separator))),
)

// Contents is the ordered number of each item.
type Contents map[string]int64

// Earlier names another order of the same customer, without the customer.
type Earlier struct {
	Order string `json:"order"`
}

// Order is an order of a customer.
type Order struct {
	id    string
	Items Contents
}

// Placed is the event of a Place or a PlaceAgain.
type Placed struct{ Items Contents }

// Place orders items. An order is placed once.
func (o *Order) Place(ctx *entity.Ctx, items Contents) (Contents, error) {
	switch customer, order, _ := strings.Cut(o.id, separator); {
	case customer == "" || order == "":
		return nil, entity.Errorf(entity.InvalidArgument, "the id of an order consists of the customer's id, %s, and a name, for example customer-17/order-5", separator)
	case len(items) == 0:
		return nil, entity.Errorf(entity.InvalidArgument, "order something")
	case len(o.Items) > 0:
		return nil, entity.Errorf(entity.AlreadyExists, "the order is placed already")
	}
	ctx.Persist(Placed{Items: items})
	return o.Items, nil
}

// PlaceAgain orders what an earlier order of the same customer had.
func (o *Order) PlaceAgain(ctx *entity.Ctx, in Earlier) (Contents, error) {
	customer, _, _ := strings.Cut(o.id, separator)
	earlier := customer + separator + in.Order
	if in.Order == "" || earlier == o.id {
		return nil, entity.Errorf(entity.InvalidArgument, "name another order of the customer")
	}
	items, err := Show.Ask(ctx, earlier, struct{}{}) // in the same shard, so in this process
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, entity.Errorf(entity.NotFound, "there is no order %s", earlier)
	}
	return o.Place(ctx, items)
}

// Show returns what is ordered, nothing if the order is not placed.
func (o *Order) Show(*entity.Ctx, struct{}) (Contents, error) { return o.Items, nil }
