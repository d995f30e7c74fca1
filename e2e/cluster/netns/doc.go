// Package netns gives processes of a test machines of their own, as far as the
// network is concerned, and cuts the wires between them. A machine is a network
// namespace with one interface on a switch that all share:
//
//	net := netns.New(t)
//	addr := net.Address("region-1")    // the machine is there from now on
//	err := net.Start("region-1", cmd)  // a process in it
//	net.Cut("region-1", "coordinator-1", "coordinator-2")
//	net.CutOneWay("gateway-1", "region-2") // only what gateway-1 sends is lost
//	net.Heal()
//
// The test's own process reaches every machine, and is never cut off. A cut
// loses packets and says nothing: connections hang as they do when a wire is
// pulled, and go on by retransmission when it is back. It works by a permanent
// entry in the sender's neighbour table that leads to a hardware address nobody
// has, so that nothing but ip is needed.
//
// # What this does not do
//
// It does not delay, reorder or duplicate packets and loses all or none of them.
// It needs Linux, root and Debian's iproute2; without, New skips the test and
// says what is missing. Nothing of it outlives the test's process: namespaces
// live as long as somebody holds them.
package netns
