// Package cluster starts a whole Roost cluster as real processes on this machine, on
// loopback, and can kill, stop and restart each of them. `roost dev`, demonstrations
// and end-to-end tests use it.
//
//	c, err := cluster.Start(ctx, cluster.Options{
//		Coordinators: 2, Regions: 3, Gateways: 2, Dir: dir, BinDir: "bin",
//	})
//	defer c.Close(context.Background())
//	err = c.Ready(ctx)
//	err = c.Kill("region-2")
//	err = c.Restart(ctx, "region-2")
//
// Processes are named role-number, from 1. What they print is appended to Dir/logs/name.log, after
// the output of earlier processes of that name. The journal and the lease are SQLite files in Dir,
// so that a cluster started later in the same Dir finds the state.
//
// # No process survives the launcher
//
// The launcher is the process that calls Start. All processes die with it, however it dies:
// Close stops them, each of them watches its parent, and on Linux the kernel kills them. Each
// has a process group of its own, so that Ctrl-C in a terminal reaches only the launcher,
// which then shuts them down gracefully: gateways, then regions, then coordinators.
//
// # What this does not do
//
// It does not restart what died, does not build binaries, and does not reach
// beyond this machine; Options.Address and Options.Start may give processes
// networks of their own. It is made for Unix; elsewhere the processes end a
// moment after the launcher.
package cluster
