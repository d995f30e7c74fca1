package e2e_test

import _ "github.com/roost-cluster/roost/libs/backends/all"
