// Package discovery answers one question: where may peers be? The answer is a list
// of addresses to try, nothing more.
//
// [Backend] is the Go interface that a backend, such as etcd or DNS, implements. Its main
// method is a single lookup ([Backend.Peers]). [Watch] adds what all Backends need: it repeats
// lookups with back-off and jitter, sorts the answer and removes duplicates, keeps the last
// good answer while the Backend fails, notifies of changes, and knows the age of its answer.
//
// A Backend may implement more. If it is a [Follower], the Watch waits for changes instead of
// looking up at intervals. If it is a [Registrar], processes register themselves, and a
// [Registration] maintains the entry of its own process. Package open opens Backends by URL, and
// package discoverytest tests them.
//
// # What this does not do
//
// A listed peer may be dead, and a live one may be missing: membership decides which nodes
// are there. If a list has host names, as SRV records do, the package does not resolve them:
// the code that dials a peer does.
package discovery
