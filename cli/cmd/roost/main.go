// Command roost starts a cluster on this machine, and inspects and controls clusters.
// `roost --help` lists its commands.
//
// # What this does not do
//
// It is not part of a cluster: commands use the public APIs of gateways and coordinators,
// and `roost dev` only starts the processes of the services.
package main

import (
	"context"
	"os"
	"os/signal"

	_ "github.com/roost-cluster/roost/libs/backends/all"
)

func main() {
	// A command other than dev ends at the first Ctrl-C; dev handles it itself.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
