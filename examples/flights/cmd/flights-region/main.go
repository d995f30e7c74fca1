// Command flights-region is a region that hosts the airports and routes of the
// flights demonstration. A region of your own looks the same, with your types.
//
// # What this does not do
//
// It carries no flights; command flights does, through gateways.
package main

import (
	"github.com/roost-cluster/roost/examples/flights"
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/services/region/server"
)

func main() { server.Main(flights.Airports, flights.Routes) }
