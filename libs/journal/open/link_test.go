package open

import (
	_ "github.com/roost-cluster/roost/libs/journal/postgres"
	_ "github.com/roost-cluster/roost/libs/journal/sqlite"
)
