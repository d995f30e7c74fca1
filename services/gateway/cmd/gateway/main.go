// Command gateway is the way into a cluster: HTTP and Twirp in, routed to the
// region that owns the entity. It hosts nothing and keeps nothing; run as many
// as you like.
package main

import (
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/services/gateway/server"
)

func main() { server.Main() }
