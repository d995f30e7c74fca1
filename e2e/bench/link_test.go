package bench

import _ "github.com/roost-cluster/roost/libs/backends/all"
