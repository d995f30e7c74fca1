// Command bank-region is a region that hosts the accounts of the bank.
//
// # What this does not do
//
// It has nothing of its own: the accounts are in package examples/bank.
package main

import (
	"github.com/roost-cluster/roost/examples/bank"
	_ "github.com/roost-cluster/roost/libs/backends/all"
	"github.com/roost-cluster/roost/services/region/server"
)

func main() { server.Main(bank.Accounts) }
