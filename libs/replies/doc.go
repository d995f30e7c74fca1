// Package replies bounds the memory that replies take. The size of a reply is not known
// before the command has run. So an admitted command reserves what replies to commands
// of its [Kind] took before, and a reply counts with its size until it is sent.
//
// A region has a [Budget], shared by its connections. Commands that exceed it wait in
// the [Queue] of their connection, before they can have any effect. Commands with small
// replies overtake them, except those for the same entity. A command that has waited for
// too much of its time is taken out, to be refused. Connections share the budget by
// dynamic thresholds, as the ports of a switch share its buffer: none may hold more than
// what is free, so that a few that do not read cannot take all of it.
//
// # What this does not do
//
// The package counts, and keeps waiting commands in order; it sends no refusals itself.
// It has no locks and no clock.
package replies
