// Command bench-region is the region of the benchmarks.
//
// # What this does not do
//
// It is not an example: its entities are never passivated.
package main

import (
	"os"
	"strconv"

	"github.com/roost-cluster/roost/e2e/bench/entities"
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/services/region/server"
)

func main() {
	shards := uint32(entities.Shards)
	if n, err := strconv.ParseUint(os.Getenv(entities.ShardsVariable), 10, 32); err == nil {
		shards = uint32(n)
	}
	server.Main(entities.Types(shards)...)
}
