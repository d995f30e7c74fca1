// Command renamed-region is a region of the shop (examples/shop) whose author has renamed a
// field of a stored event and has forgotten the step from version 1. Another event has a field
// more without a new version. Tests ask what it can read before they run it.
//
// # What this does not do
//
// It is not meant to serve anybody.
package main

import (
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/sdk/entity"
	"github.com/roost-cluster/roost/services/region/server"
)

type cart struct{ Lines map[string]int64 }

// itemAdded had SKU instead of Item.
type itemAdded struct {
	Item         string
	Count, Price int64
}

// itemRemoved had no Why. What was stored can be decoded, and has another form.
type itemRemoved struct {
	SKU string
	Why string `json:",omitempty"`
}

func (c *cart) show(*entity.Ctx, struct{}) (map[string]int64, error) { return c.Lines, nil }

func main() {
	show := entity.Command[struct{}, map[string]int64]("Cart", "Show", entity.ReadOnly())
	server.Main(entity.Define("Cart", func(string) *cart { return &cart{} }, entity.On(show, (*cart).show),
		entity.Event("item-added", func(c *cart, e itemAdded) {
			if c.Lines == nil {
				c.Lines = map[string]int64{}
			}
			c.Lines[e.Item] += e.Count
		}),
		entity.Event("item-removed", func(*cart, itemRemoved) {}),
		entity.With[cart](entity.SnapshotEvery(10)),
	))
}
