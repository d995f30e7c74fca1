// Package vectors runs the published test cases of Apache Pekko's sharding and
// singleton against the cores that correspond to them. A case that is not run, or has
// another result, has a row in testdata/deviations.md with the reason.
//
// # What this does not do
//
// The cases of allocation, membership, downing, bootstrap, failure detectors and
// clocks run in their packages.
package vectors
