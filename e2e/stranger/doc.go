// Package stranger takes the module that `roost new region` writes, and builds, tests and
// runs it without a checkout of this repository: Roost's modules come from a module proxy,
// without replace directives.
//
// # What this does not do
//
// It publishes nothing. The coordinator and the gateway come from the workspace.
package stranger
