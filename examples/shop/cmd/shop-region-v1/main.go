// Command shop-region-v1 is a region that hosts version 1 of the shop.
//
// # What this does not do
//
// A program of your own has one such command, which is built again for each version; here
// two versions are kept side by side. The build of your own sets the version, and so
// its main has one line.
package main

import (
	shop "github.com/roost-cluster/roost/examples/shop/v1"
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/services/region/server"
)

func main() {
	server.AppVersion = "v1"
	server.Main(shop.Carts, shop.Stocks)
}
