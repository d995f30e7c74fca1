// Package membership simulates the membership of large clusters: the real core
// of every node on one goroutine, in virtual time, driven by events so that
// idle nodes cost little. It measures what the documentation says about size,
// in rounds, seconds and bytes of the real encoding; docs/membership.md has the
// figures.
//
//	make sim-membership N=1000
//
// joins N nodes at once, lets them rest, then kills one, one in a hundred, one
// in ten, cuts others off in one direction, in part, and altogether: about a minute
// of CPU time for 1,000 nodes, and four for 2,400. Small clusters run with all checks
// in go test, and again without single guards under the build tag "mutants".
//
// # What is checked
//
// A removed node never comes back; the view of a node only moves forward; nobody acts on
// gossip that is too old; no other node is removed because a node gets no processor time;
// after the faults end, the live nodes hold the same view.
//
// # What this does not do
//
// The network here has no bandwidth and nodes have no load: seconds are those
// of the protocol alone.
package membership
