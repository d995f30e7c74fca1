// Command bench-region is the region of the benchmarks.
//
// # What this does not do
//
// It is not an example: its entities are never passivated.
package main

import (
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/services/region/server"
)

func main() { server.Main(entities.Types()...) }
