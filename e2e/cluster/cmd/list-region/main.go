// Command list-region is a region that hosts lists for the history tests, and volatile types.
//
// # What this does not do
//
// It has nothing of its own: the types are in package e2e/cluster/lists.
package main

import (
	"github.com/roost-cluster/roost/e2e/cluster/lists"
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/services/region/server"
)

func main() {
	server.AppVersion = "1"
	server.Main(lists.Types()...)
}
