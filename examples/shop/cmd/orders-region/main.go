// Command orders-region is a region that hosts the orders of a shop, see package examples/shop/orders.
//
// # What this does not do
//
// It hosts no carts and no stocks: see shop-region-v2.
package main

import (
	"github.com/roost-cluster/roost/examples/shop/orders"
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/services/region/server"
)

func main() {
	server.AppVersion = "v1"
	server.Main(orders.Orders)
}
