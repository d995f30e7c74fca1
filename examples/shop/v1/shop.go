// Package shop is version 1 of a small shop: carts, and the stock of the items on sale. Package
// examples/shop/v2 is its next version.
//
// A region hosts [Carts] and [Stocks]. Callers import this package for its handles:
//
//	_, err := shop.Receive.Ask(ctx, client, "tea", shop.Quantity{Count: 100})
//	_, err = shop.Take.Ask(ctx, client, "tea", shop.Quantity{Count: 2})
//	cart, err := shop.Add.Ask(ctx, client, "anna", shop.AddItem{SKU: "tea", Count: 2, Price: 450})
//
// Every reply depends only on the commands before it, not on a clock or chance, so that
// a test can predict it.
//
// # What this does not do
//
// A cart and a stock know nothing of each other: a caller takes from the stock, and then
// adds to the cart.
package shop

import "github.com/roost-cluster/roost/sdk/entity"

// snapshotEvery is after how many events the state of an entity is stored. It is small, so
// that a test of a few commands meets snapshots too.
const snapshotEvery = 10

// Nothing is the input of commands that need none.
type Nothing struct{}

// Commands of a cart, whose id is the customer's.
var (
	Add    = entity.Command[AddItem, Contents]("Cart", "Add")
	Remove = entity.Command[RemoveItem, Contents]("Cart", "Remove")
	Show   = entity.Command[Nothing, Contents]("Cart", "Show", entity.ReadOnly())
)

// Commands of a stock, whose id is the SKU of the item in stock.
var (
	Receive = entity.Command[Quantity, Level]("Stock", "Receive")
	Take    = entity.Command[Quantity, Level]("Stock", "Take")
	InStock = entity.Command[Nothing, Level]("Stock", "InStock", entity.ReadOnly())
)

// Entity types, for the main of a region.
var (
	Carts = entity.Define("Cart", func(string) *Cart { return &Cart{} },
		entity.On(Add, (*Cart).Add),
		entity.On(Remove, (*Cart).Remove),
		entity.On(Show, (*Cart).Show),
		entity.Event("item-added", (*Cart).itemAdded),
		entity.Event("item-removed", func(c *Cart, e ItemRemoved) { delete(c.Lines, e.SKU) }),
		entity.With[Cart](entity.SnapshotEvery(snapshotEvery)),
	)

	Stocks = entity.Define("Stock", func(string) *Stock { return &Stock{} },
		entity.On(Receive, (*Stock).Receive),
		entity.On(Take, (*Stock).Take),
		entity.On(InStock, (*Stock).InStock),
		entity.Event("received", func(s *Stock, e Received) { s.Count += e.Count }),
		entity.Event("taken", func(s *Stock, e Taken) { s.Count -= e.Count }),
		entity.With[Stock](entity.SnapshotEvery(snapshotEvery)),
	)
)

// AddItem is the input of Add.
type AddItem struct {
	SKU   string `json:"sku"`
	Count int64  `json:"count"`
	// Price of one, in cents.
	Price int64 `json:"price"`
}

// RemoveItem is the input of Remove.
type RemoveItem struct {
	SKU string `json:"sku"`
}

// Contents is the content of a cart.
type Contents struct {
	Items map[string]int64 `json:"items"` // how many, by SKU
	// Total is the price of all items, in cents.
	Total int64 `json:"total"`
}

// Line is one kind of item in a cart.
type Line struct {
	Count int64
	// Price of one, in cents, from the last Add.
	Price int64
}

// Cart holds the items that a customer wants to buy.
type Cart struct{ Lines map[string]Line }

// ItemAdded is the event of an Add.
type ItemAdded struct {
	SKU   string
	Count int64
	Price int64
}

// ItemRemoved is the event of a Remove.
type ItemRemoved struct{ SKU string }

func (c *Cart) itemAdded(e ItemAdded) {
	if c.Lines == nil {
		c.Lines = map[string]Line{}
	}
	c.Lines[e.SKU] = Line{Count: c.Lines[e.SKU].Count + e.Count, Price: e.Price}
}

// Add puts items into the cart. All items of a kind have the price of the last Add.
func (c *Cart) Add(ctx *entity.Ctx, in AddItem) (Contents, error) {
	if in.SKU == "" || in.Count < 1 || in.Price < 0 {
		return Contents{}, entity.Errorf(entity.InvalidArgument, "name a sku, a count above 0, and a price that is not below 0")
	}
	ctx.Persist(ItemAdded(in))
	return c.contents(), nil
}

// Remove takes all items of a kind out of the cart.
func (c *Cart) Remove(ctx *entity.Ctx, in RemoveItem) (Contents, error) {
	if _, ok := c.Lines[in.SKU]; !ok {
		return Contents{}, entity.Errorf(entity.NotFound, "there is no %q in the cart", in.SKU)
	}
	ctx.Persist(ItemRemoved(in))
	return c.contents(), nil
}

// Show returns what the cart has in it.
func (c *Cart) Show(*entity.Ctx, Nothing) (Contents, error) { return c.contents(), nil }

func (c *Cart) contents() Contents {
	all := Contents{Items: map[string]int64{}}
	for sku, line := range c.Lines {
		all.Items[sku] = line.Count
		all.Total += line.Count * line.Price
	}
	return all
}

// Quantity is the input of Receive and Take.
type Quantity struct {
	Count int64 `json:"count"`
}

// Level is the number of items in stock.
type Level struct {
	Count int64 `json:"count"`
}

// Stock is the number of items of a kind.
type Stock struct{ Count int64 }

// Received is the event of a Receive.
type Received struct{ Count int64 }

// Taken is the event of a Take.
type Taken struct{ Count int64 }

// Receive adds to the stock.
func (s *Stock) Receive(ctx *entity.Ctx, in Quantity) (Level, error) {
	if in.Count < 1 {
		return Level{}, entity.Errorf(entity.InvalidArgument, "the count must be above 0")
	}
	ctx.Persist(Received(in))
	return Level(*s), nil
}

// Take takes from the stock. More than there is is refused.
func (s *Stock) Take(ctx *entity.Ctx, in Quantity) (Level, error) {
	if in.Count < 1 {
		return Level{}, entity.Errorf(entity.InvalidArgument, "the count must be above 0")
	}
	if in.Count > s.Count {
		return Level{}, entity.Errorf(entity.FailedPrecondition, "%d are wanted, and %d are in stock", in.Count, s.Count)
	}
	ctx.Persist(Taken(in))
	return Level(*s), nil
}

// InStock returns how many there are.
func (s *Stock) InStock(*entity.Ctx, Nothing) (Level, error) { return Level(*s), nil }
