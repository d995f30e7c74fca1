// Package netns gives each process of a test its own network, as if it ran on its own
// machine, and cuts the connections between them. A machine is a network
// namespace with one interface on a switch that all share:
//
//	net := netns.New(t)
//	addr := net.Address("region-1")    // the machine is there from now on
//	err := net.Start("region-1", cmd)  // a process in it
//	net.Cut("region-1", "coordinator-1", "coordinator-2")
//	net.CutOneWay("gateway-1", "region-2") // only what gateway-1 sends is lost
//	net.Heal()
//
// The test's own process reaches every machine, and is never cut off. A cut silently
// drops packets: connections hang as when a cable is pulled, and continue by
// retransmission when the cut is healed. A cut is a permanent entry in the neighbour table
// of the sender, with a hardware address that does not exist. So no other program than ip
// is needed.
//
// # What this does not do
//
// It does not delay, reorder or duplicate packets and loses all or none of them.
// It needs Linux, root and Debian's iproute2; without them, New skips the test
// and reports what is missing. Nothing remains after the test's process: a namespace
// exists only as long as a process uses it.
package netns
