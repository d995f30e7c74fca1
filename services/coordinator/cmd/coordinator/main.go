// Command coordinator decides which region owns which shard: one is active,
// the others stand by.
package main

import (
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/services/coordinator/server"
)

func main() { server.Main() }
