// Command pack-coordinator is a coordinator with an allocation strategy of its own, which is
// chosen by allocation.strategy=pack, or by allocation.types for one type.
//
// # What this does not do
//
// It has nothing of its own: the strategy is in package examples/pack.
package main

import (
	"github.com/roost-cluster/roost/examples/pack"
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/services/coordinator/server"
)

func main() { server.Main(server.WithStrategy("pack", pack.Strategy{PerRegion: 2000})) }
