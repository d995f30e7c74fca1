package server

import (
	_ "github.com/roost-cluster/roost/libs/discovery/file"
	_ "github.com/roost-cluster/roost/libs/discovery/static"
	_ "github.com/roost-cluster/roost/libs/journal/postgres"
	_ "github.com/roost-cluster/roost/libs/journal/sqlite"
	_ "github.com/roost-cluster/roost/libs/lease/consul"
	_ "github.com/roost-cluster/roost/libs/lease/memory"
	_ "github.com/roost-cluster/roost/libs/lease/sqlstore"
)
