// Package membership simulates the membership of large clusters: the real core
// of every node on one goroutine, in virtual time, driven by events so that
// idle nodes cost little. It measures what the documentation says about size,
// in rounds, seconds and bytes of the real encoding; docs/inside/membership.md has the
// figures.
//
//	make sim-membership N=1000
//
// joins N nodes at once, and measures what they send when nothing happens. Then it kills one
// node, one in a hundred, and one in ten, and cuts others off in one direction, in part, and
// altogether. That takes about a minute of CPU time for 1,000 nodes, and four minutes for
// 2,400. go test runs small clusters with all checks; the build tag "mutants" runs them again
// with one guard removed at a time.
//
// # What is checked
//
//   - A removed node never comes back.
//   - The view of a node only moves forward.
//   - No node acts on gossip that is too old.
//   - A node that gets no processor time does not cause the removal of others.
//   - After the faults end, the live nodes hold the same view.
//
// # What this does not do
//
// The network here has no bandwidth and nodes have no load: seconds count the
// protocol alone.
package membership
