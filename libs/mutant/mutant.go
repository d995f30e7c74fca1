// Package mutant lets a test build switch single guards off, to prove that some test
// fails without them. In a release build [On] is always false, and the compiler removes
// it; only the build tag "mutants" makes guards switchable.
//
// # What this does not do
//
// It is not a feature flag: a binary built with the tag must never serve.
package mutant
