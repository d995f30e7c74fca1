// Package mutanttest runs tests with guards switched off. It is empty without the build tag "mutants", see
// tools/cmd/mutants.
//
// # What this does not do
//
// It starts no process: the tests that it runs share the memory of the test that calls it.
package mutanttest
