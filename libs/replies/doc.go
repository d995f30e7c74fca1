// Package replies bounds the memory that replies take. How large a reply will be
// is known only when it is there; so what is admitted counts as much as replies to
// commands of its [Kind] took before, and a reply counts what it takes from when
// it is there until it is passed on.
//
// A region has a [Budget], shared by its connections. What finds no room waits in
// the [Queue] of its connection, before it can have any effect: commands with small
// replies pass it, those for the same entity do not. Who has waited for too much of
// its time is given back, to be refused. Connections share the budget by dynamic
// thresholds, as the ports of a switch share its buffer: none may hold more than
// what is free, so that a few that do not read cannot take it all.
//
// # What this does not do
//
// The package counts, and keeps what waits in order; it refuses nothing itself. It
// has no locks and no clock.
package replies
