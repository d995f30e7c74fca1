// Package replies bounds the memory that replies take. How large a reply will be
// is known only when it is there; so what is admitted counts as much as replies to
// commands of its [Kind] took before, and a reply counts what it takes from when
// it is there until it is passed on.
//
// A region has a [Budget], shared by its connections: what finds no room waits
// unread in its connection, before it can have any effect. Connections share the
// budget by dynamic thresholds, as the ports of a switch share its buffer: none
// may hold more than what is free, so that a few that do not read cannot take it
// all.
//
// # What this does not do
//
// Nothing waits here and nothing is refused: the package counts and says whether
// there is room. It has no locks.
package replies
