package importer

import (
	_ "example.com/x/y"

	_ "github.com/roost-cluster/roost/libs/gossip/agent"
	_ "github.com/roost-cluster/roost/libs/sharding"
)
