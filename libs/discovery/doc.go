// Package discovery answers one question: where may peers be? The answer is a list
// of addresses to try, nothing more.
//
// A [Driver] has a single method and is as simple as possible. [Watch] adds what
// all drivers need: it repeats lookups with back-off and jitter, sorts the answer
// and removes duplicates, keeps the last good answer while the driver fails,
// notifies of changes, and knows the age of its answer. If the driver is a
// [Follower], the Watch waits for changes instead of looking up at intervals. If
// processes register themselves, the driver is a [Registrar] and a
// [Registration] maintains the entry. Package open opens drivers by URL, and
// package discoverytest tests them.
//
// # What this does not do
//
// A listed peer may be dead, and a live one may be missing: membership decides
// which nodes are there. It does not resolve names.
package discovery
