// Package mutant lets a test build switch single guards off, to prove that
// some test dies without them. In a release build [On] is the constant false
// and the compiler removes every trace of it; only the build tag "mutants"
// makes the guards switchable.
//
// # What this does not do
//
// It is no feature switch: a binary built with the tag must never serve.
package mutant
