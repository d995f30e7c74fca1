// Command coordinator decides which region owns which shard: one is active,
// the others stand by.
package main

import "github.com/roost-cluster/roost/services/coordinator/server"

func main() { server.Main() }
