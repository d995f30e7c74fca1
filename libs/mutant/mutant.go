// Package mutant switches single guards off, to prove that some test fails without them. The calls of [On] are in the copies of
// the source that tools/cmd/mutants writes; the build tag "mutants" and the overlay with these copies belong together.
//
// # What this does not do
//
// It is not a feature flag: a binary built with the tag must never serve.
package mutant
