// Command bench-region is the region that benchmarks speak to.
//
// # What this does not do
//
// It is no example: its entities are never put to sleep.
package main

import (
	"github.com/roost-cluster/roost/e2e/bench/entities"
	"github.com/roost-cluster/roost/services/region/server"
)

func main() { server.Main(entities.Types()...) }
