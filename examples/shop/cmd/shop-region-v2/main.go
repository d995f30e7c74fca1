// Command shop-region-v2 is a region that hosts version 2 of the shop; see
// shop-region-v1.
//
// # What this does not do
//
// It says nothing of version 1: what that has stored is read by package
// examples/shop/v2.
package main

import (
	shop "github.com/roost-cluster/roost/examples/shop/v2"
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/services/region/server"
)

func main() {
	server.AppVersion = "v2"
	server.Main(shop.Carts, shop.Stocks)
}
