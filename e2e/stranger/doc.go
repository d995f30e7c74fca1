// Package stranger builds, tests and runs a module as somebody does who has no checkout of
// this repository: with the modules of Roost from a module proxy, nothing replaced, and what
// `roost new region` writes.
//
// # What this does not do
//
// It publishes nothing. The coordinator and the gateway are those of the workspace.
package stranger
