package server

import (
	_ "github.com/roost-cluster/roost/libs/discovery/file"
	_ "github.com/roost-cluster/roost/libs/discovery/static"
)
